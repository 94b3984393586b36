"""What is in a run folder: its files, what a run was asked to do, and how far it came.

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
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..arguments import FOLDER, expect
from ..errors import BadInput, FedcellError
from ..metrics import CLASSIFICATION
from ..version import __version__
from .files import in_use, present, read_json, write_json

FORMAT = 1  # of all files that say what to run
COMPARISON, RUN, STATUS, SWEEP = "comparison.json", "run.json", "status.json", "sweep.json"
ROWS = "rounds.jsonl"
TRACEBACK = "traceback.txt"  # of the exception that ended a run
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
    scaling: Mapping[str, Any] = {}  # kind, shift and scale of all inputs; empty: as they were loaded
    network: Mapping[str, Any] = {}  # input_shape and n_classes that it was built for; empty in records from before
    task: str = CLASSIFICATION  # what was learned
    chance: float | None = None  # the leading metric of the best constant answer; None: not known


class Status(NamedTuple):
    """How far a run came."""

    state: str  # waiting, running, finished, diverged, interrupted or failed; damaged: rows of an ended run are gone
    rounds: int
    total: int
    message: str = ""


def clock_of(own: Collection[str]) -> str:
    """The clock of a run, by the caller's own objects in it."""
    return "measured" if FEDERATION in own else "simulated"


def specs(folder: str | Path) -> list[tuple[Path, Spec]]:
    """The runs in a folder and what each was asked to do, started or not.

    Of a run that began, its own file counts: the conditions at which it stops may have been changed since.
    """
    folder = check_folder(folder)
    if begun(folder):
        return [(folder, spec_of(versioned(folder / RUN), folder / RUN))]
    path = folder / COMPARISON
    if not present(path):
        raise no_run(folder)
    values = versioned(path).get("runs")
    found = [spec_of(one, path) for one in values] if isinstance(values, list) else []
    if not found:
        raise FedcellError(f"{path} is damaged (it names no runs): restore it from a copy or start a new run")
    return [_latest(folder / run_name(path, spec.folder), spec) for spec in found]


def _latest(folder: Path, asked: Spec) -> tuple[Path, Spec]:
    """The folder of a run and its `Spec`: its own if it began, else what was `asked` for."""
    with suppress(FedcellError):  # whoever reads a damaged run reports it
        if begun(folder):
            return folder, spec_of(versioned(folder / RUN), folder / RUN)
    return folder, asked


def check_folder(folder: str | Path) -> Path:
    """The folder as a path; raise BadInput if it does not exist, is a file, or is no path at all."""
    expect(FOLDER, folder=folder)
    if not present(Path(folder)) or not os.path.isdir(folder):
        raise BadInput(f"{folder} is no folder: name one that `fedcell run` or `fedcell sweep` made")
    return Path(folder)


def begun(folder: Path) -> bool:
    """Whether there is a run in a folder; raise FedcellError if there is one that lost its `run.json`."""
    if present(folder / RUN):
        return True
    if present(folder / STATUS) or present(folder / ROWS):
        raise FedcellError(
            f"{folder} is damaged (it has no {RUN}): restore it, or delete the folder and resume makes it anew"
        )
    return False


def versioned(path: Path) -> dict[str, Any]:
    """Read a JSON file of fedcell; raise FedcellError if it has the format of another version."""
    values = read_json(path)
    found = values.get("format") if isinstance(values, dict) else None
    if found != FORMAT:
        raise FedcellError(f"{path} has format {found}, not {FORMAT}: use the fedcell that wrote it")
    return dict(values)


def run_name(path: Path, name: Any) -> str:
    """Check the folder of a run as a comparison or a sweep names it; raise FedcellError unless it lies below."""
    parts = name.split("/") if isinstance(name, str) else []
    if len(parts) != DEPTH[path.name] or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FedcellError(
            f"{path} is damaged ({name!r} is no folder of a run): restore it from a copy or start a new run"
        )
    return "/".join(parts)


def write_comparison(folder: Path, runs: list[Spec]) -> None:
    """Write what is to be run, before any of it runs."""
    write_json(folder / COMPARISON, {"format": FORMAT, "runs": [spec._asdict() for spec in runs]})


def write_run(folder: Path, spec: Spec, device: str) -> None:
    """Write what is run here, on which machine and with which versions."""
    write_json(folder / RUN, {"format": FORMAT, **spec._asdict(), "made_by": made_by(device)})


def changes(folder: Path, device: str) -> list[str]:
    """What differs from the versions and the machine that the run began with."""
    before = versioned(folder / RUN).get("made_by", {})
    return [f"{name} {before.get(name)} -> {now}" for name, now in made_by(device).items() if before.get(name) != now]


def read_status(folder: Path, total: int) -> Status:
    """The status on file, corrected for a process that was killed before it could write one."""
    if not present(folder / STATUS):
        return Status("waiting", 0, total)
    values = read_json(folder / STATUS)
    try:
        status = Status(str(values["state"]), int(values["rounds"]), int(values["total"]), str(values["message"]))
    except (KeyError, TypeError, ValueError):
        raise FedcellError(f"{folder / STATUS} is damaged: delete it, and resume makes it anew") from None
    return status._replace(state="interrupted") if status.state == "running" and not in_use(folder) else status


def shortage(folder: Path, status: Status, n_rows: int) -> str:
    """A message if a run that ended has fewer rows than it had then; else empty."""
    if status.state not in ENDED or n_rows >= status.rounds:
        return ""
    rows = f"{n_rows} of {status.rounds} rows"
    return f"{folder} is damaged ({status.state}, but with {rows}): resuming makes the others anew"


def how_to_resume(folder: Path, own: tuple[str, ...]) -> str:
    """The command that resumes a run."""
    if FEDERATION in own:
        return f"`flwr run` of the same app with out = {str(folder)!r}"
    if own:
        objects = "".join(f", {'methods=[...]' if name == 'method' else name + '=...'}" for name in own)
        return f"fedcell.record.resume({str(folder)!r}{objects}) in Python"
    return f"fedcell run --resume {shlex.quote(str(folder))}"


def made_by(device: str) -> dict[str, str]:
    """The versions and the machine, on which the last bits of a run may depend."""
    import numpy as np
    import torch

    packages = {"fedcell": __version__, "numpy": np.__version__, "torch": torch.__version__}
    return {"python": platform.python_version(), **packages, "platform": platform.platform(), "device": device}


def spec_of(values: Any, path: Path) -> Spec:
    """The `Spec` of a run from the values of a file; raise FedcellError if they are damaged."""
    try:
        known = {name: values[name] for name in Spec._fields if name in values or name not in Spec._field_defaults}
        for name, kind in (("scenario", str), ("seed", int), ("rounds", int)):
            kind(known["config"][name])
        return Spec(**known | {"own": tuple(known["own"])})
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FedcellError(
            f"{path} is damaged ({type(error).__name__}: {error}): restore it from a copy or start a new run"
        ) from None


def no_run(folder: Path) -> BadInput:
    """Why a folder cannot be read as one run, and what to name instead."""
    check_folder(folder)
    if present(folder / COMPARISON):
        path, _ = specs(folder)[0]
        return BadInput(
            f"{folder} is a comparison: read one of its runs, such as {path}, or all with fedcell.record.read_all"
        )
    return BadInput(f"there is no recorded run in {folder}: name a folder that `fedcell run` or `fedcell sweep` made")
