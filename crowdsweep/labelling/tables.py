"""The tables that people take away: labels, probabilities, annotators, what to label next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64

from crowdsweep.arrays import LOG_FLOOR, ItemProbs
from crowdsweep.data.dataset import SPLITS, CrowdDataset
from crowdsweep.labelling.annotators import AnnotatorFacts, annotator_facts
from crowdsweep.labelling.crowd import crowd_of
from crowdsweep.labelling.default_model import default_model
from crowdsweep.labelling.fitted import Fitted, fit_everything
from crowdsweep.labelling.next_items import gains, whom_to_ask
from crowdsweep.labelling.others import Matrices, answers_alone, answers_and_others
from crowdsweep.labelling.questions import Questions, questions_of

JOIN = "|"  # between the classes of one multi-label label
_ALIKE = 0.05  # mean total variation between labels and what matrices make of the answers
_MOST_ASKED = 100_000  # items that are given annotators to ask: the others gain less anyway


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """What a fitted model says of every item that it can label.

    Attributes:
        code: int64 [items], numbers of the items in the dataset, ascending.
        probs: float64 [items, classes] (multi-label: independent probabilities).
        by: of each item: `classifier` where it has the last word, as it has of items without annotations and, of models
            that take labels first and train on them then, of all; else `annotations`.
        fits_agree: float64 [items], the share of the fits that say the same.
    """

    code: Int64[np.ndarray, " items"]
    probs: ItemProbs
    by: Sequence[str]
    fits_agree: Float64[np.ndarray, " items"]


def labelled_items(fitted: Fitted) -> Labelled:
    """Labels the items with annotations, and where the model has a classifier all others too."""
    probs = fitted.item_probs
    code, agree = fitted.code.astype(np.int64), fitted.agreement_of_fits(probs)
    by = ["classifier" if _classifier_decides(fitted, probs) else "annotations"] * len(probs)
    rest = np.setdiff1d(np.arange(fitted.dataset.items.n_items), fitted.code)
    if len(rest) and fitted.predictors:
        items = fitted.dataset.items.take(rest)
        each = fitted.predictions(items)
        more = np.mean(each, axis=0)
        code, probs = np.concatenate([code, rest]), np.concatenate([probs, more])
        agree = np.concatenate([agree, fitted.share_alike(each, more)])
        by += ["classifier"] * len(rest)
    order = np.argsort(code, kind="stable")
    return Labelled(code=code[order], probs=probs[order], by=[by[i] for i in order], fits_agree=agree[order])


def _classifier_decides(fitted: Fitted, probs: ItemProbs) -> bool:
    """Returns whether the model says of all items with annotations what it would say of them without."""
    if not fitted.predictors:
        return False
    return np.allclose(np.mean(fitted.predictions(fitted.training.items), axis=0), probs, atol=1e-4)


def labels_table(labelled: Labelled, dataset: CrowdDataset) -> pa.Table:
    """Returns a row an item: label, its probability, entropy (nats), number of answers, the share of them that agree
    with the label, split, what it was labelled by, and the share of the fits that give the same label.

    Of multi-label items the label joins all classes that are more probable than not, its probability is that of exactly
    these, classes being independent, and the answers that agree are those of single classes.
    """
    multilabel, probs = dataset.scale == "multilabel", labelled.probs
    entropy = _plogp(probs) + _plogp(1.0 - probs) if multilabel else _plogp(probs)
    answers = questions_of(dataset.annotations.of_items(labelled.code), probs, multilabel=multilabel)
    says = answers.belief[answers.question].argmax(axis=1) == answers.answer
    item = answers.question // dataset.n_classes if multilabel else answers.question
    given = np.bincount(item, minlength=len(probs))
    agreeing = np.bincount(item, weights=says.astype(np.float64), minlength=len(probs))
    with np.errstate(invalid="ignore"):
        agreement = pa.array(agreeing / given, mask=given == 0)
    return pa.Table.from_pydict(
        {
            "item": [dataset.item_names[int(code)] for code in labelled.code],
            **decided(probs, dataset.class_names, multilabel=multilabel),
            "entropy": entropy.sum(axis=1),
            "answers": given // (dataset.n_classes if multilabel else 1),
            "agreement": agreement,
            "split": [SPLITS[code] if code else "" for code in dataset.split[labelled.code]],
            "labelled_by": list(labelled.by),
            "fits_agree": labelled.fits_agree,
        }
    )


def decided(probs: ItemProbs, class_names: Sequence[str], *, multilabel: bool) -> dict[str, Any]:
    """Returns the columns `label` and `probability`, as `labels_table` has them."""
    names = np.array(class_names, dtype=object)
    if multilabel:
        chosen = probs > 0.5
        probability = np.where(chosen, probs, 1.0 - probs).prod(axis=1)
        return {"label": [JOIN.join(names[row]) for row in chosen], "probability": probability}
    best = probs.argmax(axis=1)
    return {"label": names[best].tolist(), "probability": probs[np.arange(len(probs)), best]}


def probabilities_table(labelled: Labelled, dataset: CrowdDataset) -> pa.Table:
    """Returns the item and a column for each class."""
    columns: dict[str, Any] = {"item": [dataset.item_names[int(code)] for code in labelled.code]}
    columns |= {name: labelled.probs[:, place] for place, name in enumerate(dataset.class_names)}
    return pa.Table.from_pydict(columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class CrowdTables:
    """What is known of annotators, and what to ask whom next.

    Attributes:
        annotators: a row an annotator.
        confusion: rows (annotator, class, true, answer, expected number).
        next_items: a row an item, most worth another label first.
    """

    annotators: pa.Table | None
    confusion: pa.Table | None
    next_items: pa.Table


def crowd_tables(fitted: Fitted) -> CrowdTables:
    """Counts what is known of annotators, and ranks the items with annotations by what one more label would tell.

    Where annotators are not known, there is no table of them, and nobody in particular to ask.
    """
    annotations, dataset = fitted.training.annotations, fitted.dataset
    multilabel = dataset.scale == "multilabel"
    questions = questions_of(annotations, fitted.item_probs, multilabel=multilabel)
    witness = None if annotations.anonymous else _who_knows_annotators(fitted, questions)
    matrices = None if witness is None else witness.confusion
    chunks = answers_and_others(questions, matrices)
    crowd = crowd_of(chunks, questions.n_answers)
    told = gains(questions.belief, crowd.matrix)
    if witness is None:
        return CrowdTables(annotators=None, confusion=None, next_items=_next_table(fitted, told, None, ()))
    facts = annotator_facts(chunks, crowd)
    names = [dataset.annotator_names[int(code)] for code in facts.code]
    answers = ("not chosen", "chosen") if multilabel else dataset.class_names
    return CrowdTables(
        annotators=_annotators_table(facts, names, answers, witness.model),
        confusion=_confusion_table(facts, dataset, answers),
        next_items=_next_table(fitted, told, questions, facts.code if not multilabel else (), matrices),
    )


def _who_knows_annotators(fitted: Fitted, questions: Questions) -> Fitted:
    """Returns a fit whose matrices say how annotators answer: the model's own where its labels are what these make of
    the answers, else that of a plain model. A vote's, counted against votes, would be as doubtful as votes are."""
    if fitted.dataset.scale == "multilabel":
        return fitted if fitted.knows_annotators else _plain(fitted)
    if fitted.knows_annotators:
        alone = answers_alone(questions, fitted.confusion)
        answered = np.unique(questions.question)
        apart = 0.5 * np.abs(alone - questions.belief)[answered].sum(axis=1)
        if apart.mean() <= _ALIKE:
            return fitted
    return _plain(fitted)


def _plain(fitted: Fitted) -> Fitted:
    model = default_model(fitted.dataset.scale)
    return fit_everything(model, {}, fitted.dataset, fitted.dataset_params, n_seeds=1)


def _annotators_table(facts: AnnotatorFacts, names: list[str], answers: Sequence[str], source: str) -> pa.Table:
    columns: dict[str, Any] = {
        "annotator": names,
        "answers": facts.answers,
        "accuracy": facts.accuracy,
        "accuracy_low": facts.low,
        "accuracy_high": facts.high,
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
            "annotator": [dataset.annotator_names[int(code)] for code in annotator],
            "true": [answers[code] for code in true],
            "given": [answers[code] for code in given],
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
    gain = told.reshape(n_items, -1).sum(axis=1)  # of multi-label items, of all their classes
    order = np.argsort(-gain, kind="stable")
    answers = fitted.training.annotations.labels_per_item
    columns: dict[str, Any] = {
        "item": [dataset.item_names[int(fitted.code[i])] for i in order],
        "gain_bits": gain[order],
        "answers": answers[order],
    }
    if questions is not None and matrices is not None and len(code):
        asked = whom_to_ask(questions, order[:_MOST_ASKED], matrices, np.asarray(code))
        names = [JOIN.join(dataset.annotator_names[one] for one in ones) for ones in asked]
        columns["ask"] = names + [""] * (n_items - len(names))
    return pa.Table.from_pydict(columns)


def _plogp(probs: ItemProbs) -> ItemProbs:
    return -(probs * np.log(np.maximum(probs, LOG_FLOOR)))
