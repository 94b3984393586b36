"""What the dashboard knows about a folder of runs; a refresh reads only what changed."""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from ..errors import BadInput, FedcellError
from ..record import stop
from ..record.files import read_json
from ..record.folder import COMPARISON, DEPTH, ENDED, RUN, STATUS, SWEEP, how_to_resume, read_status, shortage
from ..record.index import RunInfo, find, look, reason, told
from ..record.rows_sum import rows_sum
from . import runs
from .follow import Follower, number

SCAN_EVERY_S = 2.0  # for folders that are new or gone
LOOK_EVERY_S = 0.4  # at runs that are known


class Followed:
    """One run of the board."""

    def __init__(self, info: RunInfo, root: Path) -> None:
        self.info, self.root, self.facts = info, root, runs.facts(info, root)
        self.version = 0  # of the facts, as the board counts
        self.changed = 0.0  # when its status was last written
        self.follower: Follower | None = None

    def open(self) -> Follower:
        """The reader of its rows, up to date."""
        if self.follower is None:
            self.follower = runs.follower(self.info)
            self.follower.read()
        return self.follower

    def look(self) -> bool:
        """Read the state, and the new rows of a run under way; True when the facts changed."""
        changed = _changed(self.info.folder / STATUS)
        if changed == self.changed and self.facts["state"] != "running":
            return False
        self.changed, before = changed, dict(self.facts)
        if not self.info.config:  # it was damaged when it was found
            self.info = look(self.info.folder)
            self.facts |= runs.facts(self.info, self.root)
        if self.info.config:
            self.facts |= self._standing()
        return self.facts != before

    def _standing(self) -> dict[str, Any]:
        """The state and, of a run that began, how far it is."""
        try:
            status = read_status(self.info.folder, self.info.total_rounds)
        except FedcellError as error:
            return {"state": "damaged", "message": str(error)}
        now: dict[str, Any] = {"state": status.state, "message": status.message}
        if status.state in ("waiting", "failed") and (why := reason(self.info.folder)):
            now = {"state": "failed", "message": status.message or why, "traceback": told(self.info.folder)}
        if status.state != "waiting":
            reader = self.open()
            reader.read()
            now |= {"rounds": reader.done, "score": number(reader.final.get(self.info.metric.name))}
            kept = rows_sum(self.info.folder)
            if short := shortage(self.info.folder, status, reader.done) or reader.damage(kept):
                now |= {"state": "damaged", "message": short}
        return now


class Board:
    """All runs below a folder, by their path in it. Safe to call from several threads."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            fix = "type `fedcell run fedavg fedprox --rounds 30` to make a first run, or name the folder of your runs"
            raise BadInput(f"{root} is no folder, so there is nothing to show: {fix}")
        self._runs: dict[str, Followed] = {}
        self._known: dict[Path, float] = {}  # folders that were searched, and when the file of their sweep changed
        self._version = 0
        self._lock = threading.Lock()
        self._scan_due_s = self._look_due_s = 0.0

    def listing(self) -> dict[str, Any]:
        """The facts of every run."""
        return self.news(-1, {})[0]

    def detail(self, identity: str) -> dict[str, Any] | None:
        """Everything about one run; None for one that is not below the folder."""
        with self._lock:
            self._refresh()
            run = self._runs.get(identity)
            if run is None or run.facts["state"] == "damaged":
                return None
            reader = run.open()
            reader.read()
            return {
                **run.facts,
                "settings": runs.settings(run.info),
                "map": runs.cell_map(run.info.config),
                "epoch": reader.epoch,
                "totals": reader.totals(),
                "rows": reader.columns(),
            }

    def news(self, seen: int, wanted: Mapping[str, tuple[int, int]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """What changed since version `seen` of the list, and the rows of `wanted` after (epoch, rounds)."""
        with self._lock:
            self._refresh()
            fresh = [run.facts | {"changed": run.changed} for run in self._runs.values() if run.version > seen]
            listed = {"version": self._version, "runs": fresh, "ids": list(self._runs)}
            return listed, [rows for identity, at in wanted.items() if (rows := self._rows(identity, *at))]

    def stop(self, identity: str) -> str:
        """Ask a run to stop; returns how to resume it."""
        with self._lock:
            run = self._runs.get(identity)
        if run is None or not _inside(run.info.folder, self.root):
            raise BadInput(f"{identity!r} is no run of this folder")
        stop.request(run.info.folder)
        own = tuple(read_json(run.info.folder / RUN).get("own", ()))
        top = run.info.folder.parent
        return how_to_resume(top if (top / COMPARISON).exists() else run.info.folder, own)

    def _rows(self, identity: str, epoch: int, done: int) -> dict[str, Any] | None:
        run = self._runs.get(identity)
        if run is None or run.follower is None:
            return None
        reader, anew = run.follower, run.follower.epoch != epoch
        if reader.done == done and not anew:
            return None
        after = 0 if anew else done
        totals, columns = reader.totals(), reader.columns(after)
        return {
            "id": identity,
            "epoch": reader.epoch,
            "anew": anew,
            "done": reader.done,
            "totals": totals,
            "rows": columns,
        }

    def _refresh(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._scan_due_s:
            self._scan()
            self._scan_due_s = time.monotonic() + SCAN_EVERY_S
        if now_s >= self._look_due_s:
            for run in self._runs.values():
                if run.look():
                    self._touch(run)
            self._look_due_s = time.monotonic() + LOOK_EVERY_S

    def _scan(self) -> None:
        """Add runs of folders that are new and of sweeps that grew, and forget those of folders that are gone."""
        folders = {folder: _changed(folder / SWEEP) for folder in _folders(self.root)}
        for folder in sorted(one for one, changed in folders.items() if self._known.get(one) != changed):
            if folder.relative_to(self.root).as_posix() not in self._runs:  # or its comparison has named it
                for info in find(folder):
                    self._add(info)
        for identity in [key for key, run in self._runs.items() if not _there(run.info.folder, folders.keys())]:
            del self._runs[identity]
            self._version += 1
        self._known = folders

    def _add(self, info: RunInfo) -> None:
        if not _inside(info.folder, self.root):
            return
        run = Followed(info._replace(folder=info.folder.resolve()), self.root)
        if run.facts["id"] in self._runs:  # of a sweep that grew
            return
        run.facts |= {"rounds": info.rounds, "score": number(info.totals.final)}
        if info.state in ENDED:  # its totals are on file, so that its rows are read when somebody looks at them
            run.changed = _changed(info.folder / STATUS)
        self._runs[run.facts["id"]] = run
        self._touch(run)

    def _touch(self, run: Followed) -> None:
        self._version += 1
        run.version = self._version


def _folders(root: Path) -> Iterator[Path]:
    """Folders with a run, a comparison or a sweep; links to folders are not followed, and a run holds no other runs."""
    for place, below, names in os.walk(root):
        if not {RUN, COMPARISON, SWEEP}.isdisjoint(names):
            yield Path(place)
        if RUN in names:
            below.clear()


def _there(folder: Path, found: Set[Path]) -> bool:
    return not {folder, *folder.parents[: DEPTH[SWEEP]]}.isdisjoint(found)


def _inside(folder: Path, root: Path) -> bool:
    return folder.resolve().is_relative_to(root)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
