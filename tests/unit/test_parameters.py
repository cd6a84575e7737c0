"""Hyper-parameters of records that hold records: flat names, defaults, choices, checks, and the way there and back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Ge, Gt, Interval, Len
from hypothesis import given
from hypothesis import strategies as st

from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.registry.parameters import Parameter, Variants, build, describe_type, flat, parameters_of


@dataclass(frozen=True, kw_only=True)
class Linear:
    """No layer at all."""


@dataclass(frozen=True, kw_only=True)
class Dense:
    """Layers.

    Attributes:
        hidden: widths of its layers,
            from the first to the last.
        dropout: share of units that are left out.
    """

    hidden: tuple[Annotated[int, Ge(1)], ...] = (128,)
    dropout: Annotated[float, Interval(ge=0, lt=1)] = 0.5


@dataclass(frozen=True, kw_only=True)
class Words:
    """Filters over words; one record for two networks.

    Attributes:
        network: which of the two.
        filters: number of filters.
    """

    network: str = "words"
    filters: Annotated[int, Ge(1)] = 64


def networks() -> dict[str, type]:
    return {"linear": Linear, "dense": Dense, "words": Words, "words-twice": Words}


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """What a model trains.

    Attributes:
        network: kind of the network.
        learning_rate, weight_decay: of the optimiser, per step.
        epochs: passes over the items.

    Not part of the list: epochs: nothing.
    """

    network: Annotated[Any, Variants(networks)] = Dense(hidden=(16, 8))
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    weight_decay: Annotated[float, Ge(0)] = 0.0
    epochs: Annotated[int, Ge(1)] = 50


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model.

    Attributes:
        groups: number of groups.
        ties: who wins.
    """

    groups: Annotated[int, Ge(1)] = 2
    classifier: Classifier = field(default_factory=lambda: Classifier(epochs=7))
    ties: Literal["random", "first"] = "random"
    undescribed: bool | None = None

    def __post_init__(self) -> None:
        if self.ties == "first" and self.groups > 5:
            raise ValueError("more than five groups cannot tie")


@dataclass(frozen=True, kw_only=True)
class Needy:
    """What has no default, on either level."""

    network: Annotated[Any, Variants(networks)]
    rate: Annotated[float, Gt(0)]


def test_fields_of_held_records_stand_flat_in_the_order_of_the_fields() -> None:
    assert list(parameters_of(Model)) == [
        "groups",
        "network",
        "hidden",
        "dropout",
        "learning_rate",
        "weight_decay",
        "epochs",
        "ties",
        "undescribed",
    ]


def test_defaults_are_those_of_the_instance_that_is_held() -> None:
    defaults = {name: parameter.default for name, parameter in parameters_of(Model).items()}
    assert defaults == {
        "groups": 2,
        "network": "dense",
        "hidden": [16, 8],  # of Classifier's Dense, not Dense's own
        "dropout": 0.5,
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
        "epochs": 7,  # of Model's Classifier, not Classifier's own
        "ties": "random",
        "undescribed": None,
    }
    assert flat(build(Model, {}, "model")) == defaults
    assert build(Model, {}, "model") == Model()
    assert build(Model, {"groups": 3}, "model").classifier == Model().classifier


def test_a_record_is_chosen_by_name_and_brings_its_own_defaults() -> None:
    chosen = build(Model, {"network": "words", "epochs": 1}, "model")
    assert chosen.classifier.network == Words()
    assert chosen.classifier.epochs == 1
    assert list(flat(chosen)) == [*list(flat(Model()))[:2], "filters", *list(flat(Model()))[4:]]
    assert build(Model, {"network": "linear"}, "model").classifier.network == Linear()
    assert "hidden" not in parameters_of(Model, {"network": "linear"})
    assert parameters_of(Model, {"network": "linear"})["network"].default == "dense"
    assert parameters_of(Model, {"network": "dense"})["hidden"].default == [16, 8]


def test_a_record_that_keeps_the_name_tells_two_choices_apart() -> None:
    first, second = (build(Model, {"network": name}, "model") for name in ("words", "words-twice"))
    assert (first.classifier.network.network, second.classifier.network.network) == ("words", "words-twice")
    assert [flat(model)["network"] for model in (first, second)] == ["words", "words-twice"]
    assert build(Model, flat(second), "model") == second
    assert flat(Model(classifier=Classifier(network=Words(network="words-twice"))))["network"] == "words-twice"

    @dataclass(frozen=True, kw_only=True)
    class Reader:
        network: Annotated[Any, Variants(networks)] = Words(network="words-twice")

    assert parameters_of(Reader)["network"].default == "words-twice"
    assert build(Reader, {}, "reader") == Reader()


def test_each_has_its_line_and_what_it_takes() -> None:
    described = parameters_of(Model)
    assert described["hidden"] == Parameter(
        name="hidden",
        about="widths of its layers, from the first to the last.",
        allowed="list of (integer, at least 1)",
        hint=described["hidden"].hint,
        default=[16, 8],
        required=False,
    )
    assert described["network"].about == "kind of the network."
    assert described["network"].allowed == 'one of "linear", "dense", "words", "words-twice"'
    assert described["learning_rate"].about == described["weight_decay"].about == "of the optimiser, per step."
    assert described["epochs"].about == "passes over the items."
    assert described["undescribed"].about == ""
    assert described["undescribed"].allowed == "true or false, or null"


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Annotated[float, Interval(gt=0, le=1)], "number, above 0, at most 1"),
        (Annotated[tuple[int, ...], Len(1, 3)], "list of (integer), of length at least 1, of length at most 3"),
        (Literal["a", 1], 'one of "a", 1'),
        (Annotated[int, "a note"] | None, "integer, or null"),
        (Annotated[str, Len(2)], "text, of length at least 2"),
        (Mapping[str, int | None], "mapping from text to (integer, or null)"),
    ],
)
def test_types_in_words(hint: Any, words: str) -> None:
    assert describe_type(hint) == words


@pytest.mark.parametrize(
    ("params", "kind", "says"),
    [
        ({"epoch": 3}, UnknownName, "model 'm': unknown parameter 'epoch'; did you mean 'epochs'?"),
        (
            {"classifier": {"epochs": 3}},
            UnknownName,
            "model 'm': unknown parameter 'classifier'; known: dropout, epochs",
        ),
        ({"network": "lstm"}, BadInput, 'model \'m\', parameter \'network\': expected one of "linear", "dense", "wo'),
        ({"network": 3}, BadInput, "model 'm', parameter 'network': expected one of"),
        (
            {"filters": 3},
            BadInput,
            "model 'm', parameter 'filters': expected beside network: words or network: words-t",
        ),
        (
            {"network": "words", "hidden": [3]},
            BadInput,
            "model 'm', parameter 'hidden': expected beside network: dense",
        ),
        ({"hidden": [0]}, BadInput, "model 'm', parameter 'hidden': expected list of (integer, at least 1); got [0]"),
        ({"learning_rate": 0}, BadInput, "model 'm', parameter 'learning_rate': expected number, above 0; got 0"),
        ({"groups": 6, "ties": "first"}, BadInput, "model 'm': more than five groups cannot tie"),
    ],
)
def test_what_it_does_not_take_is_refused(params: dict[str, Any], kind: type[BadInput], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        build(Model, params, "model 'm'")
    assert str(caught.value).startswith(says)
    assert type(caught.value) is kind


def test_what_has_no_default_must_be_given_on_every_level() -> None:
    described = parameters_of(Needy)
    assert [(name, described[name].required) for name in ("network", "rate")] == [("network", True), ("rate", True)]
    with pytest.raises(BadInput, match=r"parameter 'network': expected one of .*; got nothing"):
        build(Needy, {"rate": 1}, "it")
    with pytest.raises(BadInput, match="parameter 'rate': expected number, above 0; got nothing"):
        build(Needy, {"network": "linear"}, "it")
    assert build(Needy, {"network": "words", "rate": 1}, "it") == Needy(network=Words(), rate=1.0)


def test_two_fields_of_one_name_cannot_be_written_flat() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Twice:
        one: Dense = Dense()
        other: Dense = Dense(dropout=0.1)

    with pytest.raises(TypeError, match="Twice holds two fields that are called 'hidden'"):
        parameters_of(Twice)


def test_numpys_values_are_taken_for_pythons() -> None:
    given = {"groups": np.int64(3), "dropout": np.float32(0.25), "hidden": np.array([4, 2])}
    built = build(Model, given, "model")
    assert built == build(Model, {"groups": 3, "dropout": 0.25, "hidden": [4, 2]}, "model")
    assert type(built.groups) is int
    with pytest.raises(BadInput, match="'groups': expected integer, at least 1; got"):
        build(Model, {"groups": np.array([1, 2])}, "model")


NETWORKS = st.one_of(
    st.just({}),
    st.just({"network": "linear"}),
    st.fixed_dictionaries(
        {},
        optional={
            "network": st.just("dense"),
            "hidden": st.lists(st.integers(1, 99), max_size=3),
            "dropout": st.floats(0, 0.99),
        },
    ),
    st.fixed_dictionaries(
        {"network": st.sampled_from(["words", "words-twice"])}, optional={"filters": st.integers(1, 9)}
    ),
)
OTHERS = st.fixed_dictionaries(
    {},
    optional={
        "groups": st.integers(1, 5),
        "learning_rate": st.floats(1e-9, 1e3) | st.integers(1, 9),
        "weight_decay": st.floats(0, 1),
        "epochs": st.integers(1, 1000),
        "ties": st.sampled_from(["random", "first"]),
        "undescribed": st.sampled_from([True, False, None]),
    },
)


@given(NETWORKS, OTHERS, st.randoms(use_true_random=False))
def test_there_and_back_through_json(network: dict[str, Any], others: dict[str, Any], order: Any) -> None:
    params = {**network, **others}
    built = build(Model, params, "model")
    full = flat(built)
    assert {name: full[name] for name in params} == params
    assert list(full) == list(parameters_of(Model, params)) == list(parameters_of(Model, full))
    stored = list(json.loads(json.dumps(full, allow_nan=False)).items())
    order.shuffle(stored)
    assert build(Model, dict(stored), "model") == built
    assert flat(build(Model, dict(stored), "model")) == full
