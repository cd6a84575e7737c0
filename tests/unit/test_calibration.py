"""Probabilities that are written mean what they say, and are calibrated without gold."""

from dataclasses import replace

import numpy as np
import pytest
import yaml
from data_folders import folder_of

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items
from crowdsweep.labelling.calibration import ENOUGH_GOLD, LUCK, Calibration, calibrate
from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.labelling.labelled import labelled_items
from crowdsweep.labelling.temperature import Unseen, curve, mean_temperature, tempered


def unseen_answers(random, sharpness, n=4000):
    """Answers of accuracy .8, of which probabilities know the truth as well as they say at this sharpness."""
    known = random.dirichlet([0.6, 0.6], n)
    truth = (random.random(n) < known[:, 1]).astype(np.int64)
    answer = np.where(random.random(n) < 0.8, truth, 1 - truth)
    said = known**sharpness / (known**sharpness).sum(axis=1, keepdims=True)
    return Unseen(probs=said, n_answers=np.ones(n), answer=answer, certainty=np.ones(n), weight=np.ones(n))


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 3.0])
def test_answers_tell_the_temperature_of_probabilities_that_do_not_know_them(sharpness):
    found = mean_temperature(curve(unseen_answers(np.random.default_rng(3), sharpness), smoothing=0.0))
    assert found == pytest.approx(sharpness, rel=0.35)


def test_nothing_changes_the_order_of_classes():
    random = np.random.default_rng(0)
    probs = random.dirichlet(np.ones(4), 50)
    counts = random.integers(1, 9, 50).astype(np.float64)
    for temperature, smoothing in ((0.3, 0.0), (5.0, 0.0), (0.3, 0.5), (1.0, 0.5)):
        again = tempered(probs, counts, temperature, smoothing)
        assert (again.argsort(axis=1) == probs.argsort(axis=1)).all()
        assert again.sum(axis=1) == pytest.approx(1.0)
    assert tempered(probs, counts, 1.0, 0.0) == pytest.approx(probs)
    several = Calibration(temperature=2.0, luck=0.1).of(probs, counts, multilabel=True)
    assert ((several > 0.5) == (probs > 0.5)).all()


def erring_alike(n_items=150, gold=0):
    """Ten annotators who copy one of two leaders: a model that counts ten opinions is far too sure."""
    random = np.random.default_rng(5)
    truth = random.integers(0, 2, n_items)
    leaders = np.where(random.random((2, n_items)) < 0.8, truth, 1 - truth)
    item, annotator = np.repeat(np.arange(n_items), 10), np.tile(np.arange(10), n_items)
    label = leaders[annotator % 2, item]
    label = np.where(random.random(len(label)) < 0.1, 1 - label, label)
    known = np.arange(gold, dtype=np.int32)
    return truth, CrowdDataset(
        name="alike",
        annotations=Annotations.of(
            item=item, annotator=annotator, label=label, n_items=n_items, n_annotators=10, n_classes=2
        ),
        items=Items(n_items=n_items),
        split=np.zeros(n_items, np.int8),
        gold=Gold(item=known, label=truth[:gold].astype(np.int32)),
        item_names=[f"i{code}" for code in range(n_items)],
        annotator_names=[f"a{code}" for code in range(10)],
        class_names=("no", "yes"),
    )


def test_written_probabilities_are_better_than_raw_ones():
    truth, data = erring_alike()
    fitted = fit_everything("one-coin", {}, data, {}, n_seeds=1)
    labelled = labelled_items(fitted)
    assert labelled.calibrations.answered.by == "held-out answers"
    loss, raw = (-np.log(probs[np.arange(150), truth]).mean() for probs in (labelled.probs, labelled.raw))
    assert loss < raw
    assert labelled.probs.max() <= 1 - LUCK / 2 + 1e-12, "what all get wrong alike, no answer of theirs shows"
    assert (labelled.probs.argmax(axis=1) == labelled.raw.argmax(axis=1)).all()


def test_gold_decides_where_there_is_enough():
    for gold, by in ((0, "held-out answers"), (1, "gold and held-out answers"), (ENOUGH_GOLD + 30, "gold")):
        _, data = erring_alike(gold=gold)
        found = calibrate(fit_everything("one-coin", {}, data, {}, n_seeds=1)).answered
        assert found.by == by
    assert (found.rows, found.temperature > 1) == (gold, True)


def wrong_alike(seed, share):
    """Twelve annotators, right in 0.85, but all wrong in the same way on this share of the items; twenty with gold."""
    random = np.random.default_rng(seed)
    truth, n_items = random.integers(0, 3, 400), 400
    seems = np.where(random.random(n_items) < share, (truth + 1) % 3, truth)
    item = np.repeat(np.arange(n_items), 5)
    annotator = np.concatenate([random.choice(12, 5, replace=False) for _ in range(n_items)])
    label = np.where(random.random(len(item)) < 0.85, seems[item], random.integers(0, 3, len(item)))
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=n_items, n_annotators=12, n_classes=3)
    known = np.sort(random.choice(n_items, 20, replace=False)).astype(np.int32)
    return truth, replace(
        erring_alike(n_items)[1],
        annotations=rows,
        gold=Gold(item=known, label=truth[known].astype(np.int32)),
        annotator_names=[f"a{code}" for code in range(12)],
        class_names=("a", "b", "c"),
    )


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_gold_of_a_few_items_moves_what_is_said_of_the_others(share):
    """Towards what is true of them, whether they are surer than held-out answers show, or all wrong alike."""
    away = {"few": 0.0, "none": 0.0}
    for seed in range(4):
        truth, data = wrong_alike(seed, share)
        others = np.setdiff1d(np.arange(len(truth)), data.gold.item)
        for gold in away:
            kept = (
                data
                if gold == "few"
                else replace(data, gold=Gold(item=truth[:0].astype(np.int32), label=truth[:0].astype(np.int32)))
            )
            probs = labelled_items(fit_everything("dawid-skene", {}, kept, {}, n_seeds=1)).probs[others]
            away[gold] += abs(probs.max(axis=1).mean() - (probs.argmax(axis=1) == truth[others]).mean()) / 4
    assert away["few"] < 0.75 * away["none"]


def test_one_answer_an_item_leaves_nothing_to_choose_by():
    _, data = erring_alike(n_items=40)
    once = replace(data, annotations=data.annotations.take(data.annotations.annotator == 0))
    found = calibrate(fit_everything("majority-vote", {}, once, {}, n_seeds=1)).answered
    assert (found.by, found.rows) == ("nothing", 0)
    assert "nothing to choose on" in found.words()


def test_label_says_how_it_calibrated(tmp_path, capsys):
    rows = "".join(f"p{item},w{who},{'yn'[(item + (who == 3)) % 2]}\n" for item in range(20) for who in range(4))
    folder = folder_of(tmp_path / "d", annotations="item,annotator,label\n" + rows)
    assert run_command_line(["label", str(folder), "--model", "one-coin", "--out", str(tmp_path / "o")]) == 0
    printed = capsys.readouterr().out
    assert "probabilities calibrated: temperature" in printed
    assert "without gold nothing shows what annotators get wrong alike" in printed
    recipe = yaml.safe_load((tmp_path / "o" / "label.yaml").read_text())
    assert recipe["calibration"]["by"] == "held-out answers"
    assert recipe["calibration"]["temperature"] > 0


@pytest.mark.parametrize(
    ("by", "rows", "words"),
    [
        ("gold", 1, "chosen on 1 item with gold"),
        ("gold", 1200, "chosen on 1,200 items with gold"),
        ("gold and held-out answers", 9, "chosen on 9 items with gold and held-out answers"),
        ("held-out answers", 1, "chosen on 1 held-out answer"),
        ("held-out answers", 20, "chosen on 20 held-out answers"),
        ("nothing", 0, "there was nothing to choose on"),
    ],
)
def test_what_it_was_chosen_by_is_said(by, rows, words) -> None:
    assert Calibration(temperature=1.5, by=by, rows=rows).words().endswith(f"; {words}")
