"""Read the rows of one run as they are written: each look at the file reads only the bytes that are new."""

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from ..metrics import BY_NAME, CLASSIFICATION, leading
from ..record import rows, served
from ..record.folder import ROWS
from ..record.rows_sum import RowsSum
from ..record.totals import LATER
from ..types import Outcome, Row
from .downsample import Downsampled

POINTS = 1000  # rounds of a curve
LETTERS = 200_000  # outcome letters of a schedule map
CHUNK = 1 << 22  # bytes read at a time
TOTALS = ("clock_s", "compute_joule", "radio_joule", "uplink_bit", "selected", "delivered", "other_joule")


class CurvePoint(NamedTuple):
    """A round that is shown: running totals, so that leaving out rounds loses resolution and nothing else."""

    totals: tuple[float, ...]  # as in TOTALS
    metrics: dict[str, float]


class Follower:
    """What is known of one run's rows so far: downsampled curves, exact totals, counts of outcomes."""

    def __init__(
        self, folder: Path, total: int, eval_every: int, n_devices: int, points: int = POINTS, letters: int = LETTERS
    ) -> None:
        self.path, self.metric = folder / ROWS, leading(CLASSIFICATION)  # whose best and final value stand in `totals`
        self._sizes = (points, letters // max(n_devices, 1), total, eval_every)
        self._seen = (0, 0)  # number and size of the file at the last look
        self.epoch = 0  # counts how often reading began anew, because another file took the place of this one
        self._restart()

    def read(self) -> bool:
        """Take in the rows that are new; True when there were some, or when reading began anew."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                seen = (about.st_ino, about.st_size)
                if seen == self._seen:
                    return False
                before = (self.epoch, self.done)
                if self.done and (about.st_ino != self._seen[0] or about.st_size < self._offset):
                    self._restart()
                self._seen = seen
                file.seek(self._offset)
                while self._take(file.readlines(CHUNK)):
                    pass
        except OSError:  # not there yet, or not any more
            return False
        return (self.epoch, self.done) != before

    def _restart(self) -> None:
        points, letters, total, eval_every = self._sizes
        self.epoch += 1
        self.done, self._offset, self.crc32 = 0, 0, 0
        self._seen = (0, 0)
        self.points = Downsampled(points, total, eval_every)
        self.letters = Downsampled(letters, total)
        self.outcomes: Counter[str] = Counter()
        self.best: dict[str, float] = {}
        self.final: dict[str, float] = {}
        self._totals = (0.0,) * len(TOTALS)
        self._sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._served: tuple[float, ...] = ()

    def _take(self, lines: Sequence[bytes]) -> bool:
        """Add whole, sound lines; True when all were. A damaged one ends the run here; `fedcell show` explains it."""
        for line in lines:
            try:
                row = rows.decode(line) if line.endswith(b"\n") else None
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                return False
            if row is None or row.round != self.done:
                return False
            self._offset += len(line)
            self.crc32 = crc32(line, self.crc32)
            self._add(row)
        return bool(lines)

    def _add(self, row: Row) -> None:
        self.done += 1
        other = row.metrics.get("receive_joule", 0.0) + row.metrics.get("idle_joule", 0.0)
        spent = (row.compute_joule, row.radio_joule, row.uplink_bit, row.n_selected, row.n_delivered, other)
        totals = (row.clock_s, *(a + b for a, b in zip(self._totals[1:], spent, strict=True)))
        self._totals = totals
        self.outcomes.update({one.letter: row.outcome.count(one.letter) for one in Outcome})
        for name, value in row.metrics.items():
            if isfinite(value):
                self._sums[name][0] += value
                self._sums[name][1] += 1
                self.final[name] = value
                pick = max if BY_NAME.get(name, self.metric).rises else min
                self.best[name] = pick(value, self.best.get(name, value))
        if served.MARK in row.metrics:
            more = served.weighed(row.metrics)
            self._served = tuple(map(sum, zip(self._served or (0.0,) * len(more), more, strict=True)))
        self.points.put(self.done, CurvePoint(totals, dict(row.metrics)))
        self.letters.put(self.done, row.outcome)

    def damage(self, kept: RowsSum | None) -> str:
        """A message if the rows so far are as many bytes as `kept` but have another checksum; else empty."""
        if kept is None or kept.byte != self._offset or kept.crc32 == f"{self.crc32:08x}":
            return ""
        return f"{self.path} is damaged (it has checksum {self.crc32:08x} and was written with {kept.crc32})"

    def totals(self) -> dict[str, Any]:
        """Exact sums over all rounds so far, and the mean of every metric."""
        return {
            "rounds": self.done,
            **{name: number(value) for name, value in zip(TOTALS, self._totals, strict=True)},
            **{name: number(self._sums[name][0]) for name in LATER if name in self._sums},
            "best": number(self.best.get(self.metric.name)),
            "final": number(self.final.get(self.metric.name)),
            "outcomes": {one.letter: self.outcomes[one.letter] for one in Outcome},
            "means": {name: number(total / count) for name, (total, count) in self._sums.items()},
            **({name: number(value) for name, value in served.result(*self._served).items()} if self._served else {}),
        }

    def columns(self, after: int = 0) -> dict[str, Any]:
        """The kept rounds after the first `after`, column by column, with the strides at which they were kept."""
        points = [(done, point) for done, point in self.points.items if done > after]
        names = dict.fromkeys(name for _, point in points for name in point.metrics)
        columns: dict[str, Any] = {"done": [done for done, _ in points], "stride": self.points.stride}
        for index, name in enumerate(TOTALS):
            columns[name] = [number(point.totals[index]) for _, point in points]
        columns["metrics"] = {name: [number(point.metrics.get(name)) for _, point in points] for name in names}
        columns["letters"] = [list(item) for item in self.letters.items if item[0] > after]
        columns["letters_stride"] = self.letters.stride
        return columns


def number(value: float | None) -> float | None:
    """Six digits, enough for a curve; what is not finite is left out.

    >>> number(0.123456789), number(30.0), number(float("nan"))
    (0.123457, 30, None)
    """
    if value is None or not isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
