"""How a per-device number is spread over the devices: a value, a range, choices, or a column of a file."""

from dataclasses import dataclass
from math import inf

import numpy as np

from .errors import BadInput
from .tables import File, read_column, read_lines
from .types import Floats


@dataclass(frozen=True)
class Law:
    """How a per-device number is spread: one value, a range, a set of choices, or a column of a CSV file.

    Written `5`, `1e9..2e9` (uniform), `1e2~1e5` (uniform in the logarithm), `1|2|4` (any of these) or
    `@devices.csv:cpu_hz` (one line per device; the record adds the checksum of the file).

    >>> Law.parse("1..2").draw(np.random.default_rng(0), 3).round(2).tolist()
    [1.64, 1.27, 1.04]
    >>> str(Law.parse("0.8e9|1e9"))
    '800000000|1000000000'
    """

    values: tuple[float, ...]
    kind: str = "one"  # one, uniform, log, choice, table
    source: str = ""  # FILE:COLUMN#CHECKSUM of a table

    @staticmethod
    def parse(text: str) -> "Law":
        """Read the written form; raises ValueError on anything else, and BadInput for a file that is no table."""
        if text.startswith("@"):
            return Law.table(text[1:])
        for mark, kind in (("..", "uniform"), ("~", "log"), ("|", "choice")):
            if mark in text:
                values = tuple(float(part) for part in text.split(mark))
                if kind != "choice" and not (len(values) == 2 and -inf < values[0] <= values[1] < inf):
                    raise ValueError("a range is low then high, both finite")
                if kind == "log" and values[0] <= 0:
                    raise ValueError("a logarithmic range starts above 0")
                return Law(values, kind)
        return Law((float(text),))

    @staticmethod
    def table(source: str) -> "Law":
        """The law of a column, `FILE:COLUMN`.

        With a checksum behind it, as in records, the file may be missing or changed: the law then has no values, so
        that records stay readable, and `draw` raises BadInput.
        """
        place, _, checksum = source.partition("#")
        path, colon, column = place.rpartition(":")
        if not (colon and path and column):
            raise ValueError("a table is @FILE:COLUMN")
        try:
            file = File.of(f"{path}#{checksum}" if checksum else path)
            return Law(tuple(read_column(file, column)), "table", f"{path}:{column}#{file.checksum}")
        except BadInput:
            if not checksum:
                raise
            return Law((), "table", source)

    def __str__(self) -> str:
        if self.kind == "table":
            return f"@{self.source}"
        mark = {"one": "", "uniform": "..", "log": "~", "choice": "|"}[self.kind]
        return mark.join(short(value) for value in self.values)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw `size` independent values; a table gives its values in the order of its lines."""
        if self.kind == "table":
            return self._listed(size)
        if self.kind == "uniform":
            return rng.uniform(self.values[0], self.values[1], size)
        if self.kind == "log":
            return np.exp(rng.uniform(np.log(self.values[0]), np.log(self.values[1]), size))
        return np.asarray(rng.choice(np.asarray(self.values, dtype=np.float64), size))

    def line(self, place: int) -> int:
        """The line number, in the file of a table, of the value at this place."""
        return read_lines(File(self.source.partition("#")[0].rpartition(":")[0]))[place].number

    def _listed(self, size: int) -> Floats:
        if not self.values:
            Law.table(self.source.partition("#")[0])  # raises BadInput if the file cannot be read
            raise BadInput(f"the table @{self.source} changed since it was recorded: restore it, or start a new run")
        if len(self.values) != size:
            raise BadInput(
                f"the table @{self.source} has {len(self.values)} lines, not {size}: write one per device, or per block"
            )
        return np.array(self.values)


def short(value: float) -> str:
    """A short text that reads back to the same number."""
    short = f"{value:.12g}"
    return short if float(short) == value else repr(float(value))
