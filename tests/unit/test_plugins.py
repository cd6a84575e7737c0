"""Models, datasets and templates found by their place, and hyper-parameters that are checked before anything runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data import catalogue
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.registry import discovery
from crowdsweep.seeds import SeedStream
from crowdsweep.studies.contract import find_template, template_names
from crowdsweep.testing.small_data import small_data

MODEL_FILE = '''
"""A model of one file, for these tests.

More is said below the first line.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge, Gt, Interval, Le

from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Sample:
    smoothing: Annotated[float, Ge(0)] = 0.01
    groups: Annotated[int, Ge(1), Le(10)] = 2
    ties: Literal["random", "first"] = "random"
    hidden: tuple[Annotated[int, Ge(1)], ...] = (16,)
    limit: Annotated[int, Ge(1)] | None = None
    dropout: Annotated[float, Interval(ge=0, lt=1)] = 0.5
    rate: Annotated[float, Gt(0)]
    quiet: bool = False

    def __post_init__(self):
        if self.quiet and self.limit is None:
            raise ValueError("a quiet model needs a limit")

    def fit(self, data, context):
        return FitResult(item_probs=np.full((data.n_items, data.n_classes), 1 / data.n_classes))


MODEL = ModelInfo(name="sample-model", title="t", model=Sample, source="s", cost=lambda shape, params: 1.0)
'''
SOURCE_FILE = '''
"""A dataset of one file."""

from crowdsweep.data.catalogue import Source, load

SOURCE = Source(name="sample-data", title="t", defaults={}, base=lambda params: load("anesthesia", {}))
'''
TEMPLATE_FILE = """\"\"\"A template of one file.\"\"\"

from crowdsweep.studies.contract import StudyReport, StudyTemplate

TEMPLATE = StudyTemplate(
    name="sample-study",
    title="t",
    knobs={},
    plans=lambda knobs, config: config,
    summarise=lambda results, knobs: StudyReport(title="t"),
)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the search path with one model, one dataset and one template."""
    (tmp_path / "sample_model.py").write_text(MODEL_FILE)
    (tmp_path / "sample_data.py").write_text(SOURCE_FILE)
    (tmp_path / "sample_study.py").write_text(TEMPLATE_FILE)
    (tmp_path / "_sample_part.py").write_text(MODEL_FILE)
    (tmp_path / "sample_notes.py").write_text('"""Says MODEL = nothing, inside a text."""\n\nPLAIN = 1\n')
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_one_file_adds_a_model_a_dataset_and_a_template() -> None:
    assert "sample-model" in registered.model_names()
    assert "sample-data" in catalogue.names()
    assert "sample-study" in template_names()
    model = registered.build_model("sample-model", {"rate": 1})
    fitted = fit_one(model, small_data().training, FitContext(seeds=SeedStream(0)))
    np.testing.assert_allclose(fitted.item_probs, 1 / 3)
    assert len(catalogue.load("sample-data", {}).annotations) == 315
    assert find_template("sample-study").name == "sample-study"


@pytest.mark.usefixtures("folder")
def test_private_files_and_files_without_the_constant_are_no_plugins() -> None:
    mine = {name for kind in ("model", "dataset", "template") for name in discovery.find(kind) if "sample" in name}
    assert mine == {"sample-model", "sample-data", "sample-study"}


@pytest.mark.usefixtures("folder")
def test_titles_are_read_without_importing() -> None:
    before = set(sys.modules)
    assert discovery.titles("model")["sample-model"] == "A model of one file, for these tests"
    assert all(discovery.titles("model").values())
    assert {name for name in set(sys.modules) - before if "crowdsweep" in name} == set()


def test_the_same_name_twice_is_refused(folder: Path) -> None:
    (folder / "dawid_skene.py").write_text(MODEL_FILE)
    with pytest.raises(BadInput, match=r"'dawid-skene' is defined twice: .*aggregate.dawid_skene.py and .*rename one"):
        registered.model_info("dawid-skene")
    with pytest.raises(BadInput, match="defined twice"):
        registered.model_names()


def test_a_file_must_define_what_its_name_promises(folder: Path) -> None:
    (folder / "sample_other.py").write_text(MODEL_FILE)
    with pytest.raises(
        BadInput, match=r"expected MODEL\.name to be 'sample-other', as its place says, got 'sample-mod"
    ):
        registered.model_info("sample-other")
    (folder / "sample_wrong.py").write_text("MODEL = 3\n")
    with pytest.raises(BadInput, match="expected MODEL to be a ModelInfo, got int"):
        registered.model_info("sample-wrong")
    (folder / "sample_hidden.py").write_text("if False:\n    pass\nMODEL: int = 3\ndel MODEL\n")
    with pytest.raises(BadInput, match="to define MODEL"):
        registered.model_info("sample-hidden")


def test_a_broken_file_can_be_mended_and_tried_again(folder: Path) -> None:
    (folder / "sample_broken.py").write_text("MODEL = unknown_name\n")
    with pytest.raises(NameError):
        registered.model_info("sample-broken")
    (folder / "sample_broken.py").write_text(MODEL_FILE.replace("sample-model", "sample-broken"))
    assert registered.model_info("sample-broken").name == "sample-broken"


def test_entry_points_of_installed_packages_are_found(tmp_path: Path) -> None:
    (tmp_path / "their_package.py").write_text(MODEL_FILE.replace("sample-model", "their-model"))
    facts = tmp_path / "their_package-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[crowdsweep.models]\ntheir-model = their_package:MODEL\n")
    program = (
        "import sys; from crowdsweep.models import registered; from crowdsweep.registry import discovery;"
        "assert 'their-model' in registered.model_names();"
        "assert discovery.titles('model')['their-model'] == 'their_package:MODEL';"
        "assert 'their_package' not in sys.modules;"
        "print(registered.full_params('their-model', {'rate': 2})['rate'])"
    )
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr


@pytest.mark.usefixtures("folder")
def test_full_params_are_json_with_defaults_in_the_order_of_the_fields() -> None:
    full = registered.full_params("sample-model", {"rate": 1, "hidden": [3, 4], "groups": np.int64(5)})
    assert list(full.items()) == [
        ("smoothing", 0.01),
        ("groups", 5),
        ("ties", "random"),
        ("hidden", [3, 4]),
        ("limit", None),
        ("dropout", 0.5),
        ("rate", 1.0),
        ("quiet", False),
    ]
    assert type(full["rate"]) is float  # an integer and the same float are one point, with one key
    assert registered.full_params("sample-model", full) == full


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"smoothing": -1}, "parameter 'smoothing': expected number, at least 0; got -1"),
        ({"smoothing": "a lot"}, "parameter 'smoothing': expected number, at least 0; got \"a lot\""),
        ({"smoothing": True}, "expected number, at least 0; got true"),
        ({"smoothing": float("inf")}, "expected a finite number; got inf"),
        ({"smoothing": None}, "expected number, at least 0; got null"),
        ({"groups": 0}, "expected integer, at least 1, at most 10; got 0"),
        ({"groups": 11}, "expected integer, at least 1, at most 10; got 11"),
        ({"groups": 2.0}, "expected integer, at least 1, at most 10; got 2.0"),
        ({"ties": "last"}, 'expected one of "random", "first"; got "last"'),
        ({"hidden": 16}, "expected list of (integer, at least 1); got 16"),
        ({"hidden": [16, 0]}, "expected list of (integer, at least 1); got [16, 0]"),
        ({"limit": 0}, "expected integer, at least 1, or null; got 0"),
        ({"dropout": 1}, "expected number, at least 0, below 1; got 1"),
        ({"rate": 0}, "expected number, above 0; got 0"),
        ({"quiet": 1}, "expected true or false; got 1"),
        ({"quiet": True}, "model 'sample-model': a quiet model needs a limit"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_values_are_checked_and_messages_say_what_is_allowed(params: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        registered.build_model("sample-model", {"rate": 1, **params})
    assert says in str(caught.value)
    assert "'sample-model'" in str(caught.value)


@pytest.mark.usefixtures("folder")
def test_a_parameter_without_a_default_must_be_given() -> None:
    with pytest.raises(BadInput, match="parameter 'rate': expected number, above 0; got nothing"):
        registered.build_model("sample-model", {})


@pytest.mark.usefixtures("folder")
def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(
        UnknownName, match="model 'sample-model': unknown parameter 'smooting'; did you mean 'smoothing'"
    ):
        registered.build_model("sample-model", {"smooting": 1})
    with pytest.raises(UnknownName, match="unknown model 'sample-modell'; did you mean 'sample-model'"):
        registered.build_model("sample-modell", {})
    with pytest.raises(UnknownName, match="unknown template 'sparsety'; did you mean 'sparsity'"):
        find_template("sparsety")


@pytest.mark.parametrize("name", ["../sample_model", "sample/../sample-model", "sample_model", "", "-", "/etc/passwd"])
def test_paths_and_module_names_are_no_names(folder: Path, name: str) -> None:
    (folder.parent / "sample_model.py").write_text(MODEL_FILE)
    with pytest.raises(UnknownName):
        registered.model_info(name)


@pytest.mark.usefixtures("folder")
def test_parameters_are_described() -> None:
    described = registered.parameters("sample-model")
    assert described["dropout"].allowed == "number, at least 0, below 1"
    assert described["hidden"].default == [16]
    assert described["rate"].required
    assert not described["limit"].required


def test_files_of_built_in_models_are_where_their_names_say() -> None:
    for name, place in discovery.find("model").items():
        assert isinstance(place.origin, Path)
        assert place.origin.stem.replace("_", "-") == name
        assert registered.model_info(name).name == name


BROKEN_FILES = {
    "syntax": b'"""A model."""\n\nMODEL = ModelInfo(\n',
    "latin": '"""Modèle."""\n\nMODEL = 1\n'.encode("latin-1"),
    "null": b'"""A model."""\n\nMODEL = 1\n\x00\n',
    "utf16": '"""A model."""\n\nMODEL = 1\n'.encode("utf-16"),
}


@pytest.mark.parametrize("fault", ["syntax", "latin", "null"])
def test_a_file_that_is_not_python_is_named_and_hides_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    (folder / f"sample_{fault}.py").write_bytes(BROKEN_FILES[fault])
    assert run_command_line(["models"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["sample-model"] == "A model of one file, for these tests"
    assert set(lines) > {"majority-vote", "cmm"}
    assert lines[f"sample-{fault}"].startswith(f"cannot be used: {folder / f'sample_{fault}.py'} is not Python: ")
    assert run_command_line(["models", "--json"]) == 0
    assert {"name": "sample-model", "title": "A model of one file, for these tests"} in json.loads(
        capsys.readouterr().out
    )
    assert registered.model_info("sample-model").title == "t"
    assert catalogue.names()
    assert template_names()


@pytest.mark.parametrize("fault", ["syntax", "latin"])
def test_a_file_that_is_not_python_is_refused_when_it_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    (folder / f"sample_{fault}.py").write_bytes(BROKEN_FILES[fault])
    assert run_command_line(["models", f"sample-{fault}"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {folder / f'sample_{fault}.py'} is not Python: ")


def test_a_file_in_which_nothing_can_be_found_is_no_plugin(folder: Path) -> None:
    (folder / "sample_utf16.py").write_bytes(BROKEN_FILES["utf16"])
    assert "sample-utf16" not in registered.model_names()


def test_a_declared_encoding_is_honoured(folder: Path) -> None:
    text = MODEL_FILE.replace("A model of one file", "Ein Modell für sich").replace("sample-model", "sample-coded")
    (folder / "sample_coded.py").write_bytes(("# -*- coding: latin-1 -*-\n" + text).encode("latin-1"))
    assert discovery.titles("model")["sample-coded"] == "Ein Modell für sich, for these tests"
    assert registered.model_info("sample-coded").name == "sample-coded"


def test_a_dataset_folder_whose_description_cannot_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, about in (
        ("good", b"title: Good labels\n"),
        ("torn", b"title: [\n"),
        ("latin", "title: é\n".encode("latin-1")),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "annotations.csv").write_text("item,annotator,label\na,x,1\n")
        (tmp_path / name / "dataset.yaml").write_bytes(about)
    monkeypatch.setenv("CROWDSWEEP_DATA", str(tmp_path))
    assert run_command_line(["datasets"]) == 0
    lines = dict((line + " -").split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["good"] == "Good labels -"
    for name in ("torn", "latin"):
        assert lines[name].startswith(f"cannot be used: {tmp_path / name / 'dataset.yaml'}: expected ")
