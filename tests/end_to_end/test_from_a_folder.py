"""As a newcomer does it with a dataset folder, of every kind that there is: init → run → label."""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pytest
import yaml

from crowdsweep.cli.commands import run_command_line
from crowdsweep.models import registered
from crowdsweep.record.journal import read_journal
from crowdsweep.sweep.starter import choices
from crowdsweep.sweep.starter.begin import asked_sweep
from crowdsweep.sweepfile.read import load_sweep
from crowdsweep.sweepfile.records import SweepConfig

SMALL = ["seeds.report=2", "seeds.search=1", "budget.points=2", "tracking.enabled=false", "engine=inline"]
SMALL_SWEEP = [part for change in SMALL for part in ("--set", change)]
CLASSES = ("cat", "dog", "owl")
N, TRAIN, DEV = 90, 60, 75
NAMES = [f"i{item}" for item in range(N)]


def write(path: Path, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(header), *map(list, rows)])


def features_of(path: Path, gold: np.ndarray, random: np.random.Generator) -> None:
    features = np.eye(len(CLASSES))[gold] if gold.ndim == 1 else gold
    noisy = (features + 0.3 * random.normal(size=features.shape)).astype(np.float32)
    np.savez(path, features=noisy, item=np.array(NAMES))


def split_of(item: int) -> str:
    return "train" if item < TRAIN else "dev" if item < DEV else "test"


def a_crowd(folder: Path, random: np.random.Generator) -> np.ndarray:
    """Writes answers of eight annotators, three an item; returns the gold."""
    gold = random.integers(len(CLASSES), size=N)
    rows = [
        (NAMES[item], f"a{who}", CLASSES[gold[item] if random.random() < 0.8 else random.integers(len(CLASSES))])
        for item in range(N)
        for who in random.permutation(8)[:3]
    ]
    write(folder / "annotations.csv", ("item", "annotator", "label"), rows)
    return gold


def two_kinds_of_features(folder: Path) -> None:
    """Gold of dev and test items alone."""
    random = np.random.default_rng(1)
    gold = a_crowd(folder, random)
    write(
        folder / "items.csv",
        ("item", "split", "gold"),
        [(NAMES[item], split_of(item), CLASSES[gold[item]] if item >= TRAIN else "") for item in range(N)],
    )
    for kind in ("words", "bert"):
        features_of(folder / f"features-{kind}.npz", gold, random)


def features_and_nothing_else(folder: Path) -> None:
    random = np.random.default_rng(2)
    features_of(folder / "features-x.npz", a_crowd(folder, random), random)


def several_classes_an_item(folder: Path) -> None:
    random = np.random.default_rng(3)
    gold = random.random((N, len(CLASSES))) < 0.4
    joined = lambda chosen: "|".join(name for name, is_chosen in zip(CLASSES, chosen, strict=True) if is_chosen)  # noqa: E731
    rows = [
        (NAMES[item], f"a{who}", joined(gold[item] ^ (random.random(len(CLASSES)) < 0.1)))
        for item in range(N)
        for who in random.permutation(8)[:3]
    ]
    write(folder / "annotations.csv", ("item", "annotator", "label"), rows)
    write(folder / "classes.csv", ["label"], [[name] for name in CLASSES])
    write(folder / "items.csv", ("item", "split", "gold"), [(NAMES[i], split_of(i), joined(gold[i])) for i in range(N)])
    (folder / "dataset.yaml").write_text("scale: multilabel\n")
    features_of(folder / "features-x.npz", gold.astype(float), random)


def tokens_of_sentences(folder: Path) -> None:
    """Three tokens a sentence."""
    random = np.random.default_rng(4)
    gold = a_crowd(folder, random)
    rows = [
        (NAMES[i], f"s{i // 3}", i % 3, f"word{random.integers(9)}", split_of(i), CLASSES[gold[i]]) for i in range(N)
    ]
    write(folder / "items.csv", ("item", "sentence", "position", "token", "split", "gold"), rows)
    features_of(folder / "features-x.npz", gold, random)


def votes_of_nobody(folder: Path) -> None:
    random = np.random.default_rng(5)
    gold = random.integers(len(CLASSES), size=N)
    rows = [
        (NAMES[i], name, int(random.integers(1, 3)) + 2 * (gold[i] == k))
        for i in range(N)
        for k, name in enumerate(CLASSES)
    ]
    write(folder / "votes.csv", ("item", "label", "count"), rows)
    features_of(folder / "features-x.npz", gold, random)


def annotators_who_are_half_described(folder: Path) -> None:
    a_crowd(folder, np.random.default_rng(6))
    write(folder / "annotators.csv", ("annotator", "years"), [(f"a{who}", 3 * who) for who in range(5)])


def texts_without_features(folder: Path) -> None:
    random = np.random.default_rng(7)
    gold = a_crowd(folder, random)
    rows = [(NAMES[i], f"this is a {CLASSES[gold[i]]}", split_of(i)) for i in range(N)]
    write(folder / "items.csv", ("item", "text", "split"), rows)


KINDS: dict[Callable[[Path], None], tuple[set[str], tuple[str, ...]]] = {
    two_kinds_of_features: (
        {"soft-mv", "crowdlab", "dl-ds", "dl-em", "cmm"},
        ("60 items to train on, 15 dev items, 15 test items", "gold of 30 items", "features: bert", "[bert, words]"),
    ),
    features_and_nothing_else: ({"majority-vote", "dawid-skene", "soft-mv", "cmm"}, ("3 features, no gold",)),
    several_classes_an_item: ({"marginal", "lia-ml"}, ("60 items to train on",)),
    tokens_of_sentences: ({"soft-mv", "dl-em", "ideal"}, ("ranked by test accuracy",)),
    votes_of_nobody: ({"majority-vote", "multinomial", "soft-mv", "cmm"}, ("anonymous annotators",)),
    annotators_who_are_half_described: ({"majority-vote", "dawid-skene"}, ("annotator_features: none", "'a5'")),
    texts_without_features: (
        {"soft-mv", "crowdlab", "dl-ds", "dl-em", "cmm"},
        ("network: text_cnn", "name: ., features: {text: tfidf}", "6 features"),
    ),
}


def short_training(sweep: SweepConfig) -> list[str]:
    """How networks are trained is not what is asked here."""
    taught = [entry.label for entry in sweep.models if "steps" in registered.full_params(entry.name, {})]
    return [part for label in taught for part in ("--set", f"models.{label}.params.steps=20")]


# Texts alone are run below, with the shortest of networks; the default ones take their time. The others are of a kind
# with one that is left.
LONG = {texts_without_features, several_classes_an_item, two_kinds_of_features}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, id=kind.__name__, marks=[pytest.mark.long] * (kind in LONG)) for kind in KINDS]
)
def test_a_folder_is_begun_run_and_labelled(
    kind: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("mine")
    folder.mkdir()
    kind(folder)
    models, told = KINDS[kind]
    default = asked_sweep(folder)
    assert run_command_line(["init", "mine"]) == 0
    text = (folder / "sweep.yaml").read_text()
    for part in told:
        assert part in " ".join(text.replace("#", "").split()), part
    written = load_sweep(folder / "sweep.yaml")
    assert models <= {entry.name for entry in written.models}
    assert (default.datasets, default.models) == (written.datasets, written.models)

    assert run_command_line(["run", "mine", *SMALL_SWEEP, *short_training(written)]) == 0
    state = read_journal(Path("crowdsweep-runs/mine"))
    assert not [result for result in state.results.values() if result.failure is not None]
    assert run_command_line(["label", "crowdsweep-runs/mine"]) == 0
    labels = pa_csv.read_csv("crowdsweep-runs/mine/labels/labels.csv")
    assert labels.num_rows == N
    assert set(labels["item"].to_pylist()) == set(NAMES)


def test_the_line_for_texts_is_a_model_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    texts_without_features(Path("mine"))
    assert run_command_line(["init", "mine"]) == 0
    path = Path("mine/sweep.yaml")
    (line,) = [line for line in path.read_text().splitlines() if "text_cnn" in line]
    (entry,) = yaml.safe_load(line.replace("#", ""))
    assert entry["name"] == "soft-mv"
    path.write_text(path.read_text().replace(line, line.replace("# -", "-")))
    assert entry["label"] in {model.label for model in load_sweep(path).models}  # beside what stands there already
    short = {**entry, "params": {**entry["params"], "epochs": 1, "steps": 20}}
    only = ["--set", "seeds.report=1", "--set", f"models={yaml.safe_dump([short], default_flow_style=True, width=999)}"]
    assert run_command_line(["run", "mine", *SMALL_SWEEP, *only]) == 0
    assert "text-cnn" in Path("crowdsweep-runs/mine/table.md").read_text()


def test_where_nothing_fits_into_the_time_the_cheapest_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features_and_nothing_else(tmp_path)
    monkeypatch.setattr(choices, "SECONDS", 0.0)
    assert len(asked_sweep(tmp_path).models) == 1
