"""The tables that users of labels get: labels, probabilities, annotators, items to label next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float64, Int32, Int64

from crowdsweep.arrays import LOG_FLOOR, ItemProbs, ratio
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import choices_of
from crowdsweep.data.dataset import SPLITS, CrowdDataset
from crowdsweep.data.on_disk.tables import Names
from crowdsweep.labelling.against_gold import AgainstGold, contradictions, gold_of_annotators, gold_of_questions
from crowdsweep.labelling.annotators import AnnotatorFacts, annotator_facts
from crowdsweep.labelling.calibration import answers_per_item
from crowdsweep.labelling.coins import ends_by_accuracy
from crowdsweep.labelling.columns import class_columns, texts_at
from crowdsweep.labelling.crowd import crowd_of
from crowdsweep.labelling.fitted import Fitted, fit_everything
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.many_classes import MANY_CLASSES, NOTE, gains_of_one_coin, likeliest, one_coins
from crowdsweep.labelling.next_items import gains, whom_to_ask
from crowdsweep.labelling.others import CHUNK_ENTRIES, Matrices, answers_alone, answers_and_others
from crowdsweep.labelling.pairs import alike_beyond, correlated_errors
from crowdsweep.labelling.questions import Questions, questions_of
from crowdsweep.models import registered
from crowdsweep.models._em import chunks
from crowdsweep.models.default_model import default_model
from crowdsweep.record.flags import flag_words
from crowdsweep.trial.flags import flags_of

JOIN = "|"  # between the classes of a multi-label label
_ACCURACY = 0.75  # of an annotator of whom nothing is known
_ALIKE = 0.05  # largest mean total variation between labels and the posteriors by matrices and answers
_MOST_ASKED = 100_000  # items for which annotators to ask are named: the others gain less anyway

Chosen = Int32[np.ndarray, " items"] | Bool[np.ndarray, "items classes"]
"""The class of each item; for multi-label data, a mask of the item's classes."""


def labels_table(labelled: Labelled, dataset: CrowdDataset) -> pa.Table:
    """Returns a table with a row per item.

    The column `entropy` is in nats, `answers` is the number of answers, and `agreement` the share of them that agree
    with the label. `labelled_by` says what gave the label, and `fits_agree` is the share of the fits that give the same
    label. `name` has the names of classes, where some differ from their labels. `gold` is there where the dataset has
    gold.

    The label of a multi-label item joins all classes that are more probable than not. Its probability is that of
    exactly these classes, which are taken to be independent. Agreement is then that of single classes.
    """
    multilabel, parts = labelled.multilabel, list[tuple[np.ndarray, ...]]()
    for part in labelled.pieces():
        probs = labelled.at(part)
        parts.append((*chosen_of(probs, multilabel=multilabel), _entropy(probs, multilabel=multilabel)))
    chosen, probability, entropy = (np.concatenate(column) for column in zip(*parts, strict=True))
    given, agreement = _agreement(dataset.annotations.of_items(labelled.code), chosen, multilabel=multilabel)
    columns: dict[str, Any] = {
        "item": texts_at(dataset.item_names, labelled.code),
        "label": named(chosen, dataset.class_labels),
        "probability": probability,
        "entropy": entropy,
        "answers": given,
        "agreement": pa.array(agreement, mask=given == 0),
        "split": texts_at(["", *SPLITS[1:]], dataset.split[labelled.code]),
        "labelled_by": Names.of(labelled.by).array,
        "fits_agree": pa.array(labelled.fits_agree, mask=np.isnan(labelled.fits_agree)),
    }
    if dataset.class_names != dataset.class_labels:
        columns["name"] = named(chosen, dataset.class_names)
    if len(dataset.gold):
        columns["gold"] = _gold_labels(labelled, dataset)
    return pa.Table.from_pydict(columns)


def _gold_labels(labelled: Labelled, dataset: CrowdDataset) -> list[str]:
    """Returns the gold of each item; empty where it has none, and where multi-label gold names no class."""
    found: list[list[str]] = [[] for _ in labelled.code]
    gold = dataset.gold.of_items(labelled.code, dataset.items.n_items).positive()
    for item, label in zip(gold.item.tolist(), gold.label.tolist(), strict=True):
        found[item].append(dataset.class_labels[label])
    return [JOIN.join(map(escaped, labels) if dataset.scale == "multilabel" else labels) for labels in found]


def _agreement(
    rows: Annotations, chosen: Chosen, *, multilabel: bool
) -> tuple[Int64[np.ndarray, " items"], Float64[np.ndarray, " items"]]:
    """Returns the number of answers of each item, and the share of them (multi-label: of single classes) that agree
    with its label."""
    if multilabel:
        choices = choices_of(rows)
        item, says = choices.item, ((choices.chosen.toarray() > 0.5) == chosen[choices.item]).sum(axis=1)
    else:
        item, says = rows.item, chosen[rows.item] == rows.label
    given = np.bincount(item, minlength=len(chosen))
    possible = given * rows.n_classes if multilabel else given
    return given, ratio(np.bincount(item, weights=says, minlength=len(chosen)), possible, at_zero=0.0)


def chosen_of(probs: ItemProbs, *, multilabel: bool) -> tuple[Chosen, Float64[np.ndarray, " items"]]:
    """Returns the class of each item (multi-label: all classes that are more probable than not), and the probability
    that it is this class (multi-label: exactly these classes)."""
    if multilabel:
        chosen = probs > 0.5
        return chosen, np.where(chosen, probs, 1.0 - probs).prod(axis=1)
    best = probs.argmax(axis=1)
    return best.astype(np.int32), probs[np.arange(len(probs)), best]


def decided(probs: ItemProbs, labels: Sequence[str], *, multilabel: bool) -> dict[str, Any]:
    """Returns the columns `label` and `probability` of `labels_table`."""
    chosen, probability = chosen_of(probs, multilabel=multilabel)
    return {"label": named(chosen, labels), "probability": probability}


def named(chosen: Chosen, labels: Sequence[str]) -> Any:
    """Returns the chosen labels as a column. Several labels are joined by `|`; a bar or a backslash within a label gets
    a backslash before it."""
    if chosen.ndim == 1:
        return texts_at(labels, chosen)
    apart = np.array([escaped(label) for label in labels], dtype=object)
    return Names.of([JOIN.join(apart[row]) for row in chosen]).array


def escaped(label: str) -> str:
    """Returns a name that can be joined with others: each bar and backslash in it gets a backslash before it."""
    return label.replace("\\", "\\\\").replace(JOIN, "\\" + JOIN)


def probabilities_table(labelled: Labelled, dataset: CrowdDataset, *, raw: bool = False) -> pa.Table:
    """Returns a table of the item and a column for each class. Above `MANY_CLASSES` classes it has a row for each of an
    item's most probable classes instead: `item`, `label` and `probability`.

    Args:
        labelled: the labels of items.
        dataset: the dataset of these items.
        raw: whether to return the model's probabilities before calibration and without gold; empty where it gives none.
    """
    labels = dataset.class_labels
    if len(labels) > MANY_CLASSES:
        parts: list[tuple[np.ndarray, ...]] = []
        for part in labelled.pieces():
            values = labelled.raw[part] if raw else labelled.at(part)
            row, label = likeliest(values)
            parts.append((labelled.code[part][row], label, values[row, label]))
        item, label, probability = (np.concatenate(column) for column in zip(*parts, strict=True))
        names = {"item": texts_at(dataset.item_names, item), "label": texts_at(labels, label)}
        return pa.Table.from_pydict({**names, "probability": probability})
    values = labelled.raw if raw else labelled.probs
    columns: dict[str, Any] = {"item": texts_at(dataset.item_names, labelled.code)}
    for place, name in enumerate(class_columns(labels, ["item"])):
        columns[name] = pa.array(values[:, place], mask=np.isnan(values[:, place]))
    return pa.Table.from_pydict(columns)


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


def crowd_tables(fitted: Fitted, labelled: Labelled | None = None) -> CrowdTables:
    """Computes the facts of annotators, and ranks the items with annotations by what one more label would tell.

    Where annotators are not known, there is no table of them, and nobody in particular to ask.

    Args:
        fitted: the model.
        labelled: the labels of the items, by which the gain of one more label is computed; None for the model's own
            probabilities.
    """
    annotations, dataset = fitted.training.annotations, fitted.dataset
    multilabel = dataset.scale == "multilabel"
    if not multilabel and dataset.n_classes > MANY_CLASSES:
        return _of_many_classes(fitted, labelled)
    questions = questions_of(annotations, fitted.item_probs, multilabel=multilabel)
    believed = questions
    if labelled is not None:
        believed = questions_of(annotations, labelled.of_items(fitted.code), multilabel=multilabel)
    witness = None if annotations.anonymous else _who_knows_annotators(fitted, questions)
    matrices = None if witness is None else witness.confusion
    chunks = answers_and_others(questions, matrices)
    crowd = crowd_of(chunks, questions.n_answers)
    told = gains(believed.posterior, crowd.matrix)
    notes = [_flagged(fitted)]
    if witness is None:
        next_items = _next_table(fitted, told, None, ())
        return CrowdTables(annotators=None, confusion=None, next_items=next_items, notes=list(filter(None, notes)))
    facts = annotator_facts(chunks, crowd, questions.shares)
    low, high = ends_by_accuracy(questions, crowd, facts.code, facts.accuracy)
    facts = replace(facts, low=np.minimum(facts.low, low), high=np.maximum(facts.high, high))
    against = gold_of_annotators(fitted, questions, facts.code)
    names = [dataset.annotator_names[int(code)] for code in facts.code]
    answers = ("not chosen", "chosen") if multilabel else dataset.class_labels
    if against is not None:
        notes.append(contradictions(facts, against, names))
    if not multilabel:
        notes.append(_correlated_error_words(fitted, questions, witness.confusion))
    return CrowdTables(
        annotators=_annotators_table(facts, questions.kinds, names, answers, witness.model, against),
        confusion=_confusion_table(facts, dataset, answers),
        next_items=_next_table(fitted, told, believed, facts.code if not multilabel else (), matrices),
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


def _of_many_classes(fitted: Fitted, labelled: Labelled | None) -> CrowdTables:
    """Returns the tables that need no matrices of classes × classes (`labelling.many_classes`)."""
    annotations, dataset = fitted.training.annotations, fitted.dataset

    def gain(accuracy: float) -> Float64[np.ndarray, " items"]:
        parts = chunks(len(fitted.code), dataset.n_classes, CHUNK_ENTRIES)
        said = (fitted.item_probs[part] if labelled is None else labelled.of_items(fitted.code[part]) for part in parts)
        return np.concatenate([gains_of_one_coin(probs, accuracy) for probs in said])

    if annotations.anonymous:  # an annotator of whom nothing is known
        next_items = _next_table(fitted, gain(_ACCURACY), None, ())
        return CrowdTables(annotators=None, confusion=None, next_items=next_items, notes=[NOTE])
    found = one_coins(annotations)
    told = gain(float(np.average(found.accuracy, weights=found.answers)))
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
        next_items=_next_table(fitted, told, None, ()),
        notes=[NOTE],
    )


def _correlated_error_words(fitted: Fitted, questions: Questions, matrices: Matrices) -> str:
    names = fitted.dataset.annotator_names
    by_gold = correlated_errors(questions, gold_of_questions(fitted, questions), names)
    return alike_beyond(questions, matrices, names) if by_gold is None else by_gold


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
    model, _ = default_model(fitted.dataset.scale)
    return fit_everything(model, {}, fitted.dataset, fitted.dataset_params, n_seeds=1)


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
    told: Float64[np.ndarray, " questions"],
    questions: Questions | None,
    code: np.ndarray | Sequence[int],
    matrices: Matrices | None = None,
) -> pa.Table:
    dataset, n_items = fitted.dataset, fitted.training.n_items
    gain = told.reshape(n_items, -1).sum(axis=1)  # multi-label: the sum over the classes of an item
    order = np.argsort(-gain, kind="stable")
    answers = answers_per_item(fitted.training.annotations, multilabel=dataset.scale == "multilabel").astype(np.int64)
    columns: dict[str, Any] = {
        "item": texts_at(dataset.item_names, fitted.code[order]),
        "gain_bits": gain[order],
        "answers": answers[order],
    }
    if questions is not None and matrices is not None and len(code):
        asked = whom_to_ask(questions, order[:_MOST_ASKED], matrices, np.asarray(code))
        called = {one: escaped(dataset.annotator_names[one]) for one in {one for ones in asked for one in ones}}
        names = [JOIN.join(called[one] for one in ones) for ones in asked]
        columns["ask"] = names + [""] * (n_items - len(names))
    return pa.Table.from_pydict(columns)


def _entropy(probs: ItemProbs, *, multilabel: bool) -> Float64[np.ndarray, " items"]:
    return (_plogp(probs) + _plogp(1.0 - probs) if multilabel else _plogp(probs)).sum(axis=1)


def _plogp(probs: ItemProbs) -> ItemProbs:
    return -(probs * np.log(np.maximum(probs, LOG_FLOOR)))
