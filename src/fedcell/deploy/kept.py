"""A vector that a device keeps in its folder and that never leaves it: a model of its own, or what it has not sent.

The one before the last round is kept, too, so that a round that is asked for again, after a restart of the server,
begins where it began before.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load, save

from ..errors import BadInput
from ..record.files import write_atomic
from .tasks import Vector


class Kept(NamedTuple):
    """A vector on disk."""

    round: int  # that made `after` of `before`; -1 for the first one
    before: Vector  # [n]
    after: Vector  # [n]

    def start(self, round: int) -> Vector:
        """Where a round begins."""
        return self.before if round <= self.round else self.after


def kept_in(folder: Path | None, name: str, first: Vector, what: str) -> Kept:
    """What a device keeps in a file of its folder; `first` before there is any, `what` for the message without one."""
    if folder is None:
        raise BadInput(f"{what} needs state-dir in the node configuration: name a folder that survives a restart")
    path = folder / name
    if not path.exists():
        return Kept(-1, first, first)
    state = load(path.read_bytes())
    if len(state["after"]) != len(first):
        raise BadInput(f"{path} has {len(state['after'])} parameters, not {len(first)}: give another state-dir")
    return Kept(int(state["round"][0]), state["before"], state["after"])


def keep(folder: Path, name: str, kept: Kept) -> None:
    """Write what a device keeps."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {"round": np.array([kept.round]), "before": kept.before, "after": kept.after}
    write_atomic(folder / name, save({key: np.ascontiguousarray(part) for key, part in state.items()}))
