"""The tree of errors, and the message that offers a name."""

import pytest

from crowdsweep import errors


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.BadInput, ValueError),
        (errors.DataError, ValueError),
        (errors.SweepFileError, ValueError),
        (errors.SpaceError, ValueError),
        (errors.UnknownName, LookupError),
        (errors.FitFailed, RuntimeError),
        (errors.InfeasibleRequest, RuntimeError),
        (errors.SlotLost, RuntimeError),
        (errors.JournalLocked, OSError),
        (errors.JournalDamaged, OSError),
    ],
)
def test_each_error_is_ours_and_a_builtin(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, errors.CrowdsweepError)
    assert issubclass(error, builtin)


def test_every_error_stands_under_the_root() -> None:
    raised = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, Exception)]
    raised = [item for item in raised if not issubclass(item, Warning)]
    assert len(raised) > 8
    assert all(issubclass(item, errors.CrowdsweepError) for item in raised)


def test_unknown_name_offers_the_nearest() -> None:
    message = str(errors.UnknownName("model", "dawid-skeen", ["cmm", "dawid-skene"], where="sweep.yaml: models.0"))
    assert message == "sweep.yaml: models.0: unknown model 'dawid-skeen'; did you mean 'dawid-skene'?"


def test_unknown_name_lists_what_is_known_where_nothing_is_near() -> None:
    assert str(errors.UnknownName("model", "zzz", ["cmm", "b"])) == "unknown model 'zzz'; known: b, cmm"
    assert str(errors.UnknownName("model", "zzz", [])).endswith("known: none")


def test_a_word_that_nobody_reads_is_cut() -> None:
    told = str(errors.DataError(f"items.csv: no features of {'9' * 5000!r}; add them" + ", or not" * 1000))
    assert told.startswith("items.csv: no features of '999")
    assert "…; add them" not in told
    assert " … add them" in told
    assert len(told) < 4100
