"""The conditions at which recorded runs stop: what a record says of them, and how it is changed."""

from pathlib import Path

from ..until import Until, read_goals
from .files import explained, locked, present, write_json
from .folder import COMPARISON, RUN, Spec, specs, versioned


def until_of(spec: Spec) -> Until:
    """What tells when a run has done enough."""
    return Until(read_goals(spec.config.get("until", "")), int(spec.config.get("eval_every", 1)))


def retarget(folder: Path, until: str) -> None:
    """Let the runs of a folder stop at other conditions than they were asked for."""
    found = specs(folder)
    if all(spec.config.get("until", "") == until for _, spec in found):
        return
    with explained(folder, "then resume again (nothing was simulated yet)"):
        for path in dict.fromkeys([folder, *(path for path, _ in found)]):
            if path.is_dir():  # a run whose turn did not come yet has no folder
                with locked(path):
                    _write(path, until)


def _write(folder: Path, until: str) -> None:
    for name in (COMPARISON, RUN):
        if present(folder / name):
            values = versioned(folder / name)
            for one in values["runs"] if name == COMPARISON else [values]:
                one["config"]["until"] = until
            write_json(folder / name, values)
