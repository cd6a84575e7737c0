"""Which clusters a fit found, and what it predicts of somebody whom it has not met, on a user's own answers."""

from dataclasses import replace

import numpy as np
import pyarrow.csv as pa_csv
import pytest

import crowdsweep as cs
from crowdsweep.errors import BadInput
from crowdsweep.labelling.clusters import cluster_tables
from crowdsweep.models.clusters import ClusteredCrowd

ITEMS, ANNOTATORS = 120, 20
TRUTH = np.random.default_rng(0).integers(0, 2, ITEMS)
SAID = ("no", "yes")


def contradicting(features: bool = False) -> cs.Data:
    """Eight answers an item; the second half of the annotators say the opposite of the first."""
    random = np.random.default_rng(1)
    rows = [(item, who) for item in range(ITEMS) for who in random.choice(ANNOTATORS, 8, replace=False)]
    right = [who < ANNOTATORS // 2 for _, who in rows]
    flipped = random.random(len(rows)) < 0.1
    table = {
        "item": [f"item {item}" for item, _ in rows],
        "annotator": [f"who {who}" for _, who in rows],
        "label": [SAID[TRUTH[rows[at][0]] ^ (not right[at]) ^ flipped[at]] for at in range(len(rows))],
    }
    known = {
        "item": [f"item {item}" for item in range(ITEMS)],
        "x": (TRUTH + random.normal(scale=0.1, size=ITEMS)).tolist(),
    }
    return cs.load(table, features=known) if features else cs.load(table)


def number(name: str) -> int:
    return int(name.rpartition(" ")[2])


def test_clusters_are_what_the_fit_found_the_largest_first() -> None:
    fit = cs.fit("pgm-bp", contradicting(), seeds=1, item_clusters=3, annotator_clusters=2)
    tables = fit.clusters
    assert tables is not None
    assert tables.annotators is not None
    crowd = ClusteredCrowd.of(fit.fitted.fits[0].result.extras)
    items = tables.items.to_pandas()
    sizes = items["cluster"].value_counts().sort_index()
    assert (np.diff(sizes) <= 0).all()
    memberships = items[["cluster_1", "cluster_2", "cluster_3"]].to_numpy()
    np.testing.assert_allclose(np.sort(memberships), np.sort(crowd.items))
    np.testing.assert_array_equal(items["cluster"], memberships.argmax(axis=1) + 1)
    np.testing.assert_array_equal(items["probability"], memberships.max(axis=1))
    annotators = tables.annotators.to_pandas()
    kinds = {number(name) < ANNOTATORS // 2: cluster for name, cluster in annotators[["annotator", "cluster"]].values}
    assert set(kinds.values()) == {1, 2}
    assert [kinds[number(name) < ANNOTATORS // 2] for name in annotators["annotator"]] == list(annotators["cluster"])
    answers = tables.answers.to_pandas()
    assert list(answers) == ["item_cluster", "annotator_cluster", "no", "yes"]
    for name, who, said in fit_rows(fit):  # each answer is likely by its clusters
        row = answers[
            (answers["item_cluster"] == items.set_index("item").loc[name, "cluster"])
            & (answers["annotator_cluster"] == annotators.set_index("annotator").loc[who, "cluster"])
        ]
        expected = TRUTH[number(name)] ^ (number(who) >= ANNOTATORS // 2)
        assert (row["yes"].item() > 0.5) == bool(expected), said


def fit_rows(fit: cs.Fit) -> list[tuple[str, str, str]]:
    data, rows = fit.fitted.dataset, fit.fitted.dataset.annotations
    return [
        (data.item_names[item], data.annotator_names[who], data.class_names[label])
        for item, who, label in zip(rows.item.tolist(), rows.annotator.tolist(), rows.label.tolist(), strict=True)
    ]


def test_a_model_without_clusters_has_no_tables_of_them() -> None:
    assert cs.fit("dawid-skene", contradicting()).clusters is None
    alone = cs.fit("fmm", contradicting(), seeds=1, item_clusters=2).clusters
    assert alone is not None
    assert alone.annotators is None
    assert alone.answers.column_names == ["item_cluster", "no", "yes"]


def test_arrays_of_a_plug_in_that_are_called_alike_are_no_clusters() -> None:
    fitted = cs.fit("pgm-bp", contradicting(), seeds=1, item_clusters=2, annotator_clusters=2).fitted
    (aligned,) = fitted.fits
    its_own = {name: aligned.result.extras[name] for name in ("item_memberships", "cluster_sizes")}
    other = replace(fitted, fits=[replace(aligned, result=replace(aligned.result, extras=its_own))])
    assert cluster_tables(fitted) is not None
    assert cluster_tables(other) is None


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("pgm-bp", {"item_clusters": 2, "annotator_clusters": 2}),
        ("pgm-annealing", {"item_clusters": 2, "annotator_clusters": 2}),
        pytest.param(
            "ldl-nm",
            {
                "epochs": 100,
                "patience": 100,
                "batch_size": 32,
                "learning_rate": 0.01,
                "dropout": 0.0,
                "item_weight": 0.0,
            },
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_few_answers_predict_the_others(model: str, settings: dict[str, float]) -> None:
    fit = cs.fit(model, contradicting(features=model == "ldl-nm"), seeds=2, **settings)
    for kind in (0, 1):
        predicts(fit, kind)


def predicts(fit: cs.Fit, kind: int) -> None:
    """Answers like those who agree (0), or like those who contradict (1), are told and predicted."""
    told = {f"item {item}": SAID[TRUTH[item] ^ kind] for item in range(6)}
    predicted = fit.new_annotator(told).to_pandas()
    assert len(predicted) == ITEMS
    others = [at for at, name in enumerate(predicted["item"]) if number(name) >= 6]
    right = [predicted["label"][at] == SAID[TRUTH[number(predicted["item"][at])] ^ kind] for at in others]
    assert np.mean(right) > 0.9
    np.testing.assert_allclose(predicted["p(no)"] + predicted["p(yes)"], 1.0, atol=1e-6)
    np.testing.assert_array_equal(predicted["probability"], predicted[["p(no)", "p(yes)"]].max(axis=1))


def test_whoever_answers_an_item_twice_is_heard_twice() -> None:
    fit = cs.fit("pgm-bp", contradicting(), seeds=1, item_clusters=2, annotator_clusters=2)
    crowd = ClusteredCrowd.of(fit.fitted.fits[0].result.extras)
    names = [fit.fitted.dataset.item_names[int(code)] for code in fit.fitted.code]
    place = names.index("item 3")
    who = crowd.new_annotator(np.array([place, place]), np.array([1, 1]))
    expected = crowd.answers(np.arange(ITEMS), who)
    found = fit.new_annotator({"item 3": ["yes", "yes"]}).to_pandas()[["p(no)", "p(yes)"]]
    np.testing.assert_allclose(found, expected)


def test_names_that_are_numbers_are_told_as_numbers() -> None:
    rows = [(item, f"annotator {who}", TRUTH[item] ^ (who % 2)) for item in range(ITEMS) for who in range(10)]
    columns = dict(zip(("item", "annotator", "label"), map(list, zip(*rows, strict=True)), strict=True))
    fit = cs.fit("pgm-bp", columns, seeds=1, item_clusters=2, annotator_clusters=2)
    expected = fit.new_annotator({"3": "1", "4": ["0", "0"]})
    for answers in ({3: 1, 4: [0, 0]}, {3: 1.0, 4: np.array([0.0, 0.0])}, {np.int64(3): np.int8(1), 4.0: (0, 0)}):
        assert fit.new_annotator(answers).equals(expected)
    with pytest.raises(BadInput, match="answers, column label"):
        fit.new_annotator({3: {"label": 1}, 4: 1})


def test_what_is_not_known_is_told() -> None:
    fit = cs.fit("pgm-bp", contradicting(), seeds=1, item_clusters=2, annotator_clusters=2)
    for answers, message in (
        ({"item 777": "yes"}, r"unknown item 'item 777'; did you mean 'item 7"),
        ({"item 7": "maybe"}, r"item 'item 7': unknown class 'maybe'; known: no, yes"),
        ({"item 7": []}, r"item 'item 7': expected an answer, got none"),
        ({}, r"expected at least one item with the answer that it was given, got none"),
    ):
        with pytest.raises(BadInput, match=message):
            fit.new_annotator(answers)
    with pytest.raises(BadInput, match="pgm-bp, pgm-annealing and ldl-nm do"):
        cs.fit("dawid-skene", contradicting()).new_annotator({"item 7": "yes"})


def test_the_folder_of_labels_holds_the_clusters(tmp_path) -> None:
    fit = cs.fit("pgm-bp", contradicting(), seeds=1, item_clusters=2, annotator_clusters=2)
    fit.save(tmp_path / "labels")
    tables = fit.clusters
    assert tables is not None
    for name, table in (
        ("item_clusters", tables.items),
        ("annotator_clusters", tables.annotators),
        ("clusters", tables.answers),
    ):
        written = pa_csv.read_csv(tmp_path / "labels" / f"{name}.csv").to_pandas()
        assert table is not None
        assert list(written) == table.column_names
        assert len(written) == table.num_rows
