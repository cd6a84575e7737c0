"""What every mirror, and every place where the journal's rows can live, must do; called one by one by their tests."""

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace

from journals import plan_asking_for

from crowdsweep.errors import JournalError, JournalLocked
from crowdsweep.record.events import (
    BatchLost,
    Event,
    Mirror,
    PointProposed,
    PointScored,
    PointsSelected,
    PointsTold,
    RunsCreated,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    ToldPoint,
    TrialFinished,
    TrialPlanned,
    TrialProgressed,
    TrialStarted,
)
from crowdsweep.record.result import Failure, Status, TrialResult
from crowdsweep.record.rows import Rows
from crowdsweep.record.spec import Phase, TrialSpec

OpenRows = Callable[[bool], Rows]
"""Opens the rows of one place, the same each time: for writing (True) or for reading."""

ROWS = ['{"a":1}', '{"a":"déjà vu \\n"}', '{"a":[1.5,null]}']


def spec(seed: int, *, model: str = "majority-vote", phase: Phase = "report", **params: object) -> TrialSpec:
    """Returns a trial; no model is looked up."""
    return TrialSpec(
        model=model,
        params={"smoothing": 0.01, **params},
        model_version=1,
        dataset="digits",
        dataset_params={"annotators": 100},
        fingerprint="0123456789abcdef",
        seed=seed,
        phase=phase,
        point=params if phase == "search" else {},
    )


def ok(key: str, **metrics: float) -> TrialFinished:
    """Returns a trial that went well."""
    return TrialFinished(
        result=TrialResult(
            key=key,
            status=Status.OK,
            metrics=metrics or {"test_accuracy": 0.75},
            objective=(-3.0, -2.5, -2.25),
            confusion=((0.9, 0.1), (0.2, 0.8)),
            iterations=3,
            wall_s=0.5,
            host="here",
        )
    )


def failed(key: str, kind: str = "NonFiniteObjective") -> TrialFinished:
    """Returns a trial that failed."""
    failure = Failure(
        kind=kind, message="the objective is nan\nat step 3", traceback="Traceback (most recent call last)"
    )
    return TrialFinished(result=TrialResult(key=key, status=Status.FAILED, failure=failure))


_ASKED = [TrialPlanned(spec=one) for seed in range(9) for one in (spec(seed), spec(seed, groups=2))]
"""Trials that a made-up sweep asks for, of one cell and of another."""


def started(name: str = "a-sweep", *, resumed: bool = False, asks_for: Iterable[Event] = _ASKED) -> SweepStarted:
    """Returns the beginning of a sweep whose plan asks for the trials in some events."""
    return SweepStarted(
        name=name,
        config={"metric": {"name": "test_accuracy", "goal": "maximize"}},
        plan=replace(plan_asking_for(asks_for), n_trials=4),
        environment={"git_commit": "0" * 40, "python": "3.11"},
        resumed=resumed,
        time=1.0,
    )


def one_of_each() -> list[Event]:
    """Returns a short sweep in which every kind of event happens."""
    good, bad = spec(0), spec(1)
    return [
        started(),
        PointsTold(search="s", points=(ToldPoint(point={"smoothing": 0.2}, value=0.5, source="earlier"),)),
        PointProposed(search="s", number=0, point={"smoothing": 0.1}, model="m", dataset="d"),
        TrialPlanned(spec=good),
        TrialPlanned(spec=bad),
        TrialStarted(key=good.key, slot="slot 0"),
        TrialProgressed(key=good.key, step=1, objective=-3.0),
        BatchLost(keys=(good.key, bad.key), reason="node died", slot="slot 0"),
        ok(good.key),
        failed(bad.key),
        PointScored(search="s", number=0, value=None),
        PointsSelected(search="s", numbers=(0,)),
        RunsCreated(tracking_uri="sqlite:///x", experiment_id="1", runs={good.key: "r"}),
        SweepFinished(status=SweepStatus.DONE, time=2.0),
    ]


def check_takes_every_event(make: Callable[[], Mirror]) -> None:
    """Every kind of event is taken, one that comes twice too, and closing twice is fine."""
    with _nothing_goes_wrong():
        mirror = make()
        for event in one_of_each():
            mirror.handle(event)
            mirror.handle(event)
        mirror.close()
        mirror.close()


def check_closes_without_events(make: Callable[[], Mirror]) -> None:
    """A sweep that ends before it began leaves nothing behind."""
    with _nothing_goes_wrong():
        mirror = make()
        mirror.close()
        mirror.close()


@contextmanager
def _nothing_goes_wrong() -> Generator[None]:
    """Fails where something is logged as a warning, or with an exception: a mirror that cannot write swallows what it
    dies of, so that the sweep goes on, and logs it."""
    wrong: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING or record.exc_info:
                wrong.append(
                    f"{record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage()
                )

    logger, listener = logging.getLogger("crowdsweep"), Listener()
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(listener)
    if wrong:
        raise AssertionError("; ".join(wrong))


def check_rows_come_back(open_rows: OpenRows) -> None:
    """What was appended is read in order, by a later writer as well, which appends behind it."""
    writer = open_rows(True)
    _expect(_texts(writer), [])
    writer.append_rows(ROWS[:2])
    writer.append_rows(ROWS[2:])
    writer.close()
    writer = open_rows(True)
    _expect(_texts(writer), ROWS)
    writer.append_rows(ROWS[:1])
    writer.close()
    _expect(_texts(open_rows(False)), [*ROWS, ROWS[0]])


def check_reads_beside_a_writer(open_rows: OpenRows) -> None:
    """A reader needs no lock and sees what is durable."""
    _expect(_texts(open_rows(False)), [])
    writer = open_rows(True)
    list(writer.read_rows())
    writer.append_rows(ROWS[:1])
    _expect(_texts(open_rows(False)), ROWS[:1])
    writer.append_rows(ROWS[1:])
    _expect(_texts(open_rows(False)), ROWS)
    writer.close()


def check_second_writer_is_kept_out(open_rows: OpenRows) -> None:
    """A second writer is refused until the first one closes, and is told who that is."""
    writer = open_rows(True)
    try:
        other = open_rows(True)
    except JournalLocked as error:
        for word in ("pid", "since", "--store"):
            if word not in str(error):
                raise AssertionError(f"the message does not say {word!r}: {error}") from error
    else:
        other.close()
        raise AssertionError("two writers at once")
    writer.close()
    open_rows(True).close()


def check_closed_rows_refuse(open_rows: OpenRows) -> None:
    """After `close` nothing can be appended; closing twice is fine."""
    writer = open_rows(True)
    writer.close()
    writer.close()
    try:
        writer.append_rows(ROWS)
    except JournalError:
        pass
    else:
        raise AssertionError("rows were appended without the lock")
    _expect(_texts(open_rows(False)), [])


def check_torn_tail_is_dropped(open_rows: OpenRows, tear: Callable[[], None]) -> None:
    """`tear` cuts a few bytes off the end of what was written last: that row goes, the rest stays, writing goes on."""
    writer = open_rows(True)
    list(writer.read_rows())
    writer.append_rows(ROWS[:2])
    writer.append_rows(ROWS[2:])
    writer.close()
    tear()
    _expect(_texts(open_rows(False)), ROWS[:2])
    writer = open_rows(True)
    _expect(_texts(writer), ROWS[:2])
    writer.append_rows(ROWS[:1])
    writer.close()
    _expect(_texts(open_rows(False)), [*ROWS[:2], ROWS[0]])


def _texts(rows: Rows) -> list[str]:
    return [row.text.decode() for row in rows.read_rows()]


def _expect(got: object, expected: object) -> None:
    if got != expected:
        raise AssertionError(f"expected {expected!r}, got {got!r}")
