"""What is in a run folder, and how it is read back.

- `DIR/comparison.json`: what every run below was asked to do, in order
- `DIR/<method>/run.json`: the same for one run, with the versions it began with
- `DIR/<method>/rounds.jsonl`: one row per round
- `DIR/<method>/checkpoint-*.safetensors`: the newest two snapshots
- `DIR/<method>/status.json`: running, finished, diverged, interrupted or failed
"""

import os
import platform
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FedcellError
from ..version import __version__
from .files import in_use, present, read_json, write_json

FORMAT = 1  # of all files that say what to run
COMPARISON, RUN, STATUS, SWEEP = "comparison.json", "run.json", "status.json", "sweep.json"
ROWS = "rounds.jsonl"
DEPTH = {COMPARISON: 1, SWEEP: 2}  # folders from such a file down to a run
ENDED = ("finished", "diverged")  # nothing is left to simulate
FEDERATION = "federation"  # among the caller's own objects: the run is of real devices


class Spec(NamedTuple):
    """What one run was asked to do: enough to do it again."""

    folder: str  # name of the run's folder
    label: str
    method: str  # as it was written
    source: str  # name or file of the method; empty for a caller's own object
    sha256: str  # of that file; empty for a built-in method
    settings: Mapping[str, Any]  # every option of the method
    config: Mapping[str, Any]  # every option of world, data, model and training
    own: tuple[str, ...]  # which of "model", "dataset", "method", "federation" were the caller's own objects
    start: str  # checksum of the state before round 0


class Status(NamedTuple):
    """How far a run came."""

    state: str  # waiting, running, finished, diverged, interrupted or failed
    rounds: int
    total: int
    message: str = ""


class Record(NamedTuple):
    """One run as read back from its folder."""

    folder: Path
    label: str
    method: str
    settings: Mapping[str, Any]
    config: Mapping[str, Any]
    status: Status
    columns: Mapping[str, Any]  # one array per column of `Row` and per metric, NaN where not measured
    own: tuple[str, ...] = ()  # which of "model", "dataset", "method" were the caller's own objects
    sha256: str = ""  # of the method's file; empty for a built-in method
    made_by: Mapping[str, str] = {}  # versions and machine; empty before the run began


def read(folder: str | Path, wanted: Collection[str] | None = None) -> Record:
    """Read the run in a folder; works on running, killed and finished runs alike.

    Args:
        folder: of one run.
        wanted: columns to read, which is faster than all of them; None: all.
    """
    folder = Path(folder)
    values = _versioned(folder, RUN)
    return _record(folder, _spec(values), wanted)._replace(made_by=values.get("made_by", {}))


def read_all(folder: str | Path) -> list[Record]:
    """Read every run of a comparison in its order, the single run in a folder, or all that began below one."""
    folder = Path(folder)
    if os.path.isdir(folder) and not any(present(folder / name) for name in (RUN, COMPARISON)):
        from .index import find  # which reads folders with this module

        if begun := [info.folder for info in find(folder) if info.state not in ("waiting", "damaged")]:
            return [read(path) for path in begun]
    return [read(path) if present(path / RUN) else _record(path, spec) for path, spec in specs(folder)]


def specs(folder: str | Path) -> list[tuple[Path, Spec]]:
    """The runs in a folder and what each was asked to do, started or not."""
    folder = Path(folder)
    if present(folder / RUN):
        return [(folder, _spec(_versioned(folder, RUN)))]
    found = [_spec(values) for values in _versioned(folder, COMPARISON)["runs"]]
    return [(folder / run_name(folder / COMPARISON, spec.folder), spec) for spec in found]


def versioned(path: Path) -> dict[str, Any]:
    """A JSON file of ours, refused with a sentence when another fedcell wrote it."""
    values = read_json(path)
    found = values.get("format") if isinstance(values, dict) else None
    if found != FORMAT:
        raise FedcellError(f"{path} has format {found}, not {FORMAT}: use the fedcell that wrote it")
    return dict(values)


def run_name(path: Path, name: Any) -> str:
    """The folder of a run as a comparison or a sweep names it, refused where it could lie elsewhere than below."""
    parts = name.split("/") if isinstance(name, str) else []
    if len(parts) != DEPTH[path.name] or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FedcellError(
            f"{path} is damaged ({name!r} is no folder of a run): restore it from a copy or start a new run"
        )
    return "/".join(parts)


def write_comparison(folder: Path, runs: list[Spec]) -> None:
    """Say what is to be run, before any of it runs."""
    write_json(folder / COMPARISON, {"format": FORMAT, "runs": [spec._asdict() for spec in runs]})


def write_run(folder: Path, spec: Spec, device: str) -> None:
    """Say what is run here, on which machine and with which versions."""
    write_json(folder / RUN, {"format": FORMAT, **spec._asdict(), "made_by": made_by(device)})


def changes(folder: Path, device: str) -> list[str]:
    """What differs from the versions and the machine that the run began with."""
    before = _versioned(folder, RUN).get("made_by", {})
    return [f"{name} {before.get(name)} -> {now}" for name, now in made_by(device).items() if before.get(name) != now]


def read_status(folder: Path, total: int) -> Status:
    """The status on file, corrected for a process that was killed before it could write one."""
    if not present(folder / STATUS):
        return Status("waiting", 0, total)
    values = read_json(folder / STATUS)
    status = Status(*(values[name] for name in Status._fields))
    return status._replace(state="interrupted") if status.state == "running" and not in_use(folder) else status


def how_to_resume(folder: Path, own: tuple[str, ...]) -> str:
    """The command that goes on with a run."""
    if FEDERATION in own:
        return f"`flwr run` of the same app with out = {str(folder)!r}"
    if own:
        objects = "".join(f", {'methods=[...]' if name == 'method' else name + '=...'}" for name in own)
        return f"fedcell.record.resume({str(folder)!r}{objects}) in Python"
    return f"fedcell run --resume {shlex.quote(str(folder))}"


def _record(folder: Path, spec: Spec, wanted: Collection[str] | None = None) -> Record:
    from . import rows  # with NumPy, which a status needs not

    columns, n_rounds = rows.load(folder, wanted)
    status = read_status(folder, int(spec.config["rounds"]))._replace(rounds=n_rounds)
    return Record(folder, spec.label, spec.method, spec.settings, spec.config, status, columns, spec.own, spec.sha256)


def made_by(device: str) -> dict[str, str]:
    """What the last bits of a run may depend on."""
    import numpy as np
    import torch

    packages = {"fedcell": __version__, "numpy": np.__version__, "torch": torch.__version__}
    return {"python": platform.python_version(), **packages, "platform": platform.platform(), "device": device}


def _spec(values: Mapping[str, Any]) -> Spec:
    known = {name: values[name] for name in Spec._fields}
    return Spec(**known | {"own": tuple(known["own"])})


def _versioned(folder: Path, name: str) -> dict[str, Any]:
    """A file of a run folder, refused with a sentence when the folder is not a run."""
    if not present(folder / name):
        raise FedcellError(f"{folder} is no run folder (it has no {name}): name the one that `fedcell run` printed")
    return versioned(folder / name)
