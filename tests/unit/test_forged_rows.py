"""Rows whose checksums agree and that no driver wrote: refused by their number, with the way on, which leads there."""

from pathlib import Path

import pytest
from mirror_checks import ok, one_of_each

from crowdsweep.errors import JournalDamaged
from crowdsweep.record.codec import encode
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.repair import repair_journal
from crowdsweep.record.rows import START, chain, parse_row

FORGED = [
    '{"kind":"trial_finished","v":2,"data":{"result":{"key":"x","kept":{"a":{"digest":"../../thesis"}}}}}',
    '{"kind":"trial_finished","v":2,"data":null}',
    '{"kind":"sweep_finished","v":1,"data":{"status":"fine","time":1.0}}',
    "[1, 2]",
    "7",
    '"text"',
    "null",
    "{",
    "[" * 5000,
    *(encode(ok(key)) for key in ("", "../x", "0" * 15, "0" * 17, "0" * 15 + "G", "0" * 15 + "\n")),
]


@pytest.mark.parametrize("text", FORGED, ids=range(len(FORGED)))
def test_it_is_refused_by_its_number_and_taken_out(text: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.handle_many(one_of_each())
    journal.close()
    file = tmp_path / "journal.jsonl"
    sound = read_journal(tmp_path)
    rows = [parse_row(line).text.decode() for line in file.read_bytes().splitlines(keepends=True)]  # type: ignore[union-attr]
    forged = chain([*rows[:2], text, *rows[2:]], START)[0]
    file.write_bytes(forged)
    for read in (read_journal, Journal):
        with pytest.raises(JournalDamaged, match=r"journal\.jsonl, row 3: .*(?s:.)*take this row") as refused:
            read(tmp_path)
        assert "`crowdsweep repair`" in str(refused.value)
        assert len(str(refused.value)) < 1500
    assert file.read_bytes() == forged
    lines = forged.splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    done = repair_journal(tmp_path)
    assert (done.kept, done.dropped, done.missing) == (len(rows), 0, 1)
    assert read_journal(tmp_path).results == sound.results
