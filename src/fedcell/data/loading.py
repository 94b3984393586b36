"""Data sets by name: embedded, fetched, or in a file of a user."""

import gzip
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..labels import rank_in_class
from ..rng import SETUP, stream
from . import huggingface, leaf
from .catalog import CATALOG, CIFAR_TEST, CIFAR_TRAIN, IDX_FILES
from .datasets import Dataset, from_arrays, retasked
from .fetch import BY_HAND, EMBEDDED, cache_dir, hint, is_fetched

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
OWNERS = ("owners", "test_owners")  # arrays that a file may have, too
UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, BadZipFile, zlib.error)  # what a broken file raises
DIGITS = "datasets/data/digits.csv.gz"  # inside scikit-learn
CIFAR100_FILES, CIFAR100_BYTES = ("train.bin", "test.bin"), 2 + 3 * 32 * 32
OTHERS = ", video, the path of an .npz file, leaf:FOLDER, or hf:NAME#column"
DIABETES = "datasets/data/diabetes_data_raw.csv.gz", "datasets/data/diabetes_target.csv.gz"
TAGGED = 2000  # documents of the multi-label data
TEST_EVERY = 5  # every fifth sample of a class of the embedded data is a test sample


def load(name: str, task: str = "auto") -> Dataset:
    """A data set by name, or from an .npz file with `x_train, y_train, x_test, y_test`.

    Args:
        name: `digits`, `diabetes`, `tags`, a fetched `mnist`, `fashion-mnist` or `cifar10`, `cifar100` whose files a
            user has, a path that ends in `.npz` (looked up as given, then in the cache folder), `leaf:FOLDER` or
            `hf:NAME#column`.
        task: what is learned, as of `from_arrays`.
    """
    return retasked(_load(name, task), task)


def _load(name: str, task: str) -> Dataset:
    if name in EMBEDDED:
        return {"digits": _digits, "diabetes": _diabetes, "tags": _tags}[name]()
    if name.endswith(".npz"):
        return _npz(name, task)
    if read := adapter(name):
        return read(name)
    if name in BY_HAND:
        return _cifar100(name)
    if name not in CATALOG and Path(name).is_file():
        raise BadInput(
            f"data.name = {name!r} is a file that does not end in .npz: read it in Python, and save its arrays with "
            "np.savez(path, x_train=..., y_train=..., x_test=..., y_test=...), or give them to fedcell.from_arrays"
        )
    if name not in CATALOG:
        raise BadInput(f"data.name = {name!r} is unknown{hint(name, OTHERS)}")
    if not is_fetched(name):
        raise BadInput(f"data set {name!r} is not in {cache_dir()}: run `fedcell data get {name}` first")
    return _fetched(name, cache_dir() / name)


def _digits() -> Dataset:
    table = _digits_table()
    x, y = (table[:, :-1].reshape(-1, 1, 8, 8) / 16).astype(np.float32), table[:, -1].astype(np.int64)
    is_test = rank_in_class(y) % TEST_EVERY == TEST_EVERY - 1
    return Dataset("digits", x[~is_test], y[~is_test], x[is_test], y[is_test], 10)


def _digits_table() -> NDArray[np.float64]:
    """Pixels 0 to 16 and the label of every digit, `[n, 65]`, as scikit-learn has them."""
    if (found := _table(DIGITS, ",")) is not None:
        return found
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])


@cache
def _table(name: str, delimiter: str | None) -> NDArray[np.float64] | None:
    """A table of scikit-learn, read from its file: importing scikit-learn takes longer than a short run.

    It is read once, since reading takes longer than building all else of a small problem, and cannot be written to.
    None if the file is not at its usual place.
    """
    package = find_spec("sklearn")
    for folder in (package and package.submodule_search_locations) or ():
        if (path := Path(folder) / name).is_file():
            with gzip.open(path, "rt") as file:
                table = np.loadtxt(file, delimiter=delimiter)
            table.flags.writeable = False
            return table
    return None


def _diabetes() -> Dataset:
    """Ten measurements of patients, and how far the disease had progressed a year later, in its own units."""
    x, y = (_table(file, None) for file in DIABETES)
    if x is None or y is None:
        from sklearn.datasets import load_diabetes

        bunch = load_diabetes(scaled=False)
        x, y = bunch.data, bunch.target
    is_test = np.arange(len(y)) % TEST_EVERY == TEST_EVERY - 1
    return from_arrays(x[~is_test], y[~is_test], x[is_test], y[is_test], "diabetes", "regression")


def _tags() -> Dataset:
    """Word counts of made-up documents, and which of eight topics each is about."""
    x, y = _tagged()
    is_test = np.arange(len(x)) % TEST_EVERY == TEST_EVERY - 1
    return from_arrays(x[~is_test], y[~is_test], x[is_test], y[is_test], "tags", "multi-label")


@cache
def _tagged() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """All documents and their topics, made once."""
    from sklearn.datasets import make_multilabel_classification

    seed = int(stream(0, SETUP, "tags").integers(2**31))
    return make_multilabel_classification(TAGGED, 40, n_classes=8, n_labels=2, length=200, random_state=seed)


def _fetched(name: str, folder: Path) -> Dataset:
    try:
        parts: list[Any] = [*(_cifar(folder) if name == "cifar10" else (_idx(folder / file) for file in IDX_FILES))]
    except UNREADABLE as error:
        raise BadInput(f"{folder} is damaged ({error}): delete it and run `fedcell data get {name}` again") from None
    x_train, y_train, x_test, y_test = parts
    return from_arrays(x_train, y_train, x_test, y_test, name)


def _idx(path: Path) -> NDArray[np.uint8]:
    """An array in the idx format: two zero bytes, a type (8: bytes), the number of axes, their lengths, the data."""
    with gzip.open(path) as file:
        content = file.read()
    if content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path.name} is not an idx file of bytes")
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(tuple(shape.tolist()))


def _cifar(folder: Path) -> list[NDArray[np.uint8]]:
    """Train and test arrays from the binary batches: records of one label byte and 3 x 32 x 32 pixels."""
    train = np.concatenate([np.fromfile(folder / file, np.uint8).reshape(-1, 3073) for file in CIFAR_TRAIN])
    test = np.fromfile(folder / CIFAR_TEST, np.uint8).reshape(-1, 3073)
    return [part for half in (train, test) for part in (half[:, 1:].reshape(-1, 3, 32, 32), half[:, 0])]


def _cifar100(name: str) -> Dataset:
    """The binary version: records of a coarse label, a fine label and 3 x 32 x 32 pixels."""
    folder, column = cache_dir() / "cifar100", 0 if name == "cifar100-coarse" else 1
    parts: list[NDArray[np.uint8]] = []
    for file in CIFAR100_FILES:
        path = folder / file
        if not path.is_file():
            fix = f"put {' and '.join(CIFAR100_FILES)} of its binary version into {folder}"
            raise BadInput(f"data set {name!r} is not in {folder}, and cannot be fetched: {fix}")
        content = np.fromfile(path, np.uint8)
        if not len(content) or len(content) % CIFAR100_BYTES:
            what = f"{path} has {len(content)} bytes, which are no records of {CIFAR100_BYTES}"
            raise BadInput(f"{what}: copy it anew from the binary version of CIFAR-100")
        records = content.reshape(-1, CIFAR100_BYTES)
        parts += [records[:, 2:].reshape(-1, 3, 32, 32), records[:, column]]
    x_train, y_train, x_test, y_test = parts
    return from_arrays(x_train, y_train, x_test, y_test, name=name)


def adapter(name: str) -> Callable[[str], Dataset] | None:
    """The function that loads a name with the prefix `hf:` or `leaf:`; None for any other name."""
    prefix = name.partition(":")[0]
    if prefix not in ("hf", "leaf") or ":" not in name:
        return None
    return huggingface.load if prefix == "hf" else leaf.load


def _npz(name: str, task: str) -> Dataset:
    given = Path(name).expanduser()
    path = next((p for p in (given, cache_dir() / given) if p.is_file()), None)
    if path is None:
        raise BadInput(f"data.name = {name!r} is no file, here or in {cache_dir()}: give the path of an .npz file")
    return from_arrays(**read_npz(path, ARRAYS, OWNERS), name=name, task=task)


def _refuse_junk(path: Path, begin: bytes, fix: str) -> None:
    """Raise BadInput for files that NumPy did not write, since NumPy would complain about pickles."""
    if not begin.startswith((b"PK", b"\x93NUMPY")):
        held = "is empty" if not begin else f"begins with {begin!r} and is no NumPy archive"
        raise BadInput(f"{str(path)!r} {held}: {fix}")


def read_npz(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """The named arrays of an .npz file; raises BadInput for a file that cannot be read or lacks one it needs."""
    fix = f"save plain number arrays with np.savez(path, {', '.join(f'{key}=...' for key in needed)})"
    try:
        with path.open("rb") as file:
            _refuse_junk(path, file.read(6), fix)
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise BadInput(f"{str(path)!r} holds one array without a name: {fix}")
            arrays = {key: archive[key] for key in (*needed, *optional) if key in archive}
            held = ", ".join(archive.keys()) or "nothing"
    except UNREADABLE as error:
        raise BadInput(f"{str(path)!r} cannot be read ({error}): {fix}") from None
    if missing := [key for key in needed if key not in arrays]:
        raise BadInput(f"{str(path)!r} has no array {missing[0]!r} but {held}: {fix}")
    return arrays
