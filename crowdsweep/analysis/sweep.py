"""The findings of a sweep as one object, made from its journal; page, tables, terminal, MLflow and Python show it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from crowdsweep.analysis import phrases
from crowdsweep.analysis.answer import Answer, answer_of
from crowdsweep.analysis.compare import Comparison, DatasetComparison, compare
from crowdsweep.analysis.kept_arrays import KeptScores
from crowdsweep.analysis.maps import Maps, maps_of
from crowdsweep.analysis.next_steps import NextStep, next_steps
from crowdsweep.analysis.pivot import Pivot, pivot_of
from crowdsweep.analysis.searches import SearchShown, searches
from crowdsweep.analysis.sections.baselines import Baselines, baseline_values, baselines_beside
from crowdsweep.analysis.sections.confusions import CrowdMatrix, crowd_matrices
from crowdsweep.analysis.sections.guidance import Guidance, guidance_of
from crowdsweep.analysis.sections.soft_labels import SoftLabels, soft_labels_of
from crowdsweep.analysis.sections.stopped_early import StoppedFits, stopped_fits
from crowdsweep.analysis.sections.training import Curves, training_curves
from crowdsweep.analysis.sections.unseen_annotators import UnseenAnnotators, unseen_annotators
from crowdsweep.analysis.status import (
    CRASHED,
    RUNS,
    FailedTrial,
    counted_trials,
    failed_trials,
    has_crashed,
    left_out_words,
)
from crowdsweep.analysis.study import gold_models, study_report, template_of
from crowdsweep.analysis.trade_offs import TradeOffs, trade_offs
from crowdsweep.analysis.trial_table import comparison_rows, results_table
from crowdsweep.analysis.winners import Winners, winners_of
from crowdsweep.errors import UnknownName
from crowdsweep.metrics.wording import goal_of
from crowdsweep.record.array_names import ItemScores, no_item_scores
from crowdsweep.record.journal import open_rows, read_journal
from crowdsweep.record.naming import short_name
from crowdsweep.record.plan_record import DatasetRecord
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial, datasets_of, left_out_as_data_changed, shown_trials
from crowdsweep.record.spec import Place
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store
from crowdsweep.studies.contract import StudyReport, StudyTemplate
from crowdsweep.sweepfile.records import Metric, PublishedValue


@dataclass(frozen=True, kw_only=True, eq=False)
class AnalysedSweep:
    """Findings of a sweep, from its record at one moment.

    Each part is computed once, when it is first used: the comparison of thousands of trials takes seconds, and so does
    every map.

    Attributes:
        rows: rows of the journal, beside which the trials' arrays are stored.
    """

    store: Store
    state: JournalState
    rows: Rows

    @cached_property
    def trials(self) -> list[ShownTrial]:
        """All trials that the sweep asks for now."""
        return shown_trials(self.state)

    @cached_property
    def comparison(self) -> Comparison:
        """Comparison of the models, as the sweep file asks for it."""
        return comparison_of(self.state, self._item_scores, self._rows_compared)

    def ranked_by(self, metric: str | None) -> Comparison:
        """Returns the comparison of the models by another metric than the report's.

        Args:
            metric: full name of the metric, such as `test_macro_f1`; None for that of the report.

        Raises:
            BadInput: no finished trial of the report phase has the metric, or the metric has no goal (maximize or
                minimize).
        """
        if metric is None:
            return self.comparison
        check_metric(metric, self.comparison.datasets)
        return comparison_of(self.state, self._item_scores, self._rows_compared, by=metric)

    def pivot(self, metric: str | None = None) -> Pivot:
        """Returns the pivot table, by the metric that ranks in the report or another one.

        Raises:
            BadInput: as for `ranked_by`.
        """
        paper = (self.state.config.get("published") or {}).get("table") or ""
        return pivot_of(self.ranked_by(metric), sweep=self.state.name, paper=paper)

    @cached_property
    def study(self) -> StudyReport | None:
        """Report section of the study template; None where the sweep has no study."""
        return study_report(self.state, self._item_scores, self._rows_compared)

    @cached_property
    def winners(self) -> list[Winners]:
        """The best models along the axis of a study; empty without one."""
        return [] if self._template is None else winners_of(self.comparison, self._template)

    @cached_property
    def answers(self) -> list[Answer]:
        """Recommendation for each dataset."""
        return [answer_of(self.state, block, self.trials) for block in self.comparison.datasets]

    @cached_property
    def searches(self) -> list[SearchShown]:
        """Every search that has proposed a point."""
        return list(searches(self.state, self.comparison))

    @cached_property
    def crowds(self) -> list[CrowdMatrix]:
        """The crowd's confusion matrix on each dataset that has one."""
        return crowd_matrices(self.state, self.trials, self.comparison, self.rows)

    @cached_property
    def next_steps(self) -> list[NextStep]:
        """Suggested next steps; for a study, from its full datasets alone."""
        whole = [one for one in self.answers if not self.winners or any(w.whole is one.block for w in self.winners)]
        return next_steps(whole, self.study, self.searches, self.crowds, self.store)

    @cached_property
    def baselines(self) -> Mapping[Place, Baselines]:
        """Scores of baselines that need no fit, by dataset, where models are ranked against label distributions."""
        values, blocks = baseline_values(self.state, self.trials, self.rows), self.comparison.datasets
        found = {block.place: baselines_beside(block, values.get(block.place, {})) for block in blocks}
        return {place: baselines for place, baselines in found.items() if baselines is not None}

    @cached_property
    def maps(self) -> Maps:
        """Maps of annotators, items and clusters, as models learned them."""
        return maps_of(self.state, self.trials, self.rows, self._template.axis if self._template is not None else "")

    @cached_property
    def training(self) -> Mapping[Place, Curves]:
        """Learning curves on dev items, by dataset."""
        return training_curves(self.state, self.trials)

    @cached_property
    def stopped_early(self) -> Mapping[str, StoppedFits]:
        """Search key → its fits, for searches that stopped some of them early."""
        return stopped_fits(self.state, self.trials)

    @cached_property
    def trade_offs(self) -> Mapping[str, TradeOffs]:
        """Search key → its points by all objectives, for searches of several objectives."""
        return trade_offs(self.state, self.searches, self.trials)

    @cached_property
    def guidance(self) -> Sequence[Guidance]:
        """Effect of guidance by clusters."""
        return guidance_of(self.state, self.trials, self.rows, self.comparison.datasets)

    @cached_property
    def soft_labels(self) -> Sequence[SoftLabels]:
        """Effect of soft labels."""
        return soft_labels_of(self.state, self.trials, self.rows)

    @cached_property
    def unseen_annotators(self) -> Mapping[Place, Sequence[UnseenAnnotators]]:
        """How well models predict the labels of annotators that they were not trained on, by dataset."""
        return unseen_annotators(self.state, self.trials, self.rows)

    @cached_property
    def failed(self) -> list[FailedTrial]:
        """The trials that failed, of both phases."""
        return failed_trials(self.state, self.trials)

    @cached_property
    def standing(self) -> str:
        """Status of the sweep; `crashed` where its driver died without recording its end."""
        return CRASHED if has_crashed(self.state, self.store) else self.state.status

    @property
    def is_at_work(self) -> bool:
        """Whether the sweep is running or about to run, as far as is known."""
        return self.standing in RUNS

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Number of trials that have finished in any way, are planned, failed, and were stopped early."""
        return counted_trials(self.state, self.trials)

    @cached_property
    def left_out(self) -> list[str]:
        """Why finished trials are left out, a line for each reason."""
        changed = left_out_as_data_changed(self.state, self.trials)
        return left_out_words(
            len(self.state.results.keys() - {trial.spec.key for trial in self.trials}),
            {short_name(name, datasets_of(self.state.plan)): number for name, number in changed.items()},
        )

    @cached_property
    def notes(self) -> list[str]:
        """Sentences on caveats that a reader of the results must know."""
        return [
            *phrases.ranked_by_heldout(self.comparison),
            *phrases.chosen_by_gold(self.comparison, self.state.plan.searches),
            *phrases.refused(self.state.plan.refused, {row.dataset for row in self.state.plan.datasets}),
            *phrases.flagged_notes(self.state, self.trials),
        ]

    @cached_property
    def notes_below_a_table(self) -> list[str]:
        """The notes for output without a report page, which also name datasets on which no model can be scored."""
        return [*phrases.unscored(self.comparison), *self.notes]

    def results(self) -> pa.Table:
        """Returns the table of all finished trials, of both phases (`results_table`)."""
        return results_table(self.state, "all", shown=self.trials)

    @cached_property
    def _rows_compared(self) -> pa.Table:
        return comparison_rows(self.state, self.trials)

    @cached_property
    def _template(self) -> StudyTemplate | None:
        return template_of(self.state)

    @cached_property
    def _item_scores(self) -> ItemScores:
        return KeptScores(self.state, self.rows)


def analysed(store: Store) -> AnalysedSweep:
    """Reads the record of a sweep and returns its findings.

    Raises:
        JournalError: there is no sweep in that store.
    """
    rows = open_rows(store)
    return AnalysedSweep(store=store, state=read_journal(store, rows=rows), rows=rows)


def check_metric(metric: str | None, blocks: Sequence[DatasetComparison]) -> None:
    """Checks that models can be ranked by a metric.

    Args:
        metric: full name of the metric; nothing is checked where it is None.
        blocks: comparisons, by any metric, of the trials that are to be ranked.

    Raises:
        BadInput: none of the trials has the metric, or the metric has no goal (maximize or minimize).
    """
    known = {name for block in blocks for score in block.scores for name in score.metrics}
    able = sorted(name for name in known if goal_of(name) is not None)
    if metric is not None and metric not in able:
        raise UnknownName("metric of these trials", metric, able)


def references_of(state: JournalState) -> dict[Place, DatasetRecord]:
    """Returns (dataset, parameters) → what its models are scored against."""
    return {row.place: row for row in state.plan.datasets}


def comparison_of(
    state: JournalState, item_scores: ItemScores = no_item_scores, rows: pa.Table | None = None, *, by: str = ""
) -> Comparison:
    """Compares the models of a sweep, as its file asks for it.

    Args:
        item_scores: looks up the scores of single items; without it, intervals and tests vary over seeds alone.
        rows: `comparison_rows` of the state, where they are known already.
        by: full name of the metric that ranks; empty for that of the report.
    """
    wanted = state.config.get("metric")
    printed = (state.config.get("published") or {}).get("values", ())
    return compare(
        comparison_rows(state) if rows is None else rows,
        metric=Metric(name=wanted["name"], goal=wanted["goal"]) if wanted else None,
        published=[PublishedValue(**value) for value in printed],
        gold_models=gold_models(state),
        references=references_of(state),
        item_scores=item_scores,
        by=by,
    )
