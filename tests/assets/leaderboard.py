"""Writes `search_spaces/LEADERBOARD.md` and its pictures from the records of the sweeps that it tells of.

    make leaderboard
    python tests/assets/leaderboard.py [--store STORE] [--features-store STORE] [--searched-store STORE]
                                       [--features-searched-store STORE] [--features-note SENTENCE]

Every number is read from these records. A sweep that has none yet is left out of the page. The note stands behind the
machine's description, where there is more to say of it.
"""

import argparse
import platform
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.stats import ttest_1samp

from crowdsweep import machine
from crowdsweep.analysis.compare import Comparison, ModelScore
from crowdsweep.analysis.phrases import friedman_words
from crowdsweep.analysis.pivot import Pivot
from crowdsweep.analysis.sweep import AnalysedSweep, analysed
from crowdsweep.record.events import SweepStatus
from crowdsweep.units import about_words, show_bytes, show_seconds
from crowdsweep.views.figures.drawing import to_file
from crowdsweep.views.figures.of_report import figures_of
from crowdsweep.views.tables.pivot import pivot_in_markdown
from crowdsweep.views.tables.texts import to_markdown

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "search_spaces" / "LEADERBOARD.md"
SWEEPS = ("leaderboard", "leaderboard-features")
SEARCHED = ("leaderboard-searched", "leaderboard-features-searched")
TITLES = (
    "Models of labels alone: who labels items right",
    "Models with features: who labels items that nobody labelled",
)
ACCURACY = ("train_accuracy", "test_accuracy")
BRIER = ("train_brier", "test_brier")
INTRODUCTION = """\
# Models on the public datasets

Made by `make leaderboard`. But for the last part every model stands at its defaults: nothing is tuned, and no dataset
was chosen for what it says. In tables, bold is the best on a dataset, and what is in italics is not significantly worse
than it; the figures say which models differ over all datasets. These tests take datasets for independent, which
medical-causes and medical-treats, of the same sentences and annotators, are not quite. `crowdsweep report` of a sweep
has each number with its test.
"""
PROSE = (
    """\
`leaderboard.yaml`. Items are scored as they are labelled, against gold that no model sees.
""",
    """\
`leaderboard-features.yaml`. Items are scored that did not train. `ideal` learns from gold and is no competitor. There
is no held-out likelihood, as reported fits train on every annotation. Printed values are of the papers' own settings,
and of sentiment-polarity of other features too: a difference is no error of either.
""",
)
SEARCHED_TITLES = ("Models of labels alone", "Models with features")
SEARCHED_PROSE = """\
## Does a search help?

Settings are chosen by the likelihood of held-out answers, so without gold, and fitted again to all annotations.
Accuracy is the mean over datasets; the difference has a 95 % interval in which datasets vary (t, for each model alone),
and beside it stands on how many datasets a search labels more items right, and on how many fewer. The Brier score says
how far probabilities are off: less is better.
"""
TIMES = """\
Time per trial, a share of its batch's, by the clock: other work of the machine counts too. Memory is the most of a
process that fitted the model, libraries included.
"""


def main() -> None:
    """Writes the page and a picture for each sweep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", type=Path, default=Path("crowdsweep-runs") / SWEEPS[0])
    parser.add_argument("--features-store", type=Path, default=Path("crowdsweep-runs") / SWEEPS[1])
    parser.add_argument("--searched-store", type=Path, default=Path("crowdsweep-runs") / SEARCHED[0])
    parser.add_argument("--features-searched-store", type=Path, default=Path("crowdsweep-runs") / SEARCHED[1])
    parser.add_argument("--features-note", default="")
    asked = parser.parse_args()
    notes = ("", f" {asked.features_note}" if asked.features_note else "")
    stores = [asked.store, *([asked.features_store] if asked.features_store.exists() else [])]
    found = [finished(store) for store in stores]
    parts = [part for place, one in enumerate(found) for part in section(place, one, notes[place])]
    parts.append(SEARCHED_PROSE)
    for place, store in enumerate((asked.searched_store, asked.features_searched_store)):
        if store.exists():
            parts += searched(place, finished(store))
    text = "\n".join([INTRODUCTION, *parts])
    PAGE.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def finished(store: Path) -> AnalysedSweep:
    """Returns what a sweep found; exits where it has not come to its end."""
    found = analysed(store)
    if found.state.status is not SweepStatus.DONE:
        sys.exit(f"not finished: {store}. Run the sweep again, it continues where it was")
    return found


def section(place: int, found: AnalysedSweep, note: str) -> Iterator[str]:
    """Yields what there is to say of a sweep, and writes its picture."""
    yield f"## {TITLES[place]}\n"
    yield f"{PROSE[place]}\n{ran(found)}{note}\n"
    ranks = next(iter(figures_of(found).of("ranks")), None)
    assert ranks is not None, "there are several datasets"
    picture = f"{SWEEPS[place]}.svg"
    (HERE / "pictures" / picture).write_bytes(on_white(to_file(ranks.draw(), "svg")))
    yield f"![mean ranks of the models](../tests/assets/pictures/{picture})\n\n{ranks.caption}{tested(found)}\n"
    accuracy = found.pivot()
    yield f"### Accuracy\n\n{pivot_in_markdown(accuracy)}"
    yield f"### Calibration: Brier score, less is better\n\n{pivot_in_markdown(found.pivot(BRIER[place]))}"
    yield f"### Seconds and memory\n\n{times(found.comparison, accuracy)}\n{TIMES}"


def searched(place: int, found: AnalysedSweep) -> Iterator[str]:
    """Yields what a search changes of each model that stands at its defaults too, in words and as a table."""
    yield f"### {SEARCHED_TITLES[place]}\n\n`{SEARCHED[place]}.yaml`. {ran(found)}\n"
    blocks = [{score.model: score for score in block.scores} for block in found.comparison.datasets]
    rows: list[list[str]] = []
    gains: dict[str, np.ndarray] = {}
    for name in {name: None for block in blocks for name in block if f"{name}-searched" in block}:
        pairs = [(block[name], block[f"{name}-searched"]) for block in blocks if f"{name}-searched" in block]
        gains[name] = 100 * np.subtract(*means(pairs, ACCURACY[place])[::-1])
        rows.append([name, *difference(pairs, ACCURACY[place], percent=True), *difference(pairs, BRIER[place])])
    yield f"{in_words(gains, len(blocks))}\n"
    heads = ["model", "accuracy, %", "searched", "difference", "more, fewer"]
    heads += ["Brier score", "searched ", "difference ", "lower, higher"]
    yield to_markdown(pa.table(dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))), right=heads[1:])


def in_words(gains: dict[str, np.ndarray], n_datasets: int) -> str:
    """Returns the answer: of which models accuracy rises or falls by more than datasets vary, in points."""
    raised, lowered, unclear = (f"{verb} the accuracy of" for verb in ("raises", "lowers", "is not shown to change"))
    shown: dict[str, list[str]] = {raised: [], lowered: [], unclear: []}
    for name, differences in gains.items():
        low, high = ttest_1samp(differences, 0.0).confidence_interval()
        verdict = raised if low > 0 else lowered if high < 0 else unclear
        of = "" if len(differences) == n_datasets else f" on {len(differences)} of them"
        shown[verdict].append(f"`{name}` ({differences.mean():+.1f} points, {low:+.1f} to {high:+.1f}{of})")
    told = "; ".join(f"{verdict} {', '.join(names)}" for verdict, names in shown.items() if names)
    return f"**Does it help?** Over {n_datasets} datasets a search {told}."


def means(pairs: Sequence[tuple[ModelScore, ModelScore]], metric: str) -> list[np.ndarray]:
    """Returns the means of a metric on each dataset, of each place of the pairs."""
    return [np.array([pair[place].metrics[metric].mean for pair in pairs]) for place in (0, 1)]


def difference(
    pairs: Sequence[tuple[ModelScore, ModelScore]], metric: str, *, percent: bool = False
) -> tuple[str, str, str, str]:
    """Returns means of a metric before and after, their difference with its interval, and on how many datasets it rises
    and falls (falls and rises, of what is not in percent)."""
    before, after = means(pairs, metric)
    scale, digits = (100.0, 1) if percent else (1.0, 3)
    gains = scale * (after - before)
    low, high = ttest_1samp(gains, 0.0).confidence_interval()
    rises, falls = int((gains > 10.0**-digits / 2).sum()), int((gains < -(10.0**-digits) / 2).sum())
    counts = f"{rises}, {falls}" if percent else f"{falls}, {rises}"
    mean = f"{gains.mean():+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"
    return f"{scale * before.mean():.{digits}f}", f"{scale * after.mean():.{digits}f}", mean, counts


def ran(found: AnalysedSweep) -> str:
    """Returns when and on what the sweep ran, and for how long."""
    state = found.state
    day = datetime.fromtimestamp(state.finished[-1].time, tz=UTC).date()
    named = [name for name in ("crowdsweep", "python", "numpy", "torch") if name in state.environment]
    versions = ", ".join(f"{name} {state.environment[name]}" for name in named)
    asked = {trial.spec.key for trial in found.trials}  # the record may hold others, of an earlier sweep file
    seconds = sum(state.results[key].wall_s for key in asked)
    failed = f", {found.counts['failed']} of them failed" if found.counts["failed"] else ""
    return (
        f"Run on {day}: {len(asked):,} trials{failed}, {about_words(seconds)} of fitting, on "
        f"{machine.usable_cores()} cores ({platform.machine()}); {versions}."
    )


def tested(found: AnalysedSweep) -> str:
    """Returns whether models differ at all over the datasets, as a sentence behind others."""
    ranks = found.comparison.ranks
    if ranks is None or ranks.friedman is None:
        return ""
    words = friedman_words(ranks.friedman)
    return f" Of all of them together, Friedman's test with Iman and Davenport's correction: {words}."


def times(comparison: Comparison, order: Pivot) -> str:
    """Returns a table of seconds, model × dataset, and of each model's memory."""
    blocks = comparison.datasets
    rows = []
    for model in [*order.models, *order.gold]:
        of_model: list[ModelScore | None] = [next((s for s in b.scores if s.model == model), None) for b in blocks]
        seconds = [show_seconds(s.wall_s.mean) if s is not None and s.wall_s is not None else "–" for s in of_model]
        most = max((s.peak_bytes for s in of_model if s is not None and s.peak_bytes is not None), default=None)
        rows.append([f"{model} (saw gold)" if model in order.gold else model, *seconds, show_bytes(most)])
    names = ["model", *(block.title for block in blocks), "memory"]
    return to_markdown(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), right=names[1:])


def on_white(svg: bytes) -> bytes:
    """Returns a figure on white paper, as pages that show it may be dark."""
    head, tag, rest = svg.partition(b"<svg")
    attributes, end, inside = rest.partition(b">")
    return head + tag + attributes + end + b'<rect width="100%" height="100%" fill="#ffffff"/>' + inside


if __name__ == "__main__":
    main()
