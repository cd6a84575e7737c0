"""A record in an object store keeps the contract of one on a disk; the store is a server that speaks S3, or Azure's own
emulator."""

import os
import secrets
from collections.abc import Callable

import journal_checks
import mirror_checks
import pytest
from mirror_checks import ok, spec
from object_stores import place, rows_of
from six_drivers import six_at_once

from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.object_rows import ObjectRows
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_uri import StoreUri

pytestmark = [pytest.mark.xdist_group("s3"), pytest.mark.usefixtures("s3")]


@pytest.fixture(params=["s3", pytest.param("azure", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest) -> StoreUri:
    if request.param == "azure":
        request.getfixturevalue("azure")
    return place(f"contract/{secrets.token_hex(4)}", scheme={"s3": "s3", "azure": "az"}[request.param])


@pytest.mark.parametrize(
    "check",
    [
        mirror_checks.check_rows_come_back,
        mirror_checks.check_reads_beside_a_writer,
        mirror_checks.check_second_writer_is_kept_out,
        mirror_checks.check_closed_rows_refuse,
    ],
)
def test_rows(check: Callable[[mirror_checks.OpenRows], None], store: StoreUri) -> None:
    check(lambda write: rows_of(Objects(store), answer_s=60.0) if write else ObjectRows(Objects(store)))


@pytest.mark.parametrize("check", journal_checks.CHECKS)
def test_journal(check: Callable[[journal_checks.OpenJournal], None], store: StoreUri) -> None:
    check(lambda: Journal(store, rows=rows_of(Objects(store), answer_s=60.0)))


def test_of_six_drivers_at_once_one_writes(store: StoreUri) -> None:
    """The five others are refused, and are told by whom."""

    def begin(number: int) -> Journal:
        journal = Journal(store, rows=rows_of(Objects(store), answer_s=60.0))
        journal.handle(ok(spec(number).key))
        return journal

    wrote, refused = six_at_once(begin)
    assert (len(wrote), len(refused)) == (1, 5)
    assert all(f"pid {os.getpid()} on " in str(error) for error in refused)
    assert read_journal(store).results.keys() == wrote[0].state.results.keys()
    wrote[0].close()
