"""The checksum of a run's rows, which `status.json` holds."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from ..errors import FedcellError
from .files import read_json
from .folder import STATUS


class RowsSum(NamedTuple):
    """The number of bytes of `rounds.jsonl` when it was summed up, and their checksum."""

    byte: int
    crc32: str

    def plus(self, data: bytes) -> "RowsSum":
        """The checksum once `data` follows.

        >>> NO_ROWS.plus(b"round").plus(b"s") == NO_ROWS.plus(b"rounds")
        True
        """
        return RowsSum(self.byte + len(data), f"{crc32(data, int(self.crc32, 16)):08x}")

    def of(self, data: bytes) -> str:
        """The checksum of the first `byte` bytes of `data`."""
        return f"{crc32(memoryview(data)[: self.byte]):08x}"

    def check(self, data: bytes, path: Path) -> None:
        """Raise FedcellError if the first bytes differ from those that were written; data that is too short passes."""
        found = self.of(data)
        if len(data) >= self.byte and found != self.crc32:
            raise FedcellError(
                f"{path} is damaged (its first {self.byte} bytes have checksum {found} and were written with "
                f"{self.crc32}): restore it from a copy, or try `fedcell check {shlex.quote(str(path.parent))}`"
            )


NO_ROWS = RowsSum(0, "00000000")


def rows_sum(folder: Path, status: Any = None) -> RowsSum | None:
    """Read the checksum of a run's rows from its status; None if there is no status, or an old one without checksum."""
    if status is None:
        try:
            status = read_json(folder / STATUS)
        except FedcellError:  # which `read_status` explains
            return None
    kept = status.get("rows") if isinstance(status, dict) else None
    match kept:
        case {"byte": int(byte), "crc32": str(text)}:
            return RowsSum(byte, text)
    return None
