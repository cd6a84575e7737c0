"""Personal classifiers: one softmax regression for the crowd and one for each annotator, held near it.

    maximise over w_0 and all w_t    sum over labels of log softmax(x_i w_t)[y_it]
                                     - eta / 2 |w_0|² - lambda / 2 sum over t of |w_t - w_0|²

**Representer form.** At the maximum, lambda (w_t - w_0) is the sum over t's labels of x_i (onehot(y_it) - p_it)': what
annotator t has of his own is a combination of the items that he labelled. So a vector of K numbers for each label is
all that is stored (`own`), never annotators × features:

    w_t - w_0 = X_t' own_t        X_t: a row for each label of t, times the root of its weight

**Steps.** The curvature of a softmax is at most half of what it would be for a sum of squares (Böhning 1992). Each step
goes to the maximum of the quadratic below the objective that this bound gives, over the crowd's and all annotators'
weights at once, so the objective never falls. With G_t = X_t X_t' and S_t = (G_t / 2 + lambda)^-1, inverted once,

    v_t  = root weight * (onehot - p) - lambda own_t
    dw_0 = (eta + lambda / 2 sum_t X_t' S_t X_t)^-1 (lambda sum_t X_t' (own_t + S_t v_t) - eta w_0)
    down_t = S_t (v_t - X_t dw_0 / 2)

which costs labels × labels of their annotator, or × features where those are fewer (`_Wide`, by Woodbury).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, final, runtime_checkable

import numpy as np
from annotated_types import Ge, Gt
from jaxtyping import Float64, Int64

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, RowProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._cost import MATRIX_PRODUCT
from crowdsweep.models._em import chunks, normalised, stack
from crowdsweep.models.contract import DataShape, FitContext, FitResult, LabelProbs
from crowdsweep.models.joint._softmax_regression import FeatureMap, Inputs, SoftmaxPredictor, Weights, log_softmax

Rows = Float64[np.ndarray, "rows width"]
Scores = Float64[np.ndarray, "rows classes"]
BlockFeatures = Float64[np.ndarray, "annotators labels _"]

_MOST_NUMBERS = 1 << 28  # 2 GB: of all annotators' inverses


@final
@dataclass(frozen=True, kw_only=True)
class PersonalClassifiers:
    """Hyper-parameters of personal classifiers.

    Attributes:
        crowd_penalty: eta, one over the variance of the crowd's weights.
        personal_penalty: lambda, one over the variance of an annotator's weights around the crowd's.
        iterations: limit of steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    crowd_penalty: Annotated[float, Gt(0)] = 1.0
    personal_penalty: Annotated[float, Gt(0)] = 10.0
    iterations: Annotated[int, Ge(1)] = 200
    tolerance: Annotated[float, Ge(0)] = 1e-5

    def fit(self, data: TrainingData, context: FitContext, features: FeatureMap) -> FitResult:
        """Fits the crowd's and all annotators' classifiers on these features."""
        labels = _Labels.of(data, features.inputs(data.items), self.personal_penalty)
        crowd, now = labels.crowd_solver(self.crowd_penalty), labels.start()
        history: list[float] = []
        goes_on = rises = True
        while goes_on and rises and len(history) < self.iterations:
            now = self._step(labels, crowd, now)
            value = self._objective(labels, now)
            rises = not history or value - history[-1] > self.tolerance * abs(value)
            history.append(value)
            weights = now.crowd
            goes_on = context.report(
                len(history), value, lambda weights=weights: SoftmaxPredictor(features=features, weights=weights)
            )
        return FitResult(
            item_probs=normalised(labels.inputs @ now.crowd)[0],
            label_probs=labels.label_probs(now, labels.inputs),
            predictor=SoftmaxPredictor(features=features, weights=now.crowd),
            unseen_label_probs=lambda items, item, annotator: labels.label_probs(now, features.inputs(items))(
                item, annotator
            ),
            objective=np.array(history),
            converged=not rises,
            iterations=len(history),
            extras={"distance": labels.distances(now)},
        )

    def _step(self, labels: "_Labels", crowd: Callable[[Weights], Weights], now: "_Fitted") -> "_Fitted":
        residual = -labels.root[:, None] * np.exp(now.log_probs)
        residual[np.arange(len(residual)), labels.label] += labels.root
        lean = residual - self.personal_penalty * now.own
        solved = labels.solve(lean)
        slope = self.personal_penalty * labels.to_weights(now.own + solved) - self.crowd_penalty * now.crowd
        step = crowd(slope)
        own = now.own + solved - 0.5 * labels.solve(labels.root[:, None] * (labels.inputs @ step)[labels.item])
        return labels.fitted(now.crowd + step, own)

    def _objective(self, labels: "_Labels", now: "_Fitted") -> float:
        likelihood = labels.root**2 @ now.log_probs[np.arange(len(labels.label)), labels.label]
        crowd = 0.5 * self.crowd_penalty * (now.crowd**2).sum()
        return float(likelihood - crowd - 0.5 * self.personal_penalty * (now.own * now.products).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class _Fitted:
    """The state of the fit.

    Attributes:
        crowd: w_0.
        own: the representer's vector of each label.
        products: G_t own_t.
        log_probs: of each label's item and annotator.
    """

    crowd: Weights
    own: Scores
    products: Scores
    log_probs: Scores


@runtime_checkable
class _Block(Protocol):
    """The products of some annotators' rows, which stand one behind the other."""

    def product(self, rows: Rows) -> Rows:
        """Returns G_t rows."""
        ...

    def solve(self, rows: Rows) -> Rows:
        """Returns S_t rows."""
        ...


@final
class _Grams:
    """Annotators with equally many labels, by the products of their items."""

    def __init__(self, features: BlockFeatures, penalty: float) -> None:
        self._gram = features @ features.transpose(0, 2, 1)
        self._inverse = np.linalg.inv(0.5 * self._gram + penalty * np.eye(features.shape[1]))

    def product(self, rows: Rows) -> Rows:
        return (self._gram @ _cut(rows, self._gram)).reshape(rows.shape)

    def solve(self, rows: Rows) -> Rows:
        return (self._inverse @ _cut(rows, self._gram)).reshape(rows.shape)


@final
class _Wide:
    """Annotators with equally many labels, of whom there are more than features."""

    def __init__(self, features: BlockFeatures, penalty: float) -> None:
        self._features, self._penalty = features, penalty
        self._transposed = features.transpose(0, 2, 1)
        self._inverse = np.linalg.inv(self._transposed @ features + 2.0 * penalty * np.eye(features.shape[2]))

    def product(self, rows: Rows) -> Rows:
        return (self._features @ (self._transposed @ _cut(rows, self._features))).reshape(rows.shape)

    def solve(self, rows: Rows) -> Rows:
        # Woodbury: (X X' / 2 + λ)^-1 = (1 - X (X' X + 2 λ)^-1 X') / λ, with a matrix of features × features to invert.
        explained = self._features @ (self._inverse @ (self._transposed @ _cut(rows, self._features)))
        return (rows - explained.reshape(rows.shape)) / self._penalty


def _cut(rows: Rows, by: BlockFeatures) -> BlockFeatures:
    """Returns the rows of each annotator of a block."""
    return rows.reshape(*by.shape[:2], rows.shape[1])


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Labels:
    """The labels of a data set, those of annotators with few labels first, each annotator's one behind the other.

    Attributes:
        item, label, root: of each label; the root of its weight, above 0.
        code: of each annotator with labels, in that order.
        pointers: where each annotator's labels begin, and the last one's end.
        blocks: of labels, with their products.
        penalty: lambda.
        n_annotators: declared.
    """

    inputs: Inputs
    item: Int64[np.ndarray, " labels"]
    label: Int64[np.ndarray, " labels"]
    root: Float64[np.ndarray, " labels"]
    code: Int64[np.ndarray, " annotators"]
    pointers: Int64[np.ndarray, " ends"]
    blocks: Sequence[tuple[slice, _Block]]
    penalty: float
    n_annotators: int
    n_classes: int

    @classmethod
    def of(cls, data: TrainingData, inputs: Inputs, penalty: float) -> "_Labels":
        """Lays the labels out and inverts what steps divide by.

        Raises:
            FitFailed: the inverses would not fit into memory.
        """
        crowd = stack([data.annotations])
        entries = crowd.answers.tocoo()
        kept = entries.data > 0
        item, column, weight = entries.coords[0][kept], entries.coords[1][kept], entries.data[kept]
        annotator = crowd.column_annotator[column]
        sizes = np.bincount(annotator, minlength=crowd.n_annotators)
        # Annotators with equally many labels become neighbours, so that a block of them is one stacked product.
        order = np.lexsort((annotator, sizes[annotator]))
        places = np.argsort(sizes, kind="stable")
        places = places[sizes[places] > 0]
        numbers = int((sizes * np.minimum(sizes, inputs.shape[1])).sum())
        if numbers > _MOST_NUMBERS:
            raise FitFailed(
                f"expected at most {_MOST_NUMBERS:,} numbers for the annotators' products, got {numbers:,}: labels of "
                f"each annotator squared, or times {inputs.shape[1]} features; use fewer features, or another model"
            )
        item, root = item[order].astype(np.int64), np.sqrt(weight[order])
        return cls(
            inputs=inputs,
            item=item,
            label=crowd.column_label[column[order]].astype(np.int64),
            root=root,
            code=crowd.annotator_code[places].astype(np.int64),
            pointers=np.concatenate([[0], np.cumsum(sizes[places])]),
            blocks=list(_blocks(inputs, item, root, sizes[places], penalty)),
            penalty=penalty,
            n_annotators=data.n_annotators,
            n_classes=data.n_classes,
        )

    def start(self) -> _Fitted:
        """Returns weights of zero."""
        return self.fitted(np.zeros((self.inputs.shape[1], self.n_classes)), np.zeros((len(self.item), self.n_classes)))

    def fitted(self, crowd: Weights, own: Scores) -> _Fitted:
        """Returns these weights, with what they say of the labels."""
        products = self._by_block(own, lambda block, rows: block.product(rows))
        # Rows of X_t are inputs times the root of the label's weight; a score is of the inputs themselves.
        scores = (self.inputs @ crowd)[self.item] + products / self.root[:, None]
        return _Fitted(crowd=crowd, own=own, products=products, log_probs=log_softmax(scores))

    def solve(self, rows: Rows) -> Rows:
        """Returns S_t rows, of all annotators."""
        return self._by_block(rows, lambda block, part: block.solve(part))

    def to_weights(self, rows: Scores) -> Weights:
        """Returns the sum over the annotators of X_t' rows."""
        weighted, found = self.root[:, None] * rows, np.zeros((len(self.inputs), self.n_classes))
        for label in range(self.n_classes):
            found[:, label] = np.bincount(self.item, weighted[:, label], minlength=len(self.inputs))
        return self.inputs.T @ found

    def crowd_solver(self, crowd_penalty: float) -> Callable[[Weights], Weights]:
        """Returns what divides a slope of w_0 by its curvature, annotators' weights being at their best."""
        from scipy.linalg import cho_factor, cho_solve  # noqa: PLC0415 - who describes a model needs none of it

        curvature = crowd_penalty * np.eye(self.inputs.shape[1])
        for part, block in self.blocks:
            features = self.root[part, None] * self.inputs[self.item[part]]
            curvature += 0.5 * self.penalty * features.T @ block.solve(features)
        factor = cho_factor(curvature)
        return lambda slope: cho_solve(factor, slope)

    def distances(self, now: _Fitted) -> Float64[np.ndarray, " annotators"]:
        """Returns |w_t - w_0| of every declared annotator."""
        found = np.zeros(self.n_annotators)
        if len(self.code):
            squares = np.add.reduceat((now.own * now.products).sum(axis=1), self.pointers[:-1])
            found[self.code] = np.sqrt(np.maximum(squares, 0.0))
        return found

    def label_probs(self, now: _Fitted, inputs: Inputs) -> LabelProbs:
        """Returns the function rows (item, annotator) -> softmax(x_i w_t), of the items with these inputs; w_0 for
        annotators without labels."""
        place_of = np.full(self.n_annotators, -1)
        place_of[self.code] = np.arange(len(self.code))

        def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
            scores = (inputs @ now.crowd)[item]
            order = np.argsort(annotator, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(annotator[order])) + 1) if len(order) else []:
                place = place_of[annotator[rows[0]]]
                if place >= 0:
                    mine = slice(self.pointers[place], self.pointers[place + 1])
                    own = self.inputs[self.item[mine]].T @ (self.root[mine, None] * now.own[mine])
                    scores[rows] += inputs[item[rows]] @ own
            return normalised(scores)[0]

        return label_probs

    def _by_block(self, rows: Rows, what: Callable[[_Block, Rows], Rows]) -> Rows:
        found = np.empty_like(rows)
        for part, block in self.blocks:
            found[part] = what(block, rows[part])
        return found


def _blocks(
    inputs: Inputs,
    item: Int64[np.ndarray, " labels"],
    root: Float64[np.ndarray, " labels"],
    sizes: Int64[np.ndarray, " annotators"],
    penalty: float,
) -> Iterator[tuple[slice, _Block]]:
    """Cuts the labels, whose annotators' sizes ascend, into blocks that bound what is gathered at once."""
    start, width = 0, inputs.shape[1]
    for size, many in zip(*(found.tolist() for found in np.unique(sizes, return_counts=True)), strict=True):
        for part in chunks(many, size * width):
            rows = slice(start + part.start * size, start + part.stop * size)
            features = (root[rows, None] * inputs[item[rows]]).reshape(-1, size, width)
            yield rows, (_Wide if size > width else _Grams)(features, penalty)
        start += many * size


def personal_cost(shape: DataShape, params: Mapping[str, Any], n_inputs: int) -> float:
    """Returns the cost of the inverses, and of a third of the steps: what it typically takes."""
    mean = shape.n_annotations / max(shape.n_annotators, 1)
    products = min(mean, n_inputs)
    inverses = shape.n_annotations * products * (products + n_inputs) + n_inputs**3
    step = shape.n_items * n_inputs + 3.0 * shape.n_annotations * products
    steps = MATRIX_PRODUCT * step + 10.0 * shape.n_annotations
    return MATRIX_PRODUCT * inverses + params["iterations"] / 3 * shape.n_classes * steps
