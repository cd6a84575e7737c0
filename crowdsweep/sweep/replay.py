"""Runs one recorded trial again, in a separate process, and compares the new numbers with the recorded ones."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk.moved import load_recorded
from crowdsweep.data.splits import data_version
from crowdsweep.engine.executor import Batch
from crowdsweep.engine.inline import InlineExecutor
from crowdsweep.errors import BadInput
from crowdsweep.metrics.metric_table import repeats_votes
from crowdsweep.metrics.wording import goal_of
from crowdsweep.record.bar import Bar
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.journal import read_journal
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.record.store_uri import Store, near
from crowdsweep.trial.learning_curve import NO_CURVE, CurveSpec

TOLERANCE = 1e-6  # relative: a trial's numbers may differ by this much between batches


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One trial: its recorded result, and the result of running it again.

    Attributes:
        recorded: the recorded result; None where the record has none yet.
    """

    spec: TrialSpec
    recorded: TrialResult | None
    now: TrialResult

    @property
    def same(self) -> bool:
        """Whether both results are ok with equal metrics (to 1e-6 relative), or both failed in the same way."""
        if self.recorded is None or self.recorded.status != self.now.status:
            return False
        if self.recorded.failure is not None and self.now.failure is not None:
            return self.recorded.failure.kind == self.now.failure.kind
        return not self.differences()

    def differences(self) -> dict[str, tuple[float | None, float | None]]:
        """Returns metric → (recorded value, new value) for the metrics that differ.

        Earlier versions scored training items without gold by the votes that trained the model. Such a metric does not
        count as a difference where the new result lacks it.
        """
        before: Mapping[str, float] = {} if self.recorded is None else self.recorded.metrics
        kept = (name for name in before if name in self.now.metrics or not repeats_votes(name, {"train": False}))
        names = [*kept, *(name for name in self.now.metrics if name not in before)]
        pairs = {name: (before.get(name), self.now.metrics.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if not _close(*pair)}

    def to_mapping(self) -> dict[str, Any]:
        """Returns JSON-able data."""
        return {
            "same": self.same,
            "spec": asdict(self.spec),
            "recorded": None if self.recorded is None else asdict(self.recorded),
            "now": asdict(self.now),
            "differences": self.differences(),
        }

    def describe(self) -> str:
        """Returns the trial and its metrics as text for people, one metric a line."""
        spec = self.spec
        params = f" {dict(spec.dataset_params)}" if spec.dataset_params else ""
        lines = [f"{spec.model} on {spec.dataset}{params}, seed {spec.seed}, key {spec.key}"]
        lines += [f"  {name} = {value}" for name, value in spec.params.items()]
        if self.now.failure is not None:
            lines += [self.now.failure.traceback or f"{self.now.failure.kind}: {self.now.failure.message}"]
        differing = self.differences()
        for name, value in self.now.metrics.items():
            note = f"   recorded: {differing[name][0]}" if name in differing else ""
            lines.append(f"{name:<28}{value:.6f}{note}")
        if self.recorded is None:
            lines.append("the record has no result of this trial yet")
        else:
            lines.append("as recorded" if self.same else "NOT as recorded")
        return "\n".join(lines)


def replay_trial(key: str, stores: Sequence[Store]) -> Replay:
    """Finds a trial by its key, or by the start of its key, and runs it again.

    Raises:
        BadInput: no record has such a trial, several have, or the data that it would run on have changed since.
    """
    found = {
        spec.key: (spec, state, store)
        for store in stores
        for state in [read_journal(store)]
        for spec in state.specs.values()
        if spec.key.startswith(key)
    }
    if not found:
        looked = ", ".join(map(str, stores)) or "any record: there is none below crowdsweep-runs/"
        raise BadInput(f"trial {key}: no such trial in {looked}; `crowdsweep results DIR` prints the keys")
    if len(found) > 1:
        raise BadInput(f"trial {key}: expected the start of one key, {len(found)} begin with it: {', '.join(found)}")
    spec, state, store = next(iter(found.values()))
    base = load_recorded(spec.dataset, spec.dataset_params, spec.fingerprint, near(store))
    if base.fingerprint != spec.fingerprint:
        raise BadInput(
            f"trial {key} of {store}: dataset {spec.dataset!r} has changed since it was run "
            f"(fingerprint {spec.fingerprint} then, {base.fingerprint} now): its numbers cannot be repeated"
        )
    version = data_version(base, spec.dataset_params, spec.heldout_fraction)
    if version != spec.data_version:
        raise BadInput(
            f"trial {key} of {store}: its annotations were left out by other rules (version {spec.data_version} then, "
            f"{version} now): its numbers cannot be repeated"
        )
    recorded = state.results.get(spec.key)
    curve_spec = _curve_to_the_stop(recorded, state.config.get("report_every", 1))
    now = _run(spec, base, curve_spec, (state.config.get("budget") or {}).get("trial_minutes"))
    return Replay(spec=spec, recorded=recorded, now=replace(now, artifacts={}))


def _curve_to_the_stop(recorded: TrialResult | None, every: int) -> CurveSpec:
    """Returns the curve spec that ends the fit where early stopping ended it before; `NO_CURVE` where nothing did."""
    if recorded is None or recorded.stopped_early is None:
        return NO_CURVE
    stop = recorded.stopped_early
    bar = Bar(
        steps=[stop.step],
        values=[stop.bar],
        end=stop.step + 1,
        higher_is_better=goal_of(recorded.watched) == "maximize",
        n_rivals=stop.n_rivals,
    )
    return CurveSpec(metric=recorded.watched, every=every, bars={recorded.key: bar})


def _run(spec: TrialSpec, base: CrowdDataset, curve_spec: CurveSpec, trial_minutes: float | None) -> TrialResult:
    """Returns the result of a trial that the inline executor runs: this process survives whatever the model does."""
    with closing(InlineExecutor({base.fingerprint: base}, trial_minutes=trial_minutes)) as executor:
        executor.submit(Batch(specs=[spec], curve_spec=curve_spec))
        while True:
            for event in executor.poll(1.0):
                if isinstance(event, TrialFinished):
                    return event.result


def _close(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is now
    return abs(before - now) <= TOLERANCE * max(abs(before), abs(now), 1e-3)
