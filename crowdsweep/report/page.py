"""The report of a sweep: one HTML page that needs nothing else, and its tables for papers.

`write_report` may be called at any time; of a sweep that still runs it reports what has finished, and says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import yaml
from markupsafe import Markup

from crowdsweep import plugins
from crowdsweep.config import Metric, PublishedValue
from crowdsweep.errors import UnknownName
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.wording import is_share, readable
from crowdsweep.report import figures
from crowdsweep.report.compare import Comparison, DatasetComparison, compare, comparison_table, describe_dataset
from crowdsweep.report.table import model_label, results_table, to_csv, to_latex, to_markdown
from crowdsweep.sinks.journal import JournalState, read_journal
from crowdsweep.studies.contract import StudyReport, StudyTemplate, check_knobs, with_gold_models
from crowdsweep.trial.result import Failure
from crowdsweep.trial.spec import TrialSpec, canonical_json

_MAX_SHOWN_FAILURES = 200


@dataclass(frozen=True, kw_only=True)
class FailedTrial:
    """A trial without numbers, and why."""

    model: str
    dataset: str
    spec: TrialSpec
    failure: Failure


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search: what it looked for, what every point was worth, what it selected."""

    model: str
    dataset: str
    metric: str
    goal: str
    points: Mapping[int, Mapping[str, Any]]
    values: Mapping[int, float | None]
    selected: Sequence[int]


@dataclass(kw_only=True)
class _Drawing:
    """Writes figures into the page; counts them, so that their ids differ."""

    count: int = field(default=0)

    def __call__(self, figure: Any, description: str) -> Markup:
        self.count += 1
        return Markup(figures.to_svg(figure, f"f{self.count}", description))  # noqa: S704 - our own drawing


def write_report(store: Path) -> Path:
    """Writes `report.html`, `table.md`, `table.csv`, `table.tex` and `results.parquet` into a sweep's store.

    Returns:
        The page's path.

    Raises:
        JournalError: there is no sweep in that folder.
    """
    state = read_journal(store)
    everything = results_table(state, "all")
    comparison = _compare(state)
    flat = comparison_table(comparison)
    pyarrow.parquet.write_table(everything, store / "results.parquet")
    (store / "table.csv").write_text(to_csv(flat), encoding="utf-8")
    (store / "table.md").write_text(to_markdown(_for_reading(flat)), encoding="utf-8")
    (store / "table.tex").write_text(to_latex(_for_reading(flat)), encoding="utf-8")
    page = store / "report.html"
    page.write_text(render_page(state, comparison, store), encoding="utf-8")
    return page


def render_page(state: JournalState, comparison: Comparison, store: Path) -> str:
    """Returns the page's HTML."""
    template = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        number=show_number, spread=show_spread, interval=show_interval, p=show_p, seconds=show_seconds, size=show_bytes
    )
    environment.filters.update(readable=readable, point=show_point)
    failed = failed_trials(state)
    return environment.from_string(template).render(
        state=state,
        comparison=comparison,
        store=store,
        written=datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC"),
        progress=_progress(state, len(failed)),
        unfinished=state.status != "done",
        table_name=(state.config.get("published") or {}).get("table") or "the paper",
        searches=list(searches(state)),
        study=study_report(state),
        failed=failed[:_MAX_SHOWN_FAILURES],
        n_failed=len(failed),
        draw=_Drawing(),
        draw_means=_means_figure,
        draw_search=lambda s: figures.search_curve(s.values, s.goal, s.metric),
        draw_curve=figures.curve,
        draw_confusion=figures.heat_map,
        confusions=_confusions(state, comparison),
        verdict=verdict,
        quality_metrics=_quality_metrics,
        printed=_printed_of,
        sweep_file=yaml.safe_dump(json.loads(json.dumps(dict(state.config))), sort_keys=False, allow_unicode=True),
    )


def verdict(block: DatasetComparison) -> str:
    """Returns the answer for one dataset in a sentence or two: the winner, and whether the runner-up is told apart."""
    if not block.ranked:
        return "No model has a score yet."
    best, *rest = block.ranked
    mean, metric = best.metrics[block.metric], block.metric
    sentence = f"{best.model} is best in {readable(metric)}: {show_number(mean.mean, metric)}"
    sentence += f" {show_interval(mean, metric)}, n = {mean.n}." if mean.low is not None else f" (n = {mean.n})."
    if mean.constant:
        sentence += " Every seed gives the same number, so there is no interval."
    if not rest:
        return sentence + " Nothing else was ranked beside it."
    second = rest[0]
    test = second.versus_best
    if test is None or test.difference is None:
        return f"{sentence} The runner-up {second.model} shares no seed with it, so they were not compared."
    if test.p_holm is None:
        if test.difference.constant and test.difference.mean == 0:
            return f"{sentence} {second.model} gives the same numbers."
        gap = f"{show_number(abs(test.difference.mean), metric)} better than {second.model}"
        return f"{sentence} It is {gap}; no test: {test.reason}."
    told = "is distinguishable" if test.distinguishable else "cannot be told apart from it"
    gap = f"difference {show_number(test.difference.mean, metric)} {show_interval(test.difference, metric)}"
    return f"{sentence} The runner-up {second.model} {told} ({test.test}, Holm p {show_p(test.p_holm)}; {gap})."


def searches(state: JournalState) -> Iterator[Search]:
    """Yields every search that has proposed a point, in the order of the journal."""
    planned = {row["study"]: row for row in state.plan.get("studies", ())}
    for study, proposals in state.proposals.items():
        row = planned.get(study, {})
        first = proposals[0]
        yield Search(
            model=row.get("label", first.model),
            dataset=describe_dataset(first.dataset, canonical_json(dict(first.dataset_params))),
            metric=row.get("metric", "value"),
            goal=row.get("goal", "maximize"),
            points={proposal.number: proposal.point for proposal in proposals},
            values=state.values.get(study, {}),
            selected=state.selected.get(study, ()),
        )


def failed_trials(state: JournalState) -> list[FailedTrial]:
    """Returns every failed trial of both phases."""
    entries = state.config.get("models", ())
    failed: list[FailedTrial] = []
    for key, spec in state.specs.items():
        result = state.results.get(key)
        if result is not None and result.failure is not None:
            dataset = describe_dataset(spec.dataset, canonical_json(dict(spec.dataset_params)))
            label = model_label(spec, entries)
            failed.append(FailedTrial(model=label, dataset=dataset, spec=spec, failure=result.failure))
    return failed


def study_report(state: JournalState) -> StudyReport | None:
    """Returns the section of the sweep's study template; None where it has none."""
    entry = state.config.get("study")
    if not entry:
        return None
    knobs = {name: value for name, value in entry.items() if name != "template"}
    template: StudyTemplate = plugins.template(entry["template"])
    table = with_gold_models(results_table(state), _gold_labels(state))
    return template.summarise(table, check_knobs(template, knobs))


def show_number(value: float | None, metric: str) -> str:
    """Returns a metric's value for reading: percent with two decimals, or three significant decimals."""
    if value is None:
        return ""
    return f"{100 * value:.2f}" if is_share(metric) else f"{value:.4f}"


def show_interval(estimate: Estimate, metric: str) -> str:
    """Returns `[81.20, 83.10]`, or nothing where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{show_number(estimate.low, metric)}, {show_number(estimate.high, metric)}]"


def show_spread(estimate: Estimate, metric: str) -> str:
    """Returns `82.15 ± 0.95`: the mean and half its interval."""
    mean = show_number(estimate.mean, metric)
    if estimate.low is None or estimate.high is None:
        return mean
    return f"{mean} ± {show_number((estimate.high - estimate.low) / 2, metric)}"


def show_p(p: float | None) -> str:
    """Returns `= .034` or `< .001`."""
    if p is None:
        return ""
    return "< .001" if p < 0.001 else f"= {p:.3f}".replace("= 0", "= ")


def show_seconds(seconds: float | None) -> str:
    """Returns seconds with three significant digits."""
    return "" if seconds is None else f"{seconds:.3g} s"


def show_bytes(size: int | None) -> str:
    """Returns bytes as MiB."""
    return "" if size is None else f"{size / 2**20:,.0f} MiB"


def show_point(point: str | Mapping[str, Any]) -> str:
    """Returns a point as `groups 3, smoothing 0.1`; a dash for the defaults."""
    values: Mapping[str, Any] = json.loads(point) if isinstance(point, str) else point
    shown = (f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items())
    return ", ".join(shown) or "–"


def _compare(state: JournalState) -> Comparison:
    wanted = state.config.get("metric")
    printed = (state.config.get("published") or {}).get("values", ())
    return compare(
        results_table(state),
        metric=Metric(name=wanted["name"], goal=wanted["goal"]) if wanted else None,
        published=[PublishedValue(**value) for value in printed],
        gold_models=_gold_labels(state),
        selected=_selected_points(state),
    )


def _selected_points(state: JournalState) -> dict[tuple[str, str, str], list[str]]:
    labels = {row["study"]: row["label"] for row in state.plan.get("studies", ())}
    selected: dict[tuple[str, str, str], list[str]] = {}
    for study, numbers in state.selected.items():
        proposals = {proposal.number: proposal for proposal in state.proposals[study]}
        first = state.proposals[study][0]
        cell = (labels.get(study, first.model), first.dataset, canonical_json(dict(first.dataset_params)))
        selected[cell] = [canonical_json(dict(proposals[number].point)) for number in numbers]
    return selected


def _gold_labels(state: JournalState) -> frozenset[str]:
    """Returns the labels of models that need gold; a model that is not installed any more is taken for one that does
    not."""
    labels: set[str] = set()
    for entry in state.config.get("models", ()):
        try:
            needs = plugins.model_info(entry["name"]).needs
        except UnknownName:
            continue
        if "gold" in needs:
            labels.add(entry.get("label") or entry["name"])
    return frozenset(labels)


def _progress(state: JournalState, n_failed: int) -> dict[str, int]:
    planned = (state.plan.get("trials") or {}).get("total") or len(state.specs)
    return {"done": len(state.results), "planned": max(planned, len(state.results)), "failed": n_failed}


def _means_figure(block: DatasetComparison, comparison: Comparison) -> Any:
    printed = _printed_of(block, comparison)
    bars = [
        figures.Bar(
            label=f"{score.model} (saw gold)" if score.saw_gold else score.model,
            estimate=score.metrics[block.metric],
            apart=score.saw_gold,
            printed=printed.get(score.model),
        )
        for score in [*block.ranked, *block.gold]
    ]
    return figures.means_with_intervals(bars, block.metric)


def _printed_of(block: DatasetComparison, comparison: Comparison) -> dict[str, float]:
    return {
        entry.published.model: entry.published.value
        for entry in comparison.published
        if entry.block is block and entry.published.metric == block.metric
    }


def _quality_metrics(block: DatasetComparison) -> list[str]:
    """Returns the metrics of a dataset's models, counts left out, those of test items first."""
    names = {name for score in block.scores for name in score.metrics if not name.startswith("n_")}
    return sorted(names, key=lambda name: (not name.startswith("test_"), not name.startswith("dev_"), name))


def _confusions(state: JournalState, comparison: Comparison) -> dict[tuple[str, str], tuple[str, list[list[float]]]]:
    """Returns the crowd's estimated matrix by dataset, mean over seeds, of the best ranked model that has one."""
    by_cell: dict[tuple[str, str, str, str], list[Any]] = {}
    entries = state.config.get("models", ())
    for key, spec in state.specs.items():
        result = state.results.get(key)
        if result is None or result.confusion is None or "report" not in state.phases[key]:
            continue
        params, point = canonical_json(dict(spec.dataset_params)), canonical_json(dict(spec.point))
        by_cell.setdefault((spec.dataset, params, model_label(spec, entries), point), []).append(result.confusion)
    found: dict[tuple[str, str], tuple[str, list[list[float]]]] = {}
    for block in comparison.datasets:
        for score in [*block.ranked, *block.unranked]:
            matrices = by_cell.get((block.dataset, block.dataset_params, score.model, score.point))
            if matrices:
                mean = np.mean(np.asarray(matrices, dtype=np.float64), axis=0)
                found[block.dataset, block.dataset_params] = (score.model, mean.tolist())
                break
    return found


def _for_reading(flat: pa.Table) -> pa.Table:
    """Returns the comparison with fewer columns, rounded and with the interval in one cell, for Markdown and LaTeX."""
    rows = [
        {
            "dataset": describe_dataset(row["dataset"], row["dataset_params"]),
            "rank": "" if row["rank"] is None else str(row["rank"]),
            "model": row["model"] + (" (saw gold)" if row["saw_gold"] else ""),
            "metric": readable(row["metric"]) if row["metric"] else "",
            "mean": show_number(row["mean"], row["metric"]),
            "95 % interval": show_interval(_as_estimate(row), row["metric"]) if row["mean"] is not None else "",
            "n": str(row["n"]),
            "p (Holm)": show_p(row["p_holm"]).removeprefix("= "),
            "printed": show_number(row["printed"], row["metric"]),
            "seconds": "" if row["wall_s"] is None else f"{row['wall_s']:.3g}",
        }
        for row in flat.to_pylist()
    ]
    columns = ["dataset", "rank", "model", "metric", "mean", "95 % interval", "n", "p (Holm)", "printed", "seconds"]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in columns]))


def _as_estimate(row: Mapping[str, Any]) -> Estimate:
    return Estimate(n=row["n"], mean=row["mean"], sd=row["sd"], low=row["low"], high=row["high"])
