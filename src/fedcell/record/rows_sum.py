"""The checksum of a run's rows, as its status has it."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from ..errors import FedcellError
from .files import read_json
from .folder import STATUS


class RowsSum(NamedTuple):
    """A checksum of the first bytes of `rounds.jsonl`, as `status.json` has it."""

    byte: int
    crc32: str

    def of(self, data: bytes) -> str:
        """The checksum of as many bytes."""
        return f"{crc32(memoryview(data)[: self.byte]):08x}"

    def check(self, data: bytes, path: Path) -> None:
        """Raise FedcellError unless the bytes are those that were written; fewer bytes are not judged here."""
        found = self.of(data)
        if len(data) >= self.byte and found != self.crc32:
            raise FedcellError(
                f"{path} is damaged (its first {self.byte} bytes have checksum {found} and were written with "
                f"{self.crc32}): restore it from a copy, or try `fedcell check {shlex.quote(str(path.parent))}`"
            )


def rows_sum(folder: Path, status: Any = None) -> RowsSum | None:
    """The checksum of a run's rows in its status; None in records from before there was one, or without a status."""
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
