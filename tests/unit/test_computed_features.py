"""Features that are computed of texts: by words, by training items alone, once, and part of what a trial is."""

import math
import sys
import types
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import yaml

from crowdsweep.data import catalogue
from crowdsweep.data.computed import tfidf
from crowdsweep.data.computed.features import with_computed
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.splits import prepare
from crowdsweep.errors import DataError, SweepFileError
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import config_to_mapping, load_sweep, parse_sweep

WORDS = {"cat": ("soft fur", "claws and fur", "a soft cat"), "dog": ("loyal barks", "barks and fur", "a loyal dog")}


def written(folder: Path, *, texts: Mapping[str, str] | None = None, split: bool = True) -> Path:
    """Twelve items of two classes; six train, the others test. Words `only0` … are of one test item each."""
    folder.mkdir(exist_ok=True)
    names = [f"i{n}" for n in range(12)]
    gold = ["cat" if n % 2 else "dog" for n in range(12)]
    told = {
        name: WORDS[label][n // 2 % 3] + (f" only{n} twice twice" if n > 5 else "")
        for n, (name, label) in enumerate(zip(names, gold, strict=True))
    }
    told |= texts or {}
    rows = [f"{name},{'train' if n < 6 else 'test'},{gold[n]},{told[name]}" for n, name in enumerate(names)]
    header = "item,split,gold,text"
    if not split:
        header, rows = "item,gold,text", [f"{n},{g},{t}" for n, _, g, t in (row.split(",") for row in rows)]
    (folder / "items.csv").write_text("\n".join([header, *rows]) + "\n")
    answers = [f"{name},a{who},{gold[n]}" for n, name in enumerate(names[: 6 if split else 12]) for who in range(3)]
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *answers]) + "\n")
    return folder


def naive_tfidf(texts: list[str], trains: list[bool]) -> list[dict[str, float]]:
    """Loops over words, as the docstring has it."""
    known = [text.lower().split() for text, train in zip(texts, trains, strict=True) if train]
    held = Counter(word for words in known for word in set(words))
    rows: list[dict[str, float]] = []
    for text in texts:
        counts = Counter(word for word in text.lower().split() if held[word] >= 2)
        row = {
            word: (1 + math.log(n)) * (1 + math.log((1 + len(known)) / (1 + held[word]))) for word, n in counts.items()
        }
        length = math.sqrt(sum(value**2 for value in row.values()))
        rows.append({word: value / length for word, value in row.items()})
    return rows


def test_the_weights_are_those_of_a_naive_count(tmp_path: Path) -> None:
    data = catalogue.load(str(written(tmp_path / "set")), {"features": "text:tfidf"})
    expected = naive_tfidf(list(data.items.text), (data.split == 1).tolist())
    words = sorted({word for row in expected for word in row})
    assert words == ["a", "and", "barks", "fur", "loyal", "soft"]  # of training texts: no `twice`
    assert data.items.features.dtype == np.float32
    assert data.items.features == pytest.approx(np.array([[row.get(word, 0) for word in words] for row in expected]))


def test_texts_of_test_items_change_nothing_of_others(tmp_path: Path) -> None:
    folder = written(tmp_path / "set")
    before = catalogue.load(str(folder), {"features": "text:tfidf"})
    written(folder, texts={"i9": "claws claws new new", "i10": "new words"})
    after = catalogue.load(str(folder), {"features": "text:tfidf"})
    same = [n for n, name in enumerate(before.item_names) if name not in ("i9", "i10")]
    assert np.array_equal(before.items.features[same], after.items.features[same])
    assert before.fingerprint != after.fingerprint


def test_without_a_split_annotated_items_say_which_words_there_are(tmp_path: Path) -> None:
    data = catalogue.load(str(written(tmp_path / "set", split=False)), {"features": "text:tfidf"})
    assert data.items.features.shape == (12, 10)  # as `twice`, `cat`, `claws` and `dog` now are in two


def test_the_most_frequent_words_are_kept_ties_in_alphabetical_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfidf, "MOST_WORDS", 3)
    texts = ["b a d", "d c b", "a c d"]
    trains = np.ones(3, dtype=bool)
    assert tfidf._words_of(texts, "") == ["a", "b", "d"]
    assert tfidf.tfidf(texts, trains, "").shape == (3, 3)
    assert tfidf._words_of(texts[::-1], "") == ["a", "b", "d"]


def test_they_are_part_of_what_a_trial_is_and_not_their_last_digits(tmp_path: Path, monkeypatch) -> None:
    folder = str(written(tmp_path / "set"))
    plain, computed = (catalogue.load(folder, params) for params in ({}, {"features": "text:tfidf"}))
    assert computed.fingerprint != plain.fingerprint
    real = tfidf.tfidf
    monkeypatch.setattr(tfidf, "tfidf", lambda *given: real(*given) * np.float32(1.0000001))
    elsewhere = catalogue.load(folder, {"features": "text:tfidf"})
    assert not np.array_equal(elsewhere.items.features, computed.items.features)
    assert elsewhere.fingerprint == computed.fingerprint
    monkeypatch.setattr(tfidf, "VERSION", 2)
    assert catalogue.load(folder, {"features": "text:tfidf"}).fingerprint != computed.fingerprint


def sweep_of(tmp_path: Path, **dataset: object) -> Path:
    mapping = {
        "name": "texts",
        "datasets": [{"name": "set", **dataset}],
        "models": ["majority-vote"],
        "seeds": {"report": 2},
    }
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(mapping))
    return path


def test_a_sweep_file_asks_for_them_and_they_are_computed_once(tmp_path: Path, monkeypatch) -> None:
    written(tmp_path / "set")
    config = load_sweep(sweep_of(tmp_path, features=[{"text": "tfidf"}, "none"], scenario=["individual", "global"]))
    assert [entry.params["features"] for entry in config.datasets] == ["text:tfidf", "text:tfidf", "none", "none"]
    assert parse_sweep(config_to_mapping(config), config.source) == config
    again = load_sweep(sweep_of(tmp_path), ["datasets.0.features={text: tfidf}"])
    assert again.datasets[0].params == {"features": "text:tfidf"}
    real, made = tfidf.tfidf, list[int]()
    monkeypatch.setattr(tfidf, "tfidf", lambda *given: made.append(1) or real(*given))
    plan = make_plan(load_sweep(sweep_of(tmp_path, features={"text": "tfidf"}, scenario=["individual", "global"])))
    assert len(made) == 1
    assert {planned.offer.shape.n_features for planned in plan.datasets} == {6}


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ({"text": "tfdf"}, "did you mean 'tfidf'"),
        ({"text": "sentence-transformers"}, "expected tfidf or sentence-transformers/NAME"),
        ({"txt": "tfidf"}, "expected {text: tfidf}"),
        ({"text": "tfidf", "image": "x"}, "expected {text: tfidf}"),
        ({"text": 1}, "expected {text: tfidf}"),
        ({}, "expected {text: tfidf}"),
        (["none", {"text": "?"}], "features.1: features, text: expected tfidf"),
    ],
)
def test_mistakes_are_told_where_they_stand(features: object, said: str, tmp_path: Path) -> None:
    written(tmp_path / "set")
    with pytest.raises(SweepFileError, match=r"sweep.yaml:\d+: datasets.0.features") as caught:
        load_sweep(sweep_of(tmp_path, features=features))
    assert said in str(caught.value)


def test_what_has_no_texts_is_refused_before_anything_runs(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", texts={"i3": " ", "i7": ""})
    with pytest.raises(DataError, match=r"need a text of every item, 2 have none, such as 'i3'"):
        make_plan(load_sweep(sweep_of(tmp_path, features={"text": "tfidf"})))
    (folder / "items.csv").unlink()
    with pytest.raises(DataError, match=r"\{text: tfidf\} need texts, and it has none.*--text COLUMN"):
        make_plan(load_sweep(sweep_of(tmp_path, features={"text": "tfidf"})))
    with pytest.raises(DataError, match="words in common, found none in 6 texts"):
        catalogue.load(str(written(folder, texts={f"i{n}": f"word{n}" for n in range(12)})), {"features": "text:tfidf"})


def test_folds_would_let_test_items_say_which_words_there_are(tmp_path: Path) -> None:
    folder = str(written(tmp_path / "set", split=False))
    with pytest.raises(DataError, match="folds: expected features that no training item decides"):
        catalogue.load(folder, {"features": "text:tfidf", "folds": 3})
    with pytest.raises(DataError, match="folds: expected features"):
        prepare(catalogue.load(folder, {"features": "text:tfidf"}), {"features": "text:tfidf", "folds": 3}, 0)


# A stand-in with the signatures of sentence-transformers 3 to 5: of a text it says how often each vowel is in it.


class Encoder:
    made: ClassVar[list[str]] = []

    def __init__(
        self, model_name_or_path: str | None = None, modules: object = None, device: str | None = None
    ) -> None:
        if model_name_or_path == "nobody/nothing":
            raise OSError("nobody/nothing is not a local folder and is not a valid model identifier")
        self.made.append(str(model_name_or_path))

    def encode(
        self,
        sentences: list[str],
        prompt_name: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        normalize_embeddings: bool = False,
    ) -> np.ndarray:
        found = np.array([[1 + text.count(vowel) for vowel in "aeiou"] for text in sentences], dtype=np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True) if normalize_embeddings else found


@pytest.fixture
def encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = Encoder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Encoder.made = []
    return Encoder.made


def encoded(folder: Path, model: str = "tiny") -> CrowdDataset:
    return catalogue.load(str(folder), {"features": f"text:sentence-transformers/{model}"})


def test_an_encoder_reads_the_texts_once(tmp_path: Path, encoders: list[str]) -> None:
    folder = written(tmp_path / "set")
    data = encoded(folder)
    assert data.items.features.shape == (12, 5)
    assert np.linalg.norm(data.items.features, axis=1) == pytest.approx(np.ones(12))
    assert np.array_equal(encoded(folder).items.features, data.items.features)
    assert encoders == ["tiny"]  # the second time they came from the cache
    (kept,) = (tmp_path / "cache/crowdsweep/features").iterdir()
    kept.write_bytes(b"damaged")
    assert encoded(folder).fingerprint == data.fingerprint
    written(folder, texts={"i3": "other words"})
    assert encoded(folder).fingerprint != data.fingerprint
    assert encoded(folder, "other").fingerprint != encoded(folder).fingerprint
    assert encoders == ["tiny", "tiny", "tiny", "other"]


def test_a_model_in_a_folder_is_what_its_files_are(tmp_path: Path, encoders: list[str]) -> None:
    folder, model = written(tmp_path / "set"), tmp_path / "model"
    model.mkdir()
    (model / "weights").write_bytes(b"1")
    first = encoded(folder, str(model))
    (model / "weights").write_bytes(b"2")
    assert encoded(folder, str(model)).fingerprint != first.fingerprint
    assert encoders == [str(model)] * 2


def test_pairs_are_read_as_one(tmp_path: Path, encoders: list[str]) -> None:
    folder = written(tmp_path / "set")
    items = (folder / "items.csv").read_text().splitlines()
    (folder / "items.csv").write_text("\n".join([f"{items[0]},text_b", *(f"{row},ooo" for row in items[1:])]) + "\n")
    (scale,) = {round(float(row[3] / row[4]), 3) for row in encoded(folder).items.features[:1]}
    assert scale == pytest.approx((1 + 3 + 1) / (1 + 0), abs=3)  # three o more, beside those of the text itself


def test_an_encoder_that_does_not_take_part_is_told(tmp_path: Path, encoders: list[str], monkeypatch) -> None:
    folder = written(tmp_path / "set")
    with pytest.raises(DataError, match=r"'nobody/nothing' cannot be used .*not a valid model"):
        encoded(folder, "nobody/nothing")
    monkeypatch.setattr(Encoder, "encode", lambda *_, **__: np.full((12, 2), np.nan))
    with pytest.raises(DataError, match="expected a finite embedding of each of 12 texts"):
        encoded(folder)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(DataError, match=r"pip install 'crowdsweep\[text\]'"):
        encoded(folder, "other")


def test_folds_take_an_encoder(tmp_path: Path, encoders: list[str]) -> None:
    params = {"features": "text:sentence-transformers/tiny", "folds": 3}
    base = catalogue.load(str(written(tmp_path / "set", split=False)), params)
    assert prepare(base, params, 0).training.items.features.shape[1] == 5


def test_a_dataset_in_memory_is_read_as_a_folder_is(tmp_path: Path) -> None:
    plain = catalogue.load(str(written(tmp_path / "set")), {})
    computed = with_computed(plain, "text:tfidf")
    assert np.array_equal(
        computed.items.features, catalogue.load(plain.folder, {"features": "text:tfidf"}).items.features
    )


@pytest.mark.long
def test_a_real_encoder_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The door above, and the package itself behind it, where it is installed: a tiny model with random weights."""
    pytest.importorskip("sentence_transformers")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "soft", "fur", "claws", "and", "loyal", "barks"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "model")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(tmp_path / "model")
    data = encoded(written(tmp_path / "set"), str(tmp_path / "model"))
    assert data.items.features.shape == (12, 16)
    assert np.linalg.norm(data.items.features, axis=1) == pytest.approx(np.ones(12), abs=1e-5)
    first, fourth = (list(data.item_names).index(name) for name in ("i0", "i3"))
    assert not np.allclose(data.items.features[first], data.items.features[fourth])
    assert np.array_equal(encoded(tmp_path / "set", str(tmp_path / "model")).items.features, data.items.features)
