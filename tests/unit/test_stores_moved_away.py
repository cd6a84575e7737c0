"""A store that is moved away while it is written: nothing is made in its place, and the error says what is wrong."""

from pathlib import Path

import numpy as np
import pytest
from mirror_checks import ok, started

from crowdsweep.errors import JournalError, WriteFailed
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.views import report_files

KEY = "a" * 16


@pytest.mark.parametrize("replaced", [False, True], ids=["nothing there", "an empty folder there"])
def test_arrays_are_not_written_where_the_store_was(replaced: bool, tmp_path: Path) -> None:
    store, away = tmp_path / "store", tmp_path / "away"
    journal = Journal(store)
    journal.handle_many([started(), ok(KEY)])
    store.rename(away)
    if replaced:
        store.mkdir()
    with pytest.raises(JournalError, match="was removed or replaced"):
        journal.keep({"item_probs": np.ones(3)})
    with pytest.raises(JournalError, match="was removed or replaced"):
        journal.handle(ok("b" * 16))
    journal.close()
    assert list(store.rglob("*")) == []
    assert store.exists() == replaced
    assert set(read_journal(away).results) == {KEY}


def test_a_report_makes_no_store_where_one_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is moved after it was read, while the page is made."""
    store, away = tmp_path / "store", tmp_path / "away"
    journal = Journal(store)
    journal.handle(started())
    journal.close()
    page = report_files.render_page

    def moved(*arguments: object) -> str:
        made = page(*arguments)  # pyright: ignore[reportArgumentType]: as it was called
        store.rename(away)
        return made

    monkeypatch.setattr(report_files, "render_page", moved)
    with pytest.raises(WriteFailed, match="could not be written"):
        report_files.write_report(store)
    assert not store.exists()
