"""Checkpoints: a snapshot in one safetensors file, checked by a checksum, the newest two kept. No pickle."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import ContractError
from ..learn.memory import fits, spilled
from ..types import Snapshot
from . import tree
from .files import natural, reason, write_atomic

PATTERN = "checkpoint-*.safetensors"
KEPT = 2
PARAMS = "state.params"  # the name of the global model in a file
DAMAGED = (ValueError, KeyError, TypeError, OSError, SafetensorError)  # what a file that is not whole raises
META = "fedcell"
DTYPES = {  # the names of the safetensors format
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.complex64: "C64",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float64: "F64",
}


class Template(NamedTuple):
    """What a reader of checkpoints must bring: the NamedTuple classes and the device of the model."""

    classes: tree.Classes
    home: torch.device

    @staticmethod
    def of(snapshot: Snapshot) -> "Template":
        return Template(tree.classes(snapshot), snapshot.params.device)


def save(folder: Path, snapshot: Snapshot, template: Template, scaling: Mapping[str, Any] | None = None) -> None:
    """Write a checkpoint and remove all but the newest two, and those ahead of it, whose rows were lost.

    `scaling` says how inputs must be scaled for the model; it is for readers of the file, a run computes it anew.
    """
    node, tensors = tree.pack(snapshot, *template)
    about: dict[str, Any] = {"format": 1, "crc32": tree.digest(node, tensors), "tree": node}
    if scaling:
        about["scaling"] = scaling
    path = folder / f"checkpoint-{snapshot.round:06d}.safetensors"
    write_atomic(path, *serialize(tensors, json.dumps(about)))
    found = _oldest_first(folder)
    end = found.index(path) + 1
    for other in found[: max(end - KEPT, 0)] + found[end:]:
        other.unlink()


def serialize(tensors: Mapping[str, Tensor], about: str) -> Iterator[bytes | memoryview]:
    """The parts of a safetensors file, without a copy of any tensor: 8 bytes of length, a JSON header, the numbers.

    The library's `save` holds the whole file in memory; its `save_file` leaves `.tmp*` files behind when killed and
    hides the number of a disk error.
    """
    header: dict[str, object] = {"__metadata__": {META: about}}
    names, end = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name)), 0  # wide numbers first: aligned
    for name in names:
        tensor, start = tensors[name], end
        if tensor.dtype not in DTYPES:
            raise ContractError(f"{name} is a tensor of {tensor.dtype}, which cannot be saved: use another dtype")
        end += tensor.nbytes
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    yield from (tree.raw(tensors[name]) for name in names)


def load(path: Path, template: Template) -> Snapshot:
    """Read one checkpoint; raises ValueError, KeyError, TypeError, OSError or SafetensorError when it is not whole."""
    node, tensors = _read(path)
    snapshot = tree.unpack(node, tensors, *template)
    if not isinstance(snapshot, Snapshot):
        raise ValueError("it holds no snapshot")
    return snapshot


def _read(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """Read what `tree.pack` returned; raise as `load` does if the file is not whole."""
    copy = Tensor.clone if fits(path.stat().st_size) else partial(spilled, what=f"the numbers of {path}")
    with safe_open(path, framework="pt") as file:
        about = json.loads((file.metadata() or {})[META])
        # Copies, because results may depend on how memory is aligned and the file's is not.
        tensors = {name: copy(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - not a dict
    if tree.digest(about["tree"], tensors) != about["crc32"]:
        raise ValueError("its checksum is wrong")
    return about["tree"], tensors


def newest_params(folder: Path) -> Tensor | None:
    """The global model of the newest whole checkpoint, which needs no template; None if there is none."""
    for path in reversed(_oldest_first(folder)):
        with suppress(*DAMAGED):
            return _read(path)[1][PARAMS]
    return None


def newest(folder: Path, template: Template, at_most: int, say: Callable[[str], None]) -> Snapshot | None:
    """The newest whole checkpoint of at most that many rounds; reports every file that it passes over."""
    for path in reversed(_oldest_first(folder)):
        try:
            snapshot = load(path, template)
        except DAMAGED as error:
            words = reason(error) if isinstance(error, OSError) else error
            say(f"{path} is damaged ({words}): going back to the checkpoint before it")
            continue
        if snapshot.round <= at_most:
            return snapshot
        say(f"{path} is ahead of the {at_most} recorded rounds: going back to the checkpoint before it")
    return None


def drop_newest(folder: Path) -> int | None:
    """Remove the newest checkpoint and return the round of the one before it; if there is none, do nothing."""
    found = _oldest_first(folder)
    if len(found) < KEPT:
        return None
    found[-1].unlink()
    return round_of(found[-2])


def round_of(path: Path) -> int:
    """The round in the file name of a checkpoint."""
    return int(path.stem.rpartition("-")[2])


def _oldest_first(folder: Path) -> list[Path]:
    """The checkpoints in the order of their rounds, which may have more digits than the names are padded to."""
    return sorted(folder.glob(PATTERN), key=lambda path: natural(path.name))
