"""The tables of annotators, and of the items to label next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.labelling.against_gold import AgainstGold, contradictions, gold_of_annotators, gold_of_questions
from crowdsweep.labelling.annotators import AnnotatorFacts, annotator_facts
from crowdsweep.labelling.calibration import answers_per_item
from crowdsweep.labelling.crowd import crowd_of
from crowdsweep.labelling.fitted import Fitted, fit_everything
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.leave_one_out import CHUNK_ENTRIES, Matrices, answers_alone, leave_one_out_answers
from crowdsweep.labelling.many_classes import MANY_CLASSES, NOTE, gains_of_one_coin, one_coins
from crowdsweep.labelling.next_items import annotators_to_ask, gains
from crowdsweep.labelling.one_coin_intervals import one_coin_intervals
from crowdsweep.labelling.pairs import correlated_errors, excess_agreement
from crowdsweep.labelling.questions import Questions, questions_of
from crowdsweep.labelling.tables import JOIN, escaped, texts_at
from crowdsweep.models import registered
from crowdsweep.models._em import chunks
from crowdsweep.models.default_model import DEFAULT_MODEL
from crowdsweep.record.flags import flag_words
from crowdsweep.trial.flags import flags_of

_ACCURACY = 0.75  # of an annotator of whom nothing is known
_WITHOUT_GOLD = (
    "without gold nothing shows what annotators get wrong alike: labels, and annotators, may be right less often than "
    "is said; gold of 30 items drawn at random would show by how much"
)
_ALIKE = 0.05  # largest mean total variation between labels and the posteriors by matrices and answers
_MOST_ASKED = 100_000  # items for which annotators to ask are named: the others gain less anyway


@dataclass(frozen=True, kw_only=True, eq=False)
class CrowdTables:
    """What is known of annotators, and which items to label next, by whom.

    Attributes:
        annotators: a row per annotator; None where annotators are not known.
        confusion: rows (annotator, true class, answer given, expected number); None where there are no matrices.
        next_items: a row per item, in descending order of what one more label would tell.
        temperature: how over-confident posteriors from other annotators' answers are (`crowd.Crowd`), which widens the
            intervals.
        notes: messages on what contradicts the model's labels or its estimates of annotators.
    """

    annotators: pa.Table | None
    confusion: pa.Table | None
    next_items: pa.Table
    temperature: float = 1.0
    notes: Sequence[str] = ()


def crowd_tables(labelled: Labelled) -> CrowdTables:
    """Computes the facts of annotators, and ranks the items with annotations by what one more label would tell.

    Where annotators are not known, there is no table of them, and nobody in particular to ask.
    """
    fitted, dataset, multilabel = labelled.fitted, labelled.dataset, labelled.multilabel
    annotations = fitted.training.annotations
    if not multilabel and dataset.n_classes > MANY_CLASSES:
        return _of_many_classes(labelled)
    questions = questions_of(annotations, fitted.item_probs, multilabel=multilabel)
    believed = questions_of(annotations, labelled.of_items(fitted.code), multilabel=multilabel)
    witness = None if annotations.anonymous else _who_knows_annotators(fitted, questions)
    matrices = None if witness is None else witness.confusion
    chunks = leave_one_out_answers(questions, matrices)
    crowd = crowd_of(chunks, questions.n_answers)
    item_gains = gains(believed.posterior, crowd.matrix)
    notes = [_flagged(fitted), _without_gold(labelled)]
    if witness is None:
        next_items = _next_table(fitted, item_gains, None, ())
        return CrowdTables(annotators=None, confusion=None, next_items=next_items, notes=list(filter(None, notes)))
    facts = annotator_facts(chunks, crowd, questions.shares)
    low, high = one_coin_intervals(questions, crowd, facts.code, facts.accuracy)
    facts = replace(facts, low=np.minimum(facts.low, low), high=np.maximum(facts.high, high))
    against = gold_of_annotators(fitted, questions, facts.code)
    names = [dataset.annotator_names[int(code)] for code in facts.code]
    answers = ("not chosen", "chosen") if multilabel else dataset.class_labels
    if against is not None:
        notes.append(contradictions(facts, against, names))
    if not multilabel:
        notes.append(_correlated_error_words(fitted, questions))
    return CrowdTables(
        annotators=_annotators_table(facts, questions.kinds, names, answers, witness.model, against),
        confusion=_confusion_table(facts, dataset, answers),
        next_items=_next_table(fitted, item_gains, believed, facts.code if not multilabel else (), matrices),
        temperature=crowd.temperature,
        notes=list(filter(None, notes)),
    )


def _flagged(fitted: Fitted) -> str:
    """Returns what is wrong with the fit, by the flags that reports use, and what to do; empty where nothing is
    wrong."""
    flags = flags_of(registered.model_info(fitted.model), fitted.item_probs, fitted.training)
    if not flags:
        return ""
    return f"do not use these labels: {fitted.model} {flag_words(flags)}; take another --model, or add answers"


def _without_gold(labelled: Labelled) -> str:
    """Returns what no answer shows, where no gold was there to calibrate probabilities or to train on; else empty."""
    return "" if labelled.fitted.saw_gold or "gold" in labelled.calibrations.answered.by else _WITHOUT_GOLD


def _of_many_classes(labelled: Labelled) -> CrowdTables:
    """Returns the tables that need no matrices of classes × classes (`labelling.many_classes`)."""
    fitted, dataset = labelled.fitted, labelled.dataset
    annotations = fitted.training.annotations
    notes = list(filter(None, [NOTE, _without_gold(labelled)]))

    def gain(accuracy: float) -> Float64[np.ndarray, " items"]:
        parts = chunks(len(fitted.code), dataset.n_classes, CHUNK_ENTRIES)
        return np.concatenate([gains_of_one_coin(labelled.of_items(fitted.code[part]), accuracy) for part in parts])

    if annotations.anonymous:  # an annotator of whom nothing is known
        next_items = _next_table(fitted, gain(_ACCURACY), None, ())
        return CrowdTables(annotators=None, confusion=None, next_items=next_items, notes=notes)
    found = one_coins(annotations)
    item_gains = gain(float(np.average(found.accuracy, weights=found.answers)))
    against = gold_of_annotators(fitted, questions_of(annotations, fitted.item_probs, multilabel=False), found.code)
    annotators = {
        "annotator": texts_at(dataset.annotator_names, found.code),
        "answers": found.answers,
        "accuracy": found.accuracy,
        "accuracy_low": found.low,
        "accuracy_high": found.high,
        **({} if against is None else against.columns()),
    }
    return CrowdTables(
        annotators=pa.Table.from_pydict(annotators),
        confusion=None,
        next_items=_next_table(fitted, item_gains, None, ()),
        notes=notes,
    )


def _correlated_error_words(fitted: Fitted, questions: Questions) -> str:
    names = fitted.dataset.annotator_names
    by_gold = correlated_errors(questions, gold_of_questions(fitted, questions), names)
    if by_gold is not None:
        return by_gold
    return excess_agreement(questions, names, ordinal=fitted.training.scale == "ordinal")


def _who_knows_annotators(fitted: Fitted, questions: Questions) -> Fitted:
    """Returns a fit whose confusion matrices describe how annotators answer. It is the model itself where its labels
    follow from its matrices and the answers, else a plain model. Matrices counted against votes would be as doubtful as
    the votes."""
    if fitted.dataset.scale == "multilabel":
        return fitted if fitted.knows_annotators else _plain(fitted)
    if fitted.knows_annotators:
        alone = answers_alone(questions, fitted.confusion)
        answered = np.unique(questions.question)
        apart = 0.5 * np.abs(alone - questions.posterior)[answered].sum(axis=1)
        if apart.mean() <= _ALIKE:
            return fitted
    return _plain(fitted)


def _plain(fitted: Fitted) -> Fitted:
    return fit_everything(DEFAULT_MODEL, {}, fitted.dataset, fitted.dataset_params, n_seeds=1)


def _annotators_table(
    facts: AnnotatorFacts,
    kinds: int,
    names: list[str],
    answers: Sequence[str],
    source: str,
    against: AgainstGold | None,
) -> pa.Table:
    columns: dict[str, Any] = {
        "annotator": names,
        "answers": facts.answers // kinds,
        "accuracy": facts.accuracy,
        "accuracy_low": facts.low,
        "accuracy_high": facts.high,
        **({} if against is None else against.columns()),
        "bits_per_label": facts.bits,
        "agreement_with_consensus": facts.consensus,
        "spammer": facts.spammer,
        "spammer_score": facts.score,
        "spammer_p": facts.p,
    }
    columns |= {f"bias_to_{name}": facts.bias[:, place] for place, name in enumerate(answers)}
    columns["source"] = [source] * len(names)
    return pa.Table.from_pydict(columns)


def _confusion_table(facts: AnnotatorFacts, dataset: CrowdDataset, answers: Sequence[str]) -> pa.Table:
    annotator, true, given = facts.cell.T
    return pa.Table.from_pydict(
        {
            "annotator": texts_at(dataset.annotator_names, annotator),
            "true": texts_at(answers, true),
            "given": texts_at(answers, given),
            "expected": facts.expected,
        }
    )


def _next_table(
    fitted: Fitted,
    item_gains: Float64[np.ndarray, " questions"],
    questions: Questions | None,
    code: np.ndarray | Sequence[int],
    matrices: Matrices | None = None,
) -> pa.Table:
    dataset, n_items = fitted.dataset, fitted.training.n_items
    gain = item_gains.reshape(n_items, -1).sum(axis=1)  # multi-label: the sum over the classes of an item
    order = np.argsort(-gain, kind="stable")
    answers = answers_per_item(fitted.training.annotations, multilabel=dataset.scale == "multilabel").astype(np.int64)
    columns: dict[str, Any] = {
        "item": texts_at(dataset.item_names, fitted.code[order]),
        "gain_bits": gain[order],
        "answers": answers[order],
    }
    if questions is not None and matrices is not None and len(code):
        asked = annotators_to_ask(questions, order[:_MOST_ASKED], matrices, np.asarray(code))
        called = {one: escaped(dataset.annotator_names[one]) for one in {one for ones in asked for one in ones}}
        names = [JOIN.join(called[one] for one in ones) for ones in asked]
        columns["ask"] = names + [""] * (n_items - len(names))
    return pa.Table.from_pydict(columns)
