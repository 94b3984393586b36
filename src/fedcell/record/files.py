"""Files that are whole or absent, locks that die with their process, and disk errors that say what to do."""

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, ENOSPC
from math import isfinite
from pathlib import Path
from typing import Any

from ..errors import BadInput, FedcellError

FULL = (ENOSPC, EFBIG, EDQUOT)
MOST_BYTE = 2**28  # of a JSON file that is read as a whole
MOST_DEPTH = 50  # of lists and objects within each other
LOCK = "lock"


class DiskError(FedcellError):
    """A file could not be written; what was written before it is whole."""


def write_atomic(path: Path, *parts: bytes | memoryview) -> None:
    """Replace a file so that a kill or a power cut leaves either the old one or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON atomically; numbers that are not finite become texts such as `"inf"`."""
    write_atomic(path, (json.dumps(plain(value), indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file of ours; a FedcellError says which file is missing or damaged."""
    try:
        if path.stat().st_size > MOST_BYTE:
            raise ValueError(f"it has {path.stat().st_size} bytes, and none of ours has more than {MOST_BYTE}")
        return parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FedcellError(f"cannot read {path}: {reason(error)}; make it readable and try again") from None
    except ValueError as error:
        raise FedcellError(f"{path} is damaged ({error}): restore it from a copy or start a new run") from None


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, none if it does not exist; a FedcellError says which file cannot be read."""
    try:
        return path.read_bytes() if present(path) else b""
    except OSError as error:
        raise FedcellError(f"cannot read {path}: {reason(error)}; make it readable and try again") from None


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; raises ValueError also if it is nested deeper than any of ours.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested more than 50 deep
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep") from None
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [part for one in level if isinstance(one, dict | list) for part in _inside(one)]
        if not level:
            return value
    raise ValueError(f"it is nested more than {MOST_DEPTH} deep")


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def present(path: Path) -> bool:
    """Whether a file exists; raise FedcellError if that cannot be determined."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise FedcellError(f"cannot read {path}: {reason(error)}; make it readable and try again") from None
    return True


def plain(value: Any) -> Any:
    """The value with every NaN and infinity as a text, which `float()` reads back."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def nulled(value: Any) -> Any:
    """The value with None for every NaN and infinity, for programs that read strict JSON.

    >>> nulled({"best": float("nan"), "all": [0.5, float("inf")]})
    {'best': None, 'all': [0.5, None]}
    """
    if isinstance(value, dict):
        return {key: nulled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [nulled(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts numbers in names by their value.

    >>> sorted(["seed10", "seed9", "Seed1"], key=natural)
    ['Seed1', 'seed9', 'seed10']
    """
    return [(int(part or 0) if n % 2 else 0, part.lower()) for n, part in enumerate(re.split(r"(\d+)", name))]


def occupied(folder: Path) -> bool:
    """Whether a folder holds more than a lock and what was left half-written."""
    return present(folder) and any(path.name != LOCK and path.suffix != ".tmp" for path in folder.iterdir())


def refuse_file(folder: Path) -> None:
    """Refuse a folder to write to that is a file, or lies in one."""
    for place in (folder, *folder.parents):
        if os.path.isfile(place):
            raise BadInput(f"{place} is a file: choose another folder")


def refuse_folder(path: Path) -> None:
    """Refuse a file to write that is a folder."""
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder: give a file")


def write_asked(path: Path, data: bytes, remains: str) -> Path:
    """Write a file where the user asked for it, and make its folder if needed; `remains`: see `explained`."""
    refuse_folder(path)
    refuse_file(path.parent)
    with explained(path.parent, remains):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; the operating system releases the lock when the process dies."""
    with explained(folder, "or choose another folder"):
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _try_lock(handle, fcntl.LOCK_EX, patience_s=0.5):
            raise BadInput(f"{folder} is in use by another fedcell process: wait for its end or choose another folder")
        yield
    finally:
        os.close(handle)


def in_use(folder: Path) -> bool:
    """Whether a living process holds the folder."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(handle, fcntl.LOCK_SH, patience_s=0.0)
    finally:
        os.close(handle)


@contextmanager
def explained(folder: Path, remains: str) -> Iterator[None]:
    """Turn an OSError into a DiskError; `remains` ends its message and says what to do once writing works again."""
    try:
        yield
    except OSError as error:
        fix = "free some space" if error.errno in FULL else "make the folder writable"
        raise DiskError(f"cannot write to {folder}: {reason(error)}; {fix}, {remains}") from error


def reason(error: OSError) -> str:
    """The system's message for an error; a full disk is named as such."""
    words = (error.strerror or str(error)).lower()
    return f"the disk is full ({words})" if error.errno in FULL else words


def _try_lock(handle: int, kind: int, patience_s: float) -> bool:
    """Try to take a lock for `patience_s`, since a reader may hold it for a moment; return whether it was taken."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
