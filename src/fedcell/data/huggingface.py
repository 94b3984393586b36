"""Data sets of Hugging Face, through `datasets`: from the local cache or a folder; nothing is downloaded here.

`hf:NAME#label` names a data set and the column of its labels; further columns follow with commas:
`hf:flwrlabs/femnist#character,owner=writer_id,input=image`. NAME is a data set in the cache of `datasets`, a folder
that `save_to_disk` wrote, or a folder of data files.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..arguments import kind_of
from ..errors import BadInput, did_you_mean, in_short
from ..types import Ints
from .datasets import Dataset, from_arrays

LABELS, INPUTS = ("label", "labels", "fine_label", "target"), ("image", "img", "pixel_values", "x", "input", "features")
ROW = "__fedcell_row__"  # a column that numbers the samples
NOBODY = -1
KEYS = ("input", "label", "owner", "config", "train", "test")


class Partitioner(Protocol):
    """The interface of `flwr_datasets.partitioner`: set its `dataset`, then load the samples of each partition."""

    dataset: Any

    @property
    def num_partitions(self) -> int: ...

    def load_partition(self, partition_id: int) -> Any: ...


def load(name: str) -> Dataset:
    """Load the data set that `data.name` writes as `hf:NAME#label[,key=column...]`."""
    place, _, columns = name.removeprefix("hf:").partition("#")
    given: dict[str, str] = {}
    for n, part in enumerate(filter(None, (one.strip() for one in columns.split(",")))):
        key, equals, value = part.partition("=")
        key, value = (key, value) if equals else ("label", key)
        if (not equals and n) or key not in KEYS or not value or key in given:
            raise BadInput(f"data.name = {name!r} has {part!r} in it: write hf:NAME#label,owner=COLUMN,input=COLUMN")
        given[key] = value
    config = given.pop("config", None)
    return from_huggingface(
        _found(place, config, name),
        inputs=given.get("input", ""),
        labels=given.get("label", ""),
        owners=given.get("owner", ""),
        train=given.get("train", "train"),
        test=given.get("test", "test"),
        name=name,
    )


def from_huggingface(
    dataset: Any,
    *,
    inputs: str = "",
    labels: str = "",
    owners: str = "",
    train: str = "train",
    test: str = "test",
    partitioner: Partitioner | None = None,
    name: str = "",
) -> Dataset:
    """A data set of Hugging Face as one of fedcell's; all samples are read into memory.

    Args:
        dataset: a `datasets.DatasetDict`, or a name of one in the local cache, as after `hf:`.
        inputs: column of the samples, images or lists of numbers; empty: the usual names are tried.
        labels: column of the labels; empty: the usual names are tried.
        owners: column with the owner of each sample, for `data.partition=given`.
        train: split to train on.
        test: split to test on.
        partitioner: one of `flwr_datasets.partitioner`, which gives training samples their owners; samples that it
            gives to nobody are left out.
        name: what messages call the data.
    """
    name = name or (f"hf:{dataset}" if isinstance(dataset, str) else "huggingface")
    found = _found(dataset, None, name) if isinstance(dataset, str) else dataset
    if not isinstance(found, Mapping):
        raise BadInput(f"{name!r} is {kind_of(found)}: give a datasets.DatasetDict with two splits")
    for split in (train, test):
        if split not in found:
            fix = "name another one, or make one with train_test_split"
            raise BadInput(f"{name!r} has no split {split!r} but {', '.join(found) or 'none'}: {fix}")
    known, asked = found[train], found[test]
    x, y = _column(known, inputs, INPUTS, "inputs", name), _column(known, labels, LABELS, "labels", name)
    if partitioner is not None and owners:
        raise BadInput(f"{name!r} has owners = {owners!r} and a partitioner: drop one of them")
    whose = _owned(known, asked, owners, name)
    if partitioner is not None:
        owner = _partitioned(partitioner, known, name)
        known, whose = known.select(np.flatnonzero(owner != NOBODY)), {"owners": owner[owner != NOBODY]}
    both = _labels(known[y], asked[y], name)
    return from_arrays(_samples(known, x, name), both[0], _samples(asked, x, name), both[1], name, **whose)


def _column(part: Any, asked: str, usual: Iterable[str], what: str, name: str) -> str:
    """The column that was asked for, or the first of the usual ones that is there."""
    there = list(part.column_names)
    if asked:
        if asked not in there:
            raise BadInput(f"{name!r} has no column {asked!r}{did_you_mean(asked, there)} (it has {', '.join(there)})")
        return asked
    found = [one for one in usual if one in there]
    if not found:
        how = "write it behind the #" if what == "labels" else f"add ,{what.rstrip('s')}=COLUMN"
        raise BadInput(f"{name!r} has columns {', '.join(there)}, none of which is a usual name for {what}: {how}")
    return found[0]


def _samples(part: Any, column: str, name: str) -> np.ndarray:
    try:
        return np.stack([np.asarray(one) for one in part[column]])
    except ValueError as error:
        what = f"column {column!r} of {name!r} has samples of different shapes ({error})"
        raise BadInput(f"{what}: bring all to one shape with dataset.map first") from None


def _labels(known: Iterable[Any], asked: Iterable[Any], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels of both splits; texts are numbered in sorted order."""
    train, test = np.asarray(list(known)), np.asarray(list(asked))
    if train.dtype.kind != "U":
        return train, test
    classes = np.unique(train)
    if strange := sorted(set(test.tolist()) - set(classes.tolist()))[:1]:
        raise BadInput(f"the test split of {name!r} has label {strange[0]!r}, which the other has not: drop it")
    return np.searchsorted(classes, train), np.searchsorted(classes, test)


def _owned(known: Any, asked: Any, column: str, name: str) -> dict[str, Any]:
    """Owners of the training samples, and of the test samples if all of these own training samples, too."""
    if not column:
        return {}
    mine = _texts(known[_column(known, column, (), "owners", name)])
    theirs = _texts(asked[column]) if column in asked.column_names else np.empty(0, str)
    both = len(theirs) and set(theirs.tolist()) <= set(mine.tolist())
    return {"owners": mine, **({"test_owners": theirs} if both else {})}


def _texts(values: Iterable[Any]) -> np.ndarray:
    return np.asarray([str(one) for one in values])


def _partitioned(partitioner: Partitioner, known: Any, name: str) -> Ints:
    """The owner of each training sample, as a partitioner deals them; -1 for those that it leaves out."""
    owner = np.full(len(known), NOBODY, dtype=np.int64)
    partitioner.dataset = known.add_column(ROW, np.arange(len(known)))
    for who in range(partitioner.num_partitions):
        rows = np.asarray(list(partitioner.load_partition(who)[ROW]), dtype=np.int64)
        if not len(rows):
            raise BadInput(f"owner {who} of {name!r} has no samples: give the partitioner fewer partitions")
        if (owner[rows] != NOBODY).any():
            raise BadInput(
                f"the partitioner gives samples of {name!r} to owner {who} that others have: each has one owner"
            )
        owner[rows] = who
    return owner


def _found(place: str, config: str | None, name: str) -> Any:
    """Load a data set from a folder or from the local cache; raise BadInput if there is none."""
    if find_spec("datasets") is None:
        raise BadInput(f"{name!r} needs datasets, which is not installed: python3 -m pip install 'fedcell[hf]'")
    folder = Path(place).expanduser()
    with _offline() as datasets:
        try:
            if (folder / "dataset_dict.json").is_file():
                return datasets.load_from_disk(str(folder))
            return datasets.load_dataset(str(folder) if folder.is_dir() else place, config)
        except Exception as error:  # of many kinds, and none of them ours
            fix = f"fetch it once with datasets.load_dataset({place!r}), or give a folder"
            raise BadInput(
                f"{name!r} is neither a folder nor in the cache of datasets ({in_short(error)}): {fix}"
            ) from None


@contextmanager
def _offline() -> Iterator[Any]:
    """The `datasets` library, with its network and progress bars off for as long as the context lasts."""
    import datasets
    from huggingface_hub import constants

    places: list[Any] = [datasets.config, constants]
    before, bars = [one.HF_HUB_OFFLINE for one in places], datasets.is_progress_bar_enabled()
    for one in places:
        one.HF_HUB_OFFLINE = True
    datasets.disable_progress_bars()
    try:
        yield datasets
    finally:
        for one, was in zip(places, before, strict=True):
            one.HF_HUB_OFFLINE = was
        if bars:
            datasets.enable_progress_bars()
