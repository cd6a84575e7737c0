"""A model that runs out of memory inside a slot, on both engines: fewer at a time, and who gets none alone fails."""

import pytest
from executor_checks import batch_of, datasets, drained, finished, specs_on

from crowdsweep.engine.executor import Executor
from crowdsweep.engine.inline import InlineExecutor
from crowdsweep.engine.ray_actors import RayExecutor

RAY = pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.xdist_group("ray")])


@pytest.mark.parametrize("engine", ["inline", RAY])
def test_only_who_gets_none_alone_fails(engine: str, misbehaving: None, request: pytest.FixtureRequest) -> None:
    base = next(iter(datasets().values()))
    executor: Executor
    if engine == "inline":
        executor = InlineExecutor(datasets())
    else:
        executor = RayExecutor(datasets(), request.getfixturevalue("ray_cluster"))
    try:
        for of_torch in (True, False):
            specs = specs_on(base, "overfull", 6, of_torch=of_torch)
            executor.submit(batch_of(specs))
            results = {result.key: result for result in finished(drained(executor, len(specs)))}
            for spec in specs:
                failure = results[spec.key].failure
                assert (failure is not None) == (spec.seed % 4 == 0)
                if failure is not None:
                    assert failure.kind == "OutOfMemory"
                    assert "though it ran alone" in failure.message
                    assert "2.00 GiB" in failure.message
    finally:
        executor.close()
