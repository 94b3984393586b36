"""Data sets load as documented, and a user's own arrays are checked before anything runs."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from fedcell.data import from_arrays, load, loading
from fedcell.data.catalog import CIFAR_FILES, IDX_FILES
from fedcell.data.fetch import EMBEDDED, cache_dir, is_fetched
from fedcell.errors import BadInput
from fedcell.labels import rank_in_class


def good(**changes):
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.normal(size=(6, 3)),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": rng.normal(size=(2, 3)),
        "y_test": np.array([2, 0]),
    }
    return {key: value for key, value in (arrays | changes).items() if value is not None}


def saved(folder, **changes):
    path = folder / "mine.npz"
    np.savez(path, **good(**changes))
    return str(path)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path))
    return tmp_path


def test_digits_are_embedded_and_split_alike_by_class():
    data = load("digits")
    assert data.x_train.shape == (1442, 1, 8, 8)
    assert data.x_test.shape == (355, 1, 8, 8)
    assert data.x_train.dtype == np.float32
    assert data.y_train.dtype == np.int64
    assert data.x_train.min() == 0
    assert data.x_train.max() == 1
    assert data.n_classes == 10
    share = np.bincount(data.y_test) / (np.bincount(data.y_test) + np.bincount(data.y_train))
    assert (abs(share - 0.2) < 0.01).all()
    assert f"{len(data.y_train):,} train / {len(data.y_test)} test" in EMBEDDED["digits"]
    np.testing.assert_array_equal(data.x_test, load("digits").x_test)


@pytest.mark.parametrize("path", [loading.DIGITS, "moved.csv.gz"])
def test_digits_are_those_of_scikit_learn(path, monkeypatch):
    """Read from its file, or asked from itself where the file has moved."""
    monkeypatch.setattr(loading, "DIGITS", path)
    data, original = load("digits"), load_digits()
    mine = [*zip(data.y_train, data.x_train, strict=True), *zip(data.y_test, data.x_test, strict=True)]
    theirs = zip(original.target, original.images.astype(np.float32) / 16, strict=True)
    assert sorted((y, x.tobytes()) for y, x in mine) == sorted((y, x.tobytes()) for y, x in theirs)


def test_rank_in_class_equals_a_plain_count():
    y = np.random.default_rng(0).integers(0, 5, 60)
    assert rank_in_class(y).tolist() == [int((y[:i] == y[i]).sum()) for i in range(60)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mnits", ["'mnits'", "did you mean 'mnist'?"]),
        ("Fashion-MNIST", ["did you mean 'fashion-mnist'?"]),
        ("cifar-10", ["did you mean 'cifar10'?"]),
        (
            "qqq",
            [
                "data.name = 'qqq' is unknown",
                "digits, diabetes, tags, mnist, fashion-mnist, cifar10, cifar100",
                ".npz",
            ],
        ),
        ("mnist", ["'mnist' is not in", "fedcell data get mnist"]),
        ("nowhere.npz", ["data.name = 'nowhere.npz' is no file"]),
    ],
)
def test_names_that_cannot_be_loaded(empty_cache, name, words):
    with pytest.raises(BadInput) as caught:
        load(name)
    assert all(word in str(caught.value) for word in words)


def test_a_file_of_another_kind_is_no_typo_of_a_data_set(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("1,2\n")
    with pytest.raises(BadInput, match=r"mine\.csv' is a file that does not end in \.npz: read it in Python, and save"):
        load(str(path))


def test_npz_floats_are_kept_as_they_are(tmp_path):
    data = load(saved(tmp_path))
    np.testing.assert_array_equal(data.x_train, good()["x_train"].astype(np.float32))
    assert data.n_classes == 3
    assert data.y_test.tolist() == [2, 0]
    assert data.y_test.dtype == np.int64


def test_npz_is_also_found_in_the_cache_folder(empty_cache):
    saved(empty_cache)
    assert load("mine.npz").name == "mine.npz"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((8, 9), (1, 8, 9)),
        ((8, 9, 3), (3, 8, 9)),
        ((8, 9, 1), (1, 8, 9)),
        ((3, 8, 9), (3, 8, 9)),
        ((1, 8, 4), (1, 8, 4)),
        ((7,), (7,)),
    ],
)
def test_bytes_become_channels_first_images_in_unit_range(shape, expected):
    x = np.random.default_rng(0).integers(0, 256, (6, *shape), dtype=np.uint8)
    data = from_arrays(**good(x_train=x, x_test=x[:2]))
    assert data.x_train.shape == (6, *expected)
    assert data.x_train.dtype == np.float32
    moved = np.moveaxis(x, -1, 1) if shape == (8, 9, 3) else x.reshape(6, *expected)
    np.testing.assert_allclose(data.x_train, moved / 255, rtol=1e-6)


def test_tensors_lists_and_columns_of_labels_are_taken():
    arrays = good(
        x_train=torch.ones(6, 3, requires_grad=True), y_train=[[0], [1], [2], [0], [1], [2]], y_test=[2.0, 0.0]
    )
    data = from_arrays(**arrays, name="mine")
    assert data.y_train.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.y_test.tolist() == [2, 0]
    assert data.name == "mine"


WRONG = [
    ({"y_test": None}, ["no array 'y_test'", "np.savez"]),
    ({"y_train": np.array([0, 1])}, ["x_train", "6 samples", "y_train has 2"]),
    ({"y_test": np.array([0, 1, 2])}, ["x_test", "2 samples", "y_test has 3"]),
    ({"x_train": np.array([[1.0, np.nan]] * 6)}, ["x_train", "nan at [0, 1]"]),
    ({"x_test": np.array([[1.0, 2.0, -np.inf]] * 2)}, ["x_test", "-inf at [0, 2]"]),
    ({"x_train": np.full((6, 3), 1e300)}, ["x_train", "1e+300"]),
    ({"x_train": np.array([["a"] * 3] * 6)}, ["x_train", "give numbers"]),
    ({"x_train": np.zeros((6,))}, ["x_train", "(6,)"]),
    ({"x_train": np.zeros((0, 3)), "y_train": np.zeros(0, int)}, ["x_train", "(0, 3)", "at least one sample"]),
    ({"x_test": np.zeros((0, 3)), "y_test": np.zeros(0, int)}, ["x_test", "(0, 3)"]),
    ({"x_test": np.zeros((2, 4))}, ["x_test", "(4,)", "(3,)"]),
    ({"y_train": np.array([0, 1, 2, 0, 1, -1])}, ["y_train", "-1 at 5"]),
    ({"y_train": np.array([0, 1, 1.5, 0, 1, 2])}, ["y_train", "1.5 at 2"]),
    ({"y_train": np.array([0, 1, np.nan, 0, 1, 2])}, ["y_train", "nan at 2"]),
    ({"y_train": np.array([0, 1, 2**64 - 1], np.uint64).repeat(2)}, ["y_train", str(2**64 - 1)]),
    ({"y_train": np.eye(6)}, ["y_train", "(6, 6)", "argmax"]),
    ({"y_train": np.array(list("abcabc"))}, ["y_train", "number the classes"]),
    ({"y_train": np.array([0, 1, 10**9, 0, 1, 2])}, ["y_train", "1000000000", "6 samples"]),
    ({"y_test": np.array([0, 4])}, ["y_test", "label 4", "y_train does not"]),
    ({"y_train": np.array([0, 2] * 3), "y_test": np.array([3, 1])}, ["y_test", "label 1", "y_train does not"]),
    ({"x_train": np.array([[np.inf, -np.inf, 0.0]] * 6)}, ["x_train", "inf at [0, 0]"]),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_wrong_files_are_refused_with_file_array_value_and_fix(tmp_path, changes, words):
    path = saved(tmp_path, **changes)
    with pytest.raises(BadInput) as caught:
        load(path)
    message = str(caught.value)
    assert all(word in message for word in [*words, "mine.npz"])
    assert "\n" not in message


def test_numbers_whose_sum_is_not_finite_are_taken():
    x = np.full((6, 3), np.finfo(np.float32).max)
    np.testing.assert_array_equal(from_arrays(**good(x_train=x)).x_train, x)


def test_checking_arrays_does_not_load_masked_arrays():
    """NumPy loads them for its set functions, which takes longer than checking most data."""
    code = (
        "import sys, numpy as np; from fedcell import from_arrays\n"
        "x = np.zeros((4, 3)); from_arrays(x, [0, 1, 0, 1], x[:1], [1]); sys.exit('numpy.ma' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_pickled_arrays_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"cannot be read .*plain number arrays"):
        load(saved(tmp_path, x_train=np.array([[{}]] * 6, dtype=object)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty: save"),
        (b"PK\x03\x04 cut short", "cannot be read"),
        (b"some text", "begins with b'some t' and is no NumPy archive: save"),
    ],
)
def test_files_that_are_no_archive_are_refused(tmp_path, content, words):
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=rf"broken\.npz' {words}.*np\.savez") as told:
        load(str(path))
    assert "pickle" not in str(told.value)


def test_a_single_array_is_refused(tmp_path):
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(BadInput, match="one array without a name"):
        load(str(tmp_path / "one.npz"))


def test_a_damaged_archive_is_refused(tmp_path):
    path = Path(saved(tmp_path))
    content = bytearray(path.read_bytes())
    content[100:160] = bytes(60)
    path.write_bytes(content)
    with pytest.raises(BadInput, match="cannot be read"):
        load(str(path))


@pytest.mark.parametrize(
    "content",
    [
        b"not gzip",
        gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x05ab"),
        gzip.compress(b"x" * 99)[:20],
        gzip.compress(b""),
    ],
    ids=["no archive", "cut short inside", "cut short", "empty"],
)
def test_damaged_cache_says_how_to_mend_it(empty_cache, content):
    (empty_cache / "mnist").mkdir()
    for file in IDX_FILES:
        (empty_cache / "mnist" / file).write_bytes(content)
    with pytest.raises(BadInput, match=r"is damaged .*fedcell data get mnist"):
        load("mnist")


def test_cifar_records_are_label_then_planes(empty_cache):
    (empty_cache / "cifar10").mkdir()
    for number, file in enumerate(CIFAR_FILES):
        record = np.concatenate([[number % 5], np.repeat([255, 51, 0], 1024)]).astype(np.uint8)
        record.tofile(empty_cache / "cifar10" / file)
    data = load("cifar10")
    assert data.x_train.shape == (5, 3, 32, 32)
    assert data.y_train.tolist() == [0, 1, 2, 3, 4]
    assert data.y_test.tolist() == [0]
    np.testing.assert_allclose(data.x_train.mean(axis=(0, 2, 3)), [1, 0.2, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "shape", "n_train", "mean"),
    [
        ("mnist", (1, 28, 28), 60_000, 0.1307),
        ("fashion-mnist", (1, 28, 28), 60_000, 0.2860),
        ("cifar10", (3, 32, 32), 50_000, 0.4734),
    ],
)
def test_fetched_data_has_its_published_shape_and_mean(name, shape, n_train, mean):
    if not is_fetched(name):
        pytest.skip(f"{name} is not in {cache_dir()}: fedcell data get {name}")
    data = load(name)
    assert data.x_train.shape == (n_train, *shape)
    assert data.x_test.shape == (10_000, *shape)
    assert data.n_classes == 10
    assert data.x_train.mean(dtype=np.float64) == pytest.approx(mean, abs=1e-4)
    assert len(set(data.y_test.tolist())) == 10


def test_rows_of_unequal_length_and_an_unknown_task_are_refused():
    with pytest.raises(BadInput, match=r"x_train.* is no array .*: give every sample as many numbers"):
        from_arrays([[1.0, 2.0], [3.0]], [0, 1], [[1.0, 2.0]], [0])
    with pytest.raises(BadInput, match="task 5 is unknown: choose one of auto, classification"):
        from_arrays([[1.0], [2.0]], [0, 1], [[1.0]], [0], task=5)
