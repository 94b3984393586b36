"""A vector that a device keeps in its folder and that never leaves it: a model of its own, or what it has not sent.

The vector before the last round is kept, too: if a restarted server asks for that round again, the round starts from
the same vector.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ..errors import BadInput, FedcellError
from ..record.files import reason, write_atomic
from .tasks import Vector


class Kept(NamedTuple):
    """A vector on disk, before and after the last round."""

    round: int  # the last one, which turned `before` into `after`; -1: none yet
    before: Vector  # [n]
    after: Vector  # [n]

    def start(self, round: int) -> Vector:
        """The vector that a round starts from."""
        return self.before if round <= self.round else self.after


def kept_in(folder: Path | None, name: str, first: Vector, what: str) -> Kept:
    """Read a vector from the folder of a device, or `first` without a file; an error without a folder names `what`."""
    if folder is None:
        raise BadInput(f"{what} needs state-dir in the node configuration: name a folder that survives a restart")
    path = folder / name
    if not path.exists():
        return Kept(-1, first, first)
    kept = _read(path)
    if len(kept.after) != len(first):
        raise BadInput(f"{path} has {len(kept.after)} parameters, not {len(first)}: give another state-dir")
    return kept


def _read(path: Path) -> Kept:
    """Read a file of `keep`; raises FedcellError if it is none."""
    try:
        state = load(path.read_bytes())
        return Kept(int(state["round"][0]), state["before"], state["after"])
    except OSError as error:
        raise FedcellError(f"cannot read {path}: {reason(error)}; make it readable and try again") from None
    except (SafetensorError, KeyError, ValueError, IndexError) as error:
        raise FedcellError(f"{path} is damaged ({error}): remove it, and this device starts anew") from None


def keep(folder: Path, name: str, kept: Kept) -> None:
    """Write a vector to the folder of a device."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {"round": np.array([kept.round]), "before": kept.before, "after": kept.after}
    write_atomic(folder / name, save({key: np.ascontiguousarray(part) for key, part in state.items()}))
