"""The files in the documents are written, their commands run in order, and what they say of the project is so."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from tours import BLOCK, run_tour
from warm import WarmServer

from crowdsweep.data.catalogue import COMMON_PARAMS, FOLDER_PARAMS
from crowdsweep.data.on_disk.folder_checks import READ_COLUMNS
from crowdsweep.files.located import parse_yaml
from crowdsweep.importing.registry import FORMS
from crowdsweep.models.registered import model_names
from crowdsweep.registry.parameters import describe_type
from crowdsweep.search import dimensions
from crowdsweep.studies.contract import find_template, template_names
from crowdsweep.sweepfile.checked import field_types
from crowdsweep.sweepfile.records import ModelEntry, PublishedValue, SweepConfig

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "search_spaces" / "README.md").read_text(encoding="utf-8")
DATA = (ROOT / "crowdsweep" / "data" / "README.md").read_text(encoding="utf-8")
MODELS = (ROOT / "crowdsweep" / "models" / "README.md").read_text(encoding="utf-8")
ROOMS = ("clusters", "crowdsweep", "search_spaces", "tests")
PAGES = [ROOT / "README.md", *(page for room in ROOMS for page in sorted((ROOT / room).rglob("README.md")))]


def test_every_command_of_the_tour_runs(tmp_path: Path, warm: WarmServer) -> None:
    run_tour(README, tmp_path, warm)
    assert (tmp_path / "crowdsweep-runs/photos/report.html").stat().st_size > 10_000
    for written in ("crowdsweep-runs/photos/labels", "labels", "photos-labels"):
        assert len((tmp_path / written / "labels.csv").read_text().splitlines()) == 11, written
    assert re.search(r'^"dan",8,0\.2', (tmp_path / "labels/annotators.csv").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def with_a_model(tmp_path_factory: pytest.TempPathFactory, warm: WarmServer) -> tuple[Path, str]:
    """Runs the tour of the models' README once, and returns the folder and what was printed."""
    folder = tmp_path_factory.mktemp("models")
    return folder, run_tour(MODELS, folder, warm)


def test_the_added_models_are_in_the_reports_and_pass_the_contract(with_a_model: tuple[Path, str]) -> None:
    folder, printed = with_a_model
    for report, names in (("votes", ["weighted-vote"]), ("networks", ["robust-network", "reliability"])):
        page = (folder / f"crowdsweep-runs/{report}/report.html").read_text(encoding="utf-8")
        assert all(name in page for name in names), report
    assert "smoothing" in printed
    environment = {**os.environ, "CROWDSWEEP_PLUGINS": str(folder / "plugins")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
    done = subprocess.run(
        [
            *command,
            "-k",
            "weighted-vote or robust-network or reliability",
            str(ROOT / "tests/contracts/test_models.py"),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"\d{2,} passed", done.stdout), done.stdout[-500:]


def test_the_commands_of_make_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = {a or b for a, b in re.findall(r"`make ([\w-]+)`|^make ([\w-]+)", text, re.MULTILINE)}
    assert {"demo", "test", "test-all", "check", "chaos", "table"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_path_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:search_spaces|clusters|crowdsweep|tests)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (page.parent / picture).stat().st_size > 1000, picture


def test_the_readme_is_short_and_leads_to_every_other_page() -> None:
    assert len(README.splitlines()) < 150
    led = {row[0].strip("`") for row in rows_of("Where the rest stands", README)[1:]}
    assert led == {page.relative_to(ROOT).as_posix() for page in PAGES} - {"README.md"}


@pytest.mark.parametrize(
    ("page", "section", "files"),
    [
        ("tests/README.md", "Tests", "tests/*/"),
        ("tests/benchmarks/README.md", "What it costs, and whether it is right", "tests/benchmarks/*.py"),
        ("clusters/README.md", "The files", "clusters/[!R]*"),
        ("search_spaces/README.md", "Sweep files", "search_spaces/*.yaml"),
    ],
)
def test_a_room_s_readme_names_what_is_in_it(page: str, section: str, files: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").replace(f"# {section}\n", f"\n## {section}\n", 1)
    told = {row[0].strip("`/") for row in rows_of(section, text)[1:]}
    assert told == {path.name for path in ROOT.glob(files) if path.name != "__pycache__"}


def test_the_sweep_files_of_the_reference_are_planned_and_run(tmp_path: Path, warm: WarmServer) -> None:
    printed = run_tour(REFERENCE, tmp_path, warm)
    assert (tmp_path / "crowdsweep-runs/labels/report.html").is_file()
    page = (tmp_path / "crowdsweep-runs/effort/report.html").read_text(encoding="utf-8")
    assert "Accuracy against the labels of each item" in page
    assert page.count("<svg") >= 2
    assert json.loads((tmp_path / "sweep.schema.json").read_text(encoding="utf-8"))["required"]
    for told in (
        "digits\tdawid-skene\t20\t",  # --set
        "digits global (redundancy 2)",
        "gaussians\tcmm\t41\t",  # 12 points × 3 seeds, and 5
        "gaussians\tdawid-skene\t41\t",  # 12 of 16 points, from the file
        "\t8 points by held-out log-likelihood",
        "anesthesia (redundancy 5)\tdawid-skene\t3\t",
    ):
        assert told in printed, told


def test_the_examples_of_every_form_are_imported(tmp_path: Path, warm: WarmServer) -> None:
    printed = run_tour(DATA, tmp_path, warm)
    for told in (
        "by-hand: usable",
        "matrix: 2 items, 2 annotators, 3 labels, 2 classes",
        "from-doccano: 2 items, 2 annotators, 4 labels, 2 classes",
        "mturk.csv: rejected assignments left out: 1",
        "album: 2 answers added, gold of 1 items: 2 items (1 new), 1 annotators (1 new); 6 labels now",
        "album: nothing is new, nothing was added; 6 labels",
        "the last one kept: photo-1 by bob: 'dog', then 'cat'",
        "moons",
    ):
        assert told in printed, told
    assert (tmp_path / "crowdsweep-runs/moons/report.html").is_file()


def test_the_models_that_are_advised_and_compared_are_there() -> None:
    rows = [*rows_of("Choosing a model", MODELS), *rows_of("Which model?", README)]
    advised = {name for row in rows for name in re.findall(r"`([a-z][a-z-]+)`", " ".join(row))} - {"text"}
    assert len(advised) > 20
    assert advised <= set(model_names())
    head, *rows = rows_of("Aggregators on public data", MODELS)
    assert set(head[1:]) <= set(model_names())
    assert {len(row) for row in rows} == {len(head)}


def test_every_form_and_column_stands_in_the_data_s_readme() -> None:
    forms = [row[0].strip("`") for row in rows_of("Forms", DATA)[1:]]
    assert set(forms[: forms.index("what people's tables have")]) == set(FORMS)
    commands = "\n".join(text for language, name, text in BLOCK.findall(DATA) if language == "sh" and not name)
    imported = set(re.findall(r"crowdsweep data import (\S+)", commands + README))
    assert imported >= set(FORMS)
    told = {row[0].strip("`"): set(re.findall(r"`([a-z_]+)`", row[1])) for row in rows_of("The folder", DATA)[1:]}
    for stem, columns in READ_COLUMNS.items():
        assert told[stem] == set(columns), stem


def rows_of(section: str, document: str = REFERENCE) -> list[list[str]]:
    """Returns the cells of the tables in a section of a document, without the lines under the heads."""
    text = document.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines, section
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if "| ---" not in line]


def keys_of(record: Any) -> Iterator[tuple[str, str, str]]:
    """Yields key, what it takes and default of everything in a record, and in those that it holds."""
    for field in fields(record):
        hint = field_types(record)[field.name]
        if is_dataclass(hint):
            yield from ((f"{field.name}.{key}", takes, default) for key, takes, default in keys_of(hint))
        else:
            given = field.default if field.default_factory is MISSING else field.default_factory()
            default = "none" if given is None else json.dumps(given, default=lambda _: "none")
            yield field.name, describe_type(hint).removesuffix(", or null"), default


def test_every_key_stands_in_the_reference_with_what_it_takes_and_its_default() -> None:
    told = {row[0].strip("`"): row[1:3] for row in rows_of("All keys")}
    elsewhere = ("datasets", "models", "source")  # sections of their own; `source` is no key
    for key, takes, default in keys_of(SweepConfig):
        if key in ("metric", "study"):
            assert any(known.startswith(f"{key}.") for known in told)
        elif key in ("name", "published.values"):
            assert key in told
        elif key not in elsewhere:
            assert told[key] == [takes, default], key
    (example,) = [text for _, name, text in BLOCK.findall(REFERENCE) if name == "every-key.yaml"]
    shown = parse_yaml(example, "every-key.yaml")[0]
    assert {key.partition(".")[0] for key, _, _ in keys_of(SweepConfig)} - {"source", "study"} == set(shown)
    for key in told:
        section, _, part = key.partition(".")
        assert section == "study" or not part or part in shown[section], key
    assert {field.name for field in fields(PublishedValue)} == set(shown["published"]["values"][0])


def test_parameters_of_datasets_and_keys_of_models_stand_in_the_reference() -> None:
    assert {row[0].strip("`") for row in rows_of("Datasets")[1:]} == {*COMMON_PARAMS, *FOLDER_PARAMS}
    keys = {"search" if field.name == "space" else field.name for field in fields(ModelEntry)} - {"place"}
    assert {row[0].strip("`") for row in rows_of("Models")[1:]} == keys


def test_every_distribution_stands_in_the_reference() -> None:
    told = {row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in rows_of("Spaces")[1:]}
    assert told == {kind: list(needed) for kind, needed in dimensions.KEYS_OF.items()}


def test_every_knob_of_the_templates_stands_in_the_reference() -> None:
    told = {(row[0].strip("`"), row[1].strip("`")): row[2:] for row in rows_of("Studies")[1:]}
    ours = {name: find_template(name) for name in template_names()}
    assert told == {
        (name, knob): [json.dumps(known.default), known.about]
        for name, template in ours.items()
        for knob, known in template.knobs.items()
    }
