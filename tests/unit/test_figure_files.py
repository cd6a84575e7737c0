"""Figures as files for papers: the page's own, with captions, fonts embedded, the same bytes of the same record."""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from journals import made_up_sweep, made_up_trials
from matplotlib.colors import Colormap, to_rgb
from object_stores import PLACE
from obstore.store import MemoryStore
from published_sweeps import ODD, published_store

import crowdsweep as cs
from crowdsweep.analysis.sweep import analysed
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput, ForeignFile
from crowdsweep.files.names import name_of
from crowdsweep.record import fetched
from crowdsweep.record.journal import Journal
from crowdsweep.record.objects import Objects
from crowdsweep.views.figures.drawing import PALETTE, line_style, plain_line_style
from crowdsweep.views.figures.maps import _HEAT, _WRONG
from crowdsweep.views.figures.of_report import figures_of
from crowdsweep.views.papers import formats_of, write_figures
from crowdsweep.views.report_files import write_report

NAMES = ["ranks", "means-birds", "means-cats", "search-cmm-2-50-1-x-input-birds", "cost-birds"]


def names_in(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "figures").iterdir() if not path.name.startswith("."))


def test_every_figure_of_the_page_is_a_file_with_its_caption(tmp_path: Path) -> None:
    store = published_store(tmp_path)
    page = write_report(store).read_text()
    written = write_figures(analysed(store), formats_of("pdf, svg,PNG"))
    assert [one.name for one in figures_of(analysed(store))] == NAMES
    assert page.count("<figure") == len(NAMES)
    expected = [f"{name}.{ending}" for name in NAMES for ending in ("pdf", "svg", "png", "txt")]
    assert names_in(store) == sorted([*expected, "figures.tex"])
    assert sorted(path.name for path in written) == names_in(store)
    caption = (store / "figures" / "means-birds.txt").read_text()
    assert caption == (
        "Test accuracy on birds, in %. Mean and 95 % interval; pale, every seed; hollow: saw gold; upright mark: as "
        "published.\n"
    )
    assert caption.partition(". ")[2].strip() in page
    latex = (store / "figures" / "figures.tex").read_text()
    shares = {name: float(share) for share, name in re.findall(r"\[width=(\S+)\\linewidth\]\{figures/(.*)\}", latex)}
    assert list(shares) == NAMES
    assert 0.3 < shares["ranks"] < shares["means-birds"] <= 1.0, "letters have one size"
    assert "\\caption{Test accuracy on birds, in \\%." in latex
    assert "cmm\\_2 \\& 50\\% \\#1" in latex, "a name is text"


def test_the_same_record_gives_the_same_bytes_and_no_time(tmp_path: Path) -> None:
    stores = [published_store(tmp_path / name) for name in ("a", "b")]
    contents: list[dict[str, bytes]] = []
    for store in stores:
        write_figures(analysed(store), ("pdf", "svg", "png"))
        contents.append({name: (store / "figures" / name).read_bytes() for name in names_in(store)})
    assert contents[0] == contents[1]
    for name, content in contents[0].items():
        assert b"CreationDate" not in content, name
        assert b"dc:date" not in content, name
        assert b"tIME" not in content, name
        if name.endswith(".pdf"):
            assert content.startswith(b"%PDF-")
            assert b"/FontFile2" in content, "TrueType, embedded"
            assert b"/Type3" not in content
        if name.endswith(".svg"):
            assert b"<text" not in content, "letters are outlines"


def test_figures_asked_for_again_take_the_place_of_the_earlier_ones_alone(tmp_path: Path) -> None:
    store = published_store(tmp_path)
    write_figures(analysed(store), ("svg",))
    assert "figures.tex" not in names_in(store), "LaTeX reads no SVG"
    (store / "figures" / "mine.svg").write_text("somebody's own")
    write_figures(analysed(store), ("pdf",))
    assert names_in(store) == sorted([*(f"{n}.{e}" for n in NAMES for e in ("pdf", "txt")), "figures.tex", "mine.svg"])
    write_report(store)
    assert "means-birds.pdf" in names_in(store), "a report leaves them where they are"
    (store / "figures" / "ranks.txt").write_text("changed by hand")
    before = {name: (store / "figures" / name).read_bytes() for name in names_in(store)}
    with pytest.raises(ForeignFile, match=r"ranks\.txt .*was changed since"):
        write_figures(analysed(store), ("pdf",))
    assert {name: (store / "figures" / name).read_bytes() for name in names_in(store)} == before


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    store, other = published_store(tmp_path / "store"), tmp_path / "other"
    other.mkdir()
    (store / "figures").symlink_to(other)
    with pytest.raises(OSError, match="link"):
        write_figures(analysed(store), ("svg",))
    assert not list(other.iterdir())


def test_the_command_and_python_write_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = published_store(tmp_path)
    assert run_command_line(["report", str(store), "--figures", "svg"]) == 0
    out = capsys.readouterr().out
    assert f"{store / 'report.html'}" in out
    assert f"{store / 'figures'}: {2 * len(NAMES)} files" in out
    before = {name: (store / "figures" / name).read_bytes() for name in names_in(store)}
    files = cs.results(store).figures("svg")
    assert {path.name: Path(str(path)).read_bytes() for path in files} == before
    for words, said in ((["--figures", "jpg"], "pdf, svg, png"), (["--figures", "pdf", "--live"], "--live")):
        assert run_command_line(["report", str(store), *words]) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(BadInput, match="''"):
        formats_of("pdf,")


@pytest.mark.parametrize("text", ["../../x", "a/b", "", "語", "A" * 500, "\x1b[31m", ODD, "-", ".hidden", "con:é"])
def test_any_name_becomes_one_plain_file_name(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name_of(text))
    assert len(name_of(text)) <= 64


def test_an_object_store_has_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryStore()
    monkeypatch.setattr(fetched, "Objects", lambda place: Objects(place, client=memory))
    store = published_store(tmp_path)
    found = replace(analysed(store), store=PLACE)
    written = write_figures(found, ("svg",))
    assert [str(one) for one in written[:2]] == [f"{PLACE}/figures/ranks.svg", f"{PLACE}/figures/ranks.txt"]
    write_figures(analysed(store), ("svg",))
    objects = Objects(PLACE / "figures", client=memory)
    for name in names_in(store):
        assert objects.get(name) == (store / "figures" / name).read_bytes(), name
    write_figures(found, ("pdf",))
    assert objects.get("ranks.svg") is None
    assert objects.get("ranks.pdf") is not None


def test_datasets_of_one_plain_name_have_files_of_their_own(tmp_path: Path) -> None:
    events = [
        event
        for dataset in ("a b", "a-b", "語")
        for model in ("m", "n")
        for event in made_up_trials(model, dataset, [{"test_accuracy": 0.5}, {"test_accuracy": 0.6}])
    ]
    journal = Journal(tmp_path)
    journal.handle_many(made_up_sweep(events, models=[]))
    journal.close()
    names = [one.name for one in figures_of(analysed(tmp_path))]
    assert names == ["ranks", "means-a-b", "means-a-b-2", "means"]


def lightness(colour: object) -> float:
    """L* of CIELAB: what is left of a colour in grey print."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]  # type: ignore[arg-type]
    y = float(np.dot((0.2126, 0.7152, 0.0722), linear))
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


@pytest.mark.parametrize(("shades", "span"), [(_HEAT, 60), (_WRONG, 20)], ids=["heat", "wrong"])
def test_shades_that_say_something_darken_steadily_in_grey(shades: Colormap, span: float) -> None:
    values = [lightness(shades(place)[:3]) for place in np.linspace(0, 1, 33)]
    assert (np.diff(values) < 0).all()
    assert values[0] - values[-1] >= span


def test_lines_differ_by_more_than_their_colour() -> None:
    marked, plain = ([style(place) for place in range(18)] for style in (line_style, plain_line_style))
    for looks, other in combinations(range(6), 2):
        assert marked[looks]["marker"] != marked[other]["marker"]
        assert plain[looks]["linestyle"] != plain[other]["linestyle"]
    for styles in (marked, plain):
        looks = {(one["color"], one["marker"], one["linestyle"]) for one in styles}
        assert len(looks) == len(styles)
    assert len(set(PALETTE)) == 6
