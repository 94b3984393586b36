"""TensorBoard: one folder of events per run. The axis `Relative` shows simulated time.

The events of a run are written anew whenever the run resumes, so that none is there twice and none is missing.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..record.folder import ROWS
from . import LogPoint

OWN = ".fedcell"  # ends the names of our event files
ABOUT = "fedcell.json"
FLUSH_S = 10
WIDTH = 6  # of the hash that tells runs with equal names apart


class Sink:
    """The events of one run in `<target>/<name>/`."""

    def __init__(self, target: str, name: str, folder: Path, run: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder.resolve()
        self.place = _place(Path(target), name, self.folder)
        self.place.mkdir(parents=True, exist_ok=True)
        self.whole = _about(self.place).get("rows_byte") == _rows_byte(folder)
        if self.whole:  # the run ended and all of it is there
            return
        for old in self.place.glob(f"events.out.tfevents.*{OWN}"):
            old.unlink()
        self._say()
        self.writer = SummaryWriter(str(self.place), flush_secs=FLUSH_S, filename_suffix=OWN)
        text = json.dumps({key: run[key] for key in ("method", "settings", "config")}, indent=1)
        self._call("add_text", "run", f"    {text}".replace("\n", "\n    "), 0, 0.0)

    def put(self, point: LogPoint) -> None:
        if not self.whole:
            for tag, value in point.values.items():
                self._call("add_scalar", tag, value, point.step, point.clock_s)

    def close(self, ended: bool) -> None:
        if not self.whole:
            self._call("close")
            if ended:
                self._say(rows_byte=_rows_byte(self.folder))

    def _say(self, **facts: int) -> None:
        (self.place / ABOUT).write_text(json.dumps({"folder": str(self.folder), **facts}))

    def _call(self, name: str, *arguments: object) -> None:
        getattr(self.writer, name)(*arguments)  # PyTorch's writer has no types


def _place(target: Path, name: str, folder: Path) -> Path:
    """The folder of a run's events; runs from different places with the same name do not meet."""
    place = target / name
    if _about(place).get("folder", str(folder)) == str(folder):
        return place
    return target / f"{name}-{sha256(str(folder).encode()).hexdigest()[:WIDTH]}"


def _about(place: Path) -> dict[str, Any]:
    path = place / ABOUT
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _rows_byte(folder: Path) -> int:
    path = folder / ROWS
    return path.stat().st_size if path.exists() else 0
