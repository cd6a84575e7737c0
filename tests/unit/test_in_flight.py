"""What an executor has been given, counted as it comes and goes."""

import random
from collections import Counter

from mirror_checks import spec

from crowdsweep.resources import Resources
from crowdsweep.sweep.queues import InFlight

CPU, GPU, OTHER = Resources(), Resources(gpu=1.0), Resources(cpu=2.0)


def test_a_batch_counts_until_the_last_of_its_trials_is_over() -> None:
    flying, specs = InFlight(), [spec(seed) for seed in range(5)]
    flying.add(specs[:3], CPU)
    flying.add(specs[3:], GPU)
    assert (flying.batches(CPU), flying.batches(GPU), flying.batches(OTHER)) == (1, 1, 0)
    assert [*flying] == [one.key for one in specs]
    for one in specs[:2]:
        flying.remove(one.key)
    assert (flying.batches(CPU), len(flying)) == (1, 3)
    flying.remove(specs[2].key)
    assert (flying.batches(CPU), flying.batches(GPU)) == (0, 1)
    assert specs[2].key not in flying
    assert specs[3].key in flying


def test_what_is_not_there_changes_nothing() -> None:
    flying = InFlight()
    flying.add([spec(0)], CPU)
    flying.remove("another")
    flying.remove(spec(0).key)
    flying.remove(spec(0).key)
    assert not flying
    assert flying.batches(CPU) == 0


def test_a_trial_that_is_submitted_again_is_of_its_new_batch() -> None:
    flying = InFlight()
    flying.add([spec(0)], GPU)
    flying.remove(spec(0).key)
    flying.add([spec(0), spec(1)], CPU)
    assert (flying.batches(CPU), flying.batches(GPU), len(flying)) == (1, 0, 2)


def test_counts_are_those_of_a_naive_count() -> None:
    draw, flying, left = random.Random(0), InFlight(), dict[str, tuple[int, Resources]]()
    seeds = iter(range(1000))
    for number in range(200):
        if draw.random() < 0.6 or not left:
            shape = draw.choice([CPU, GPU, OTHER])
            specs = [spec(next(seeds)) for _ in range(draw.randint(1, 3))]
            flying.add(specs, shape)
            left.update((one.key, (number, shape)) for one in specs)
        else:
            key = draw.choice([*left])
            flying.remove(key)
            del left[key]
        counts = Counter(shape for _, shape in {*left.values()})
        assert {shape: flying.batches(shape) for shape in (CPU, GPU, OTHER)} == {
            shape: counts[shape] for shape in (CPU, GPU, OTHER)
        }
        assert sorted(flying) == sorted(left)
