"""Advice on next steps, from what the sweep measured: more labels, other annotators, a wider search, more seeds."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import itemgetter

from crowdsweep.analysis.answer import Answer, by_test, headroom
from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.analysis.more_needed import MOST, MoreNeeded, more_needed
from crowdsweep.analysis.searches import SearchShown
from crowdsweep.analysis.sections.confusions import CrowdMatrix
from crowdsweep.metrics.metric_table import by_held_out
from crowdsweep.metrics.shown import show_number
from crowdsweep.metrics.wording import is_share
from crowdsweep.record.naming import show_value
from crowdsweep.record.store_uri import Store
from crowdsweep.studies.contract import StudyReport
from crowdsweep.units import listed, show_times

_WORTH_WIDENING = 0.002  # in the metric's units: a fifth of a point, or nats
_WEAK = 0.5  # a crowd is weak below this value of `CrowdMatrix.above_chance`


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """One suggested next step.

    Attributes:
        text: what to do and why, in one or two sentences.
        command: the command that does it; empty where there is none.
        about: the dataset that it concerns; empty where the sweep has only one.
    """

    text: str
    command: str = ""
    about: str = ""


def next_steps(
    answers: Sequence[Answer],
    study: StudyReport | None,
    searches: Sequence[SearchShown],
    crowds: Sequence[CrowdMatrix],
    store: Store,
) -> list[NextStep]:
    """Returns suggested next steps; getting the labels, the usual aim, comes first.

    Args:
        answers: recommendations for the full datasets, without a study's thinned ones.
    """
    steps = [_label(answers, store)] if any(answer.block.ranked for answer in answers) else []
    for answer in answers:
        about = answer.block.title if len(answers) > 1 else ""
        crowd = next((one for one in crowds if one.place == answer.block.place), None)
        measured = study.next_steps.get(answer.block.title) if study else None
        sentences = [*([measured] if measured else []), *_of_dataset(answer, crowd), *_at_the_edge(answer, searches)]
        if sentences:
            steps.append(NextStep(text=" ".join(sentences), about=about))
    return steps


def _label(answers: Sequence[Answer], store: Store) -> NextStep:
    text = (
        "Get the labels: the recommended model is fitted to everything; `next.csv` says which items are worth another "
        "label and whom to ask, `annotators.csv` who answers how well."
    )
    command = ["crowdsweep", "label", str(store)]
    whole = [answer for answer in answers if answer.block.ranked]
    if len(answers) > 1:
        command += ["--dataset", whole[0].block.title]
        text += " One dataset at a time." if len(whole) > 1 else ""
    return NextStep(text=text, command=shlex.join(command))


def _of_dataset(answer: Answer, crowd: CrowdMatrix | None) -> Iterator[str]:
    """Yields suggestions from the numbers of one dataset."""
    block = answer.block
    if not block.ranked:
        return
    best = block.ranked[0]
    found, gap = best.metrics[block.metric], headroom(block)
    half = 0.0 if found.low is None or found.high is None else (found.high - found.low) / 2
    limited = gap is None or gap > half
    if gap is not None and limited:
        amount = show_number(gap, block.metric) + (" points" if is_share(block.metric) else "")
        yield f"Better labels, or more, could bring up to about {amount}: {block.gold[0].model} is that much better."
    elif gap is not None and gap < -half:
        yield (
            f"{block.gold[0].model}, though it learns from gold, is below {best.model}: with these settings it is not "
            f"a ceiling, and does not show whether more labels would help. Train it longer, or give it another network."
        )
    elif gap is not None and block.gold[0].n_unfinished:
        yield (
            f"{block.gold[0].model}, which learns from gold, is not clearly better than {best.model}, and ended while "
            f"its objective still clearly improved: it is not a ceiling until it is trained longer, and does not "
            f"show whether more labels would help."
        )
    elif gap is not None:
        ceiling = block.gold[0]
        yield (
            f"More labels would hardly help {best.model}: {ceiling.model}, which learns from gold, is not "
            f"clearly better. Other features or another network might."
        )
        if not json.loads(ceiling.point):
            yield f"{ceiling.model} has settings that were not searched: to rely on this, search them first."
    if limited and crowd is not None and crowd.above_chance < _WEAK:
        yield (
            f"The crowd is weak: by {crowd.model}, an answer is right in {100 * crowd.right:.0f} % of cases "
            f"(chance: {100 / len(crowd.matrix):.0f} %). Better annotators or clearer instructions may bring more than "
            f"more answers of the same kind."
        )
    yield from _to_rank(block)


def _to_rank(block: DatasetComparison) -> Iterator[str]:
    """Yields how many more seeds or items would rank the best model above those not significantly different from it."""
    if by_held_out(block.metric):
        return
    pairs = len(block.ranked) * (len(block.ranked) - 1) // 2
    needed = [
        (score.model, more)
        for score in by_test(block)[0]
        if score.versus_best is not None and (more := more_needed(score.versus_best, pairs)) is not None
    ]
    far = sorted(((more.times, model, more) for model, more in needed if isfinite(more.times)), key=itemgetter(0))
    if far:
        (_, nearest, fewest), *others = far
        first = f"To rank {block.ranked[0].model} above {nearest} takes about {_amount(fewest)}"
        told = listed([first, *(f"above {model} {_amount_beside(fewest, more)}" for _, model, more in others)], 6)
        yield f"{told}, if the observed difference is the true one."
    near = [model for model, more in needed if not isfinite(more.times)]
    if near:
        yield (
            f"{listed(near)} {'is' if len(near) == 1 else 'are'} so near to {block.ranked[0].model} that "
            f"{MOST:.0f} times as many would not settle it: choose by cost."
        )


def _amount_beside(told: MoreNeeded, more: MoreNeeded) -> str:
    """Returns an amount that follows another one in a sentence: a bare number, where unit and present number agree."""
    alike = (told.varies, told.now) == (more.varies, more.now) and more.varies != "seeds and items"
    return f"{more.number:,}" if alike else f"about {_amount(more)}"


def _amount(more: MoreNeeded) -> str:
    if more.varies == "seeds":
        return f"{more.number:,} seeds (`seeds.report`, now {more.now:,})"
    if more.varies == "items":
        return f"{more.number:,} scored items (now {more.now:,})"
    return f"{show_times(more.times)} as many seeds and scored items"


def _at_the_edge(answer: Answer, searches: Sequence[SearchShown]) -> Iterator[str]:
    """Yields a sentence on hyper-parameters whose best value lies at an end of the searched range."""
    if not answer.block.ranked:
        return
    best = answer.block.ranked[0]
    point = json.loads(best.point)
    for search in searches:
        if (search.model, search.place) != (best.model, answer.block.place):
            continue
        ends = [name for name, both in search.ends.items() if name in point and point[name] in both]
        ends = [name for name in ends if point[name] != 0 and _beats_inside(search, name)]  # nothing lies below 0
        if ends:
            told = [f"{name} {show_value(point[name])}" for name in ends]
            were = "was" if len(told) == 1 else "were"
            yield f"Widen the search of {best.model}: {listed(told, 6)} {were} best at the edge of the space."


def _beats_inside(search: SearchShown, name: str) -> bool:
    """Returns whether the best point at an end of a hyper-parameter's range is worth mentioning: better than those
    inside by more than `_WORTH_WIDENING`."""
    sign = 1.0 if search.goal == "maximize" else -1.0
    known = [
        (point[name], sign * value)
        for number, point in search.points.items()
        if name in point and (value := search.values.get(number)) is not None
    ]
    at_end = [value for place, value in known if place in search.ends[name]]
    inside = [value for place, value in known if place not in search.ends[name]]
    return not inside or not at_end or max(at_end) - max(inside) > _WORTH_WIDENING
