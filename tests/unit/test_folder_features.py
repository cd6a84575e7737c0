"""Features of items in a dataset folder: from files by their kind, or from how some of the annotators answered."""

import zipfile

import numpy as np
import pytest
from data_folders import GOOD, folder_of

from crowdsweep.data import catalogue
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.errors import DataError


def features_of(folder, kind="plain", **arrays):
    np.savez(folder / f"features-{kind}.npz", **arrays)
    return folder


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": np.zeros((1, 2)), "item": np.array(["a"])}, r"every item, 1 have none, such as 'b'"),
        ({"features": np.full((2, 2), np.nan), "item": np.array(["a", "b"])}, r"NaN or infinity for item 'a'"),
        ({"features": np.zeros(2), "item": np.array(["a", "b"])}, r"numbers \[n, d\] and item \[n\], got float64"),
        ({"features": np.array([["p"], ["q"]]), "item": np.array(["a", "b"])}, r"expected features as numbers"),
        ({"feature": np.zeros((2, 2)), "item": np.array(["a", "b"])}, r"arrays features .* and item"),
        ({"features": np.array([{}, {}]), "item": np.array(["a", "b"])}, r"allow_pickle"),
    ],
)
def test_bad_features_are_told(tmp_path, arrays, message):
    folder = features_of(folder_of(tmp_path / "data", annotations=GOOD), **arrays)
    with pytest.raises(DataError, match=message):
        read_folder(folder)
    assert read_folder(folder, features="none").items.features is None


def test_features_are_chosen_by_kind_and_stay_in_the_folder(tmp_path):
    folder = folder_of(tmp_path / "data", annotations=GOOD)
    item = np.array(["b", "a", "stranger"])
    features_of(folder, "one", features=np.array([[1], [2], [3]], dtype=np.float16), item=item)
    assert read_folder(folder).items.features.tolist() == [[2], [1]]
    assert read_folder(folder).items.features.dtype == np.float32
    features_of(folder, "two", features=np.array([[5], [6], [7]]), item=item)
    features_of(tmp_path, "outside", features=np.zeros((3, 1)), item=item)
    with pytest.raises(DataError, match=r"several features files; set the dataset parameter features: one | two"):
        read_folder(folder)
    assert catalogue.load(str(folder), {"features": "two"}).items.features.tolist() == [[6], [5]]
    for kind in ("three", "../outside", "x/../../features-outside"):
        with pytest.raises(DataError, match="found one, two"):
            read_folder(folder, features=kind)
    (folder / "features-two.npz").write_bytes(b"PK broken")
    with pytest.raises(DataError, match=r"expected \.npz arrays"):
        read_folder(folder, features="two")


def test_an_archive_of_features_packed_to_fill_memory_is_refused(tmp_path):
    folder = folder_of(tmp_path / "data", annotations=GOOD)
    header = {"descr": "<f4", "fortran_order": False, "shape": (2, 1 << 24)}
    with (
        zipfile.ZipFile(folder / "features-x.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("features.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(128):
            file.write(bytes(1 << 20))
    with pytest.raises(DataError, match=r"features: expected at most [0-9]+ MB, got 128 MB packed into"):
        read_folder(folder)


PARTED = (
    "item,annotator,platform,label\n"
    "a,1,x,yes\na,2,y,yes\na,3,y,yes\na,4,y,no\nb,1,x,no\nc,2,y,no\n"  # nobody of x answered c, nobody of y b
)


def test_how_some_answered_can_be_the_features_of_who_learns_from_the_others(tmp_path):
    folder = folder_of(tmp_path / "data", annotations=PARTED)
    data = catalogue.load(str(folder), {"where": "platform=x", "features": "platform=y"})
    assert (list(data.item_names), data.class_names, len(data.annotations)) == (["a", "b"], ("no", "yes"), 2)
    assert data.items.features == pytest.approx(np.array([[1.5 / 4, 2.5 / 4], [0.5, 0.5]]))  # one answer more, evenly
    swapped = catalogue.load(str(folder), {"where": "platform=y", "features": "platform=x"})
    assert swapped.items.features == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert len({data.fingerprint, swapped.fingerprint}) == 2


def test_chosen_classes_of_some_can_be_features(tmp_path):
    rows = "item,annotator,platform,label\na,1,x,p\na,2,y,p|q\na,3,y,\nb,1,x,q\n"
    folder = folder_of(tmp_path / "data", annotations=rows)
    (folder / "dataset.yaml").write_text("scale: multilabel\n")
    data = read_folder(folder, where="platform=x", features="platform=y")
    assert data.items.features == pytest.approx(np.array([[1.5 / 3, 1.5 / 3], [0.5, 0.5]]))


@pytest.mark.parametrize("where", [None, "platform=y", "item=a"])
def test_no_answer_is_both_a_feature_and_learned_from(tmp_path, where):
    folder = folder_of(tmp_path / "data", annotations=PARTED)
    with pytest.raises(DataError, match=r"expected `where: platform=…` with another value, got "):
        read_folder(folder, features="platform=y", where=where)


def test_a_feature_of_a_class_that_nobody_else_gave_must_be_declared(tmp_path):
    folder = folder_of(tmp_path / "data", annotations=PARTED + "a,5,y,perhaps\n")
    with pytest.raises(DataError, match=r"expected one of the classes no, yes, got 'perhaps'.* declare the class"):
        read_folder(folder, features="platform=y", where="platform=x")
