"""Fetch data sets once into a folder of the user; every file is verified before it is stored."""

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import BadInput, FedcellError, did_you_mean
from .catalog import CATALOG, Entry
from .sources import Files, SourceError

EMBEDDED = {
    "digits": "handwritten digits, 8 x 8 grey, 10 classes, 1,442 train / 355 test",
    "diabetes": "ten measurements of patients and the course of their disease, regression, 354 train / 88 test",
    "tags": "word counts of made-up documents and their topics, multi-label, 8 labels, 1,600 train / 400 test",
}

BY_HAND = {  # data sets whose files the user brings
    "cifar100": "photographs, 32 x 32 colour, 100 classes, 50,000 train / 10,000 test (184 MB)",
    "cifar100-coarse": "the same with its 20 coarse labels",
}


def cache_dir() -> Path:
    """The folder data sets are kept in: `FEDCELL_DATA`, or `fedcell` in the platform's user cache."""
    if chosen := os.environ.get("FEDCELL_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fedcell"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fedcell"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedcell"


def is_fetched(name: str) -> bool:
    """Whether all files of a fetchable data set are in the cache folder."""
    return all((cache_dir() / name / file).is_file() for file in CATALOG[name].md5)


def get(name: str, say: Callable[[str], None] = print) -> Path:
    """Bring a data set into the cache folder, from the first source that delivers the official files.

    Args:
        name: `mnist`, `fashion-mnist` or `cifar10`; `digits` is embedded and needs no fetching.
        say: Receives one line for each thing tried, and why it failed.

    Returns:
        The folder that holds the files. It is never left with a part of a file, and a data set that is
        there already is not fetched again.
    """
    folder = cache_dir() / name
    if name in EMBEDDED:
        say(f"{name}: comes with scikit-learn, there is nothing to fetch")
        return cache_dir()
    if name in BY_HAND:
        place = cache_dir() / "cifar100"
        raise BadInput(f"{name} cannot be fetched: put train.bin and test.bin of its binary version into {place}")
    if name not in CATALOG:
        raise BadInput(f"unknown data set {name!r}{hint(name)}")
    if is_fetched(name):
        say(f"{name}: already in {folder}")
        return folder
    files = _first_good(name, CATALOG[name], say)
    _store(files, folder)
    say(f"{name}: checksums are right, stored in {folder}")
    return folder


def available() -> list[tuple[str, str, str]]:
    """(name, where it is, description) of every data set known by name."""
    rows = [(name, "built in", description) for name, description in EMBEDDED.items()]
    for name, entry in CATALOG.items():
        where = str(cache_dir() / name) if is_fetched(name) else f"fedcell data get {name}"
        rows.append((name, where, entry.description))
    place = cache_dir() / "cifar100"
    where = str(place) if (place / "train.bin").is_file() else "train.bin and test.bin, which you bring"
    return rows + [(name, where, description) for name, description in BY_HAND.items()]


def hint(name: str, more: str = "") -> str:
    """The end of a message about an unknown name: the nearest known one, or all."""
    known = [*EMBEDDED, *CATALOG, *BY_HAND]
    near = did_you_mean(name.lower(), known)
    return near or f": known are {', '.join(known)}{more}"


def _first_good(name: str, entry: Entry, say: Callable[[str], None]) -> Files:
    tried = []
    for source in entry.sources:
        say(f"{name}: trying {source.title}")
        try:
            with TemporaryDirectory(prefix="fedcell-") as scratch:
                files = source.read(Path(scratch), say)
            _verify(files, entry)
            return files
        except SourceError as error:
            say(f"  failed: {error}")
            tried.append(f"{source.title} ({error})")
    raise FedcellError(
        f"no source has {name!r}, tried {'; '.join(tried)}: connect to the internet and try again, "
        f"or put {', '.join(entry.md5)} into {cache_dir() / name} yourself"
    )


def _verify(files: Files, entry: Entry) -> None:
    for file, expected in entry.md5.items():
        found = hashlib.md5(files[file], usedforsecurity=False).hexdigest()
        if found != expected:
            raise SourceError(f"{file} has checksum {found} instead of {expected}")


def _store(files: Files, folder: Path) -> None:
    """Write each file beside its place, then rename it there: it is whole or it is absent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".partial-", dir=folder) as scratch:
            for name, content in files.items():
                (Path(scratch) / name).write_bytes(content)
            for name in files:
                os.replace(Path(scratch) / name, folder / name)
    except OSError as error:
        raise FedcellError(
            f"cannot write to {folder} ({error.strerror or error}): set FEDCELL_DATA to a folder you can write to"
        ) from None
