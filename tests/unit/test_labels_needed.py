"""Labels needed per item: claims vary over the items, and rest on sound fits."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.trial_table import results_table
from crowdsweep.metrics.shown import show_score
from crowdsweep.studies.axis import AxisPoint, along_axis
from crowdsweep.studies.contract import StudyResults, check_settings
from crowdsweep.studies.groups import Group
from crowdsweep.studies.labels_needed import cheaper_matches, loss_of, need_of
from crowdsweep.studies.redundancy import TEMPLATE, summarise

METRIC = "test_accuracy"
GROUP = Group(dataset="d", metric=METRIC, models={}, all_labels=None, heldout=0.0, why="")
LABELS = (1, 3, 7)
ALL = 9


def point(right: np.ndarray, *, items: bool = True, flags: Sequence[str] | None = None) -> AxisPoint:
    """A model with these items right [seeds, items]."""
    seeds = range(len(right))
    return AxisPoint(
        by_seed={METRIC: {seed: float(right[seed].mean()) for seed in seeds}},
        by_item={METRIC: {seed: right[seed].astype(np.float32) for seed in seeds}} if items else {},
        wall_s=[1.0] * len(right),
        flags=list(flags or [""] * len(right)),
    )


def votes(rng: np.random.Generator, n_items: int, n_seeds: int) -> dict[int, np.ndarray]:
    """Majority votes of 1, 3, 7 and all 9 labels of items that differ in difficulty, drawn anew for each seed."""
    labels = rng.random((n_items, ALL)) < rng.beta(3, 1.2, n_items)[:, None]
    found: dict[int, list[np.ndarray]] = {r: [] for r in (*LABELS, ALL)}
    for _ in range(n_seeds):
        order = np.argsort(rng.random(labels.shape), axis=1)
        counts = np.cumsum(np.take_along_axis(labels, order, axis=1), axis=1)
        for r, rights in found.items():
            rights.append(2 * counts[:, r - 1] > r)
    return {r: np.array(rights, dtype=np.float64) for r, rights in found.items()}


def test_intervals_of_losses_cover_what_other_items_would_lose() -> None:
    rng = np.random.default_rng(1)
    many = votes(rng, 60_000, 1)
    true = {r: float((many[ALL] - many[r]).mean()) for r in LABELS}
    inside, sure, wrong = [], 0, 0
    for _ in range(60):
        drawn = votes(rng, 100, 10)
        points = {None if r == ALL else r: point(right) for r, right in drawn.items()}
        for r in LABELS:
            loss = loss_of(points[None], points[r], GROUP)
            assert loss is not None and loss.low is not None and loss.high is not None  # noqa: PT018 - one thing
            inside.append(loss.low <= true[r] <= loss.high)
        need = need_of(points, GROUP, 0.01)
        assert need is not None
        sure += need.surely is not None
        wrong += need.surely is not None and true[need.surely] > 0.01
    assert np.mean(inside) > 0.9
    assert wrong <= max(1, 0.1 * sure)


def test_where_no_item_differs_few_items_are_still_not_sure() -> None:
    """Of 40 items that are all alike, another one in twenty might not be; of 900 hardly any."""
    for n_items, expected in ((40, None), (900, 1)):
        right = np.tile(np.arange(n_items) % 5 > 0, (3, 1)).astype(np.float64)
        need = need_of({1: point(right), None: point(right)}, GROUP, 0.01)
        assert need is not None
        assert (need.enough, need.surely) == (1, expected)


def test_seeds_alone_are_never_sure_of_a_mean_over_items() -> None:
    right = np.tile(np.arange(900) % 5 > 0, (3, 1)).astype(np.float64)
    need = need_of({1: point(right, items=False), None: point(right, items=False)}, GROUP, 0.01)
    assert need is not None
    assert (need.enough, need.surely) == (1, None)


@pytest.mark.parametrize("broken", ["flagged", "collapsed"])
def test_unsound_fits_are_enough_of_nothing(broken: str) -> None:
    good = np.tile(np.arange(900) % 5 > 0, (5, 1)).astype(np.float64)
    split = good.copy()
    split[4] = np.arange(900) % 5 == 0
    flagged = ["", "permuted", "", "", ""]
    bad = point(split) if broken == "collapsed" else point(good, flags=flagged)
    told = "1 of 5 seeds collapsed" if broken == "collapsed" else "1 of 5 trials is flagged"
    assert bad.unsound(METRIC) == told
    need = need_of({1: bad, 3: point(good), None: point(good)}, GROUP, 0.01)
    assert need is not None
    assert (need.enough, need.possibly, need.surely, need.unsound) == (3, 3, 3, "")
    need = need_of({1: bad, None: bad}, GROUP, 0.01)  # the same broken fit everywhere loses nothing
    assert need is not None
    assert (need.enough, need.possibly, need.surely, need.unsound) == (None, None, None, told)
    models = {"good": {1: point(good), None: point(good)}, "bad": {1: bad, None: bad}}
    assert cheaper_matches(models, METRIC) == []  # neither a target nor as good


def _events(scores: Mapping[tuple[str, int | None], np.ndarray]) -> list[object]:
    events: list[object] = []
    for (model, labels), right in scores.items():
        params = {} if labels is None else {"redundancy": labels}
        events += made_up_trials(model, "d", [{METRIC: float(row.mean())} for row in right], dataset_params=params)
    return events


def test_tile_chart_and_table_tell_the_same() -> None:
    rng = np.random.default_rng(2)
    scores = {("a", r): rng.random((3, 30)) < 0.9 for r in (1, None)}
    entry = {"name": "a", "label": "a", "params": {}}
    table = results_table(folded(made_up_sweep(_events(scores), models=[entry])))  # type: ignore[arg-type]
    rows = dict.fromkeys(table["key"].to_pylist())
    items = dict(zip(rows, [row.astype(np.float32) for right in scores.values() for row in right], strict=True))

    def known(keys: Sequence[str], metric: str) -> Mapping[str, np.ndarray]:
        return {key: items[key] for key in keys} if metric == METRIC else {}

    report = summarise(StudyResults(table=table, item_scores=known), check_settings(TEMPLATE, {"labels_per_item": [1]}))
    found = along_axis(table, "redundancy", [METRIC], known)["d"]["a"][1].estimate(METRIC)
    assert found is not None
    assert found.n_items == 30
    line = report.curves[0].lines[0]
    assert (line.y[0], line.low[0], line.high[0]) == (found.mean, found.low, found.high)
    cell = next(one for one in report.tables if one.title == "d: test accuracy, %").rows[0][1]
    assert str(cell) == show_score(found, METRIC).replace(" %", "")
    assert found.high is not None
    assert found.high <= 1.0
