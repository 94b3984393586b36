"""The file `sweep.json` of a sweep: every run that was ever asked for in its folder."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import BadInput, FedcellError
from ..record.files import explained, occupied, present, write_json
from ..record.folder import FORMAT, SWEEP, run_name, versioned
from .task import SweepRun


def refuse_foreign(folder: Path | None) -> None:
    """Raise BadInput for a folder that is neither empty nor the folder of a sweep."""
    if folder is None or present(folder / SWEEP):
        return
    with explained(folder, "or choose another folder (nothing was written)"):
        if occupied(folder):
            raise BadInput(f"{folder} is not empty and no folder of a sweep: choose another folder")


def read(folder: Path) -> dict[str, SweepRun]:
    """Every run that was ever asked for in a folder, by its name; raise FedcellError if the file is damaged."""
    path = folder / SWEEP
    try:
        tasks = {run_name(path, one["name"]): SweepRun(**one) for one in versioned(path)["runs"]}
        for task in tasks.values():
            _ = task.source, task.rounds  # which every run needs
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from None
    return tasks


def damaged(path: Path, why: str) -> FedcellError:
    """The error of a file that cannot be used."""
    return FedcellError(f"{path} is damaged ({why}): restore it from a copy or start a new sweep")


def write(folder: Path, tasks: Sequence[SweepRun]) -> None:
    """Write the file of a sweep."""
    write_json(folder / SWEEP, {"format": FORMAT, "runs": [task._asdict() for task in tasks]})
