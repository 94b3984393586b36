"""Trees of tensors, arrays and plain values, taken apart for a file and put together again without pickle.

A tree becomes a JSON-able description of its structure and one flat dict of CPU tensors. NamedTuples
are written by name; to rebuild them the reader brings a template tree that holds the same classes.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from ..errors import ContractError

Classes = Mapping[str, type]  # NamedTuple classes by name
LATER = {"WorldState": ("station_watt",)}  # fields that files leave out if they are None, as before they existed


def classes(template: Any) -> dict[str, type]:
    """Every NamedTuple class that occurs in a tree, by name."""
    found = {type(template).__qualname__: type(template)} if hasattr(template, "_fields") else {}
    for _, part in _parts(template):
        for name, cls in classes(part).items():
            if found.setdefault(name, cls) is not cls:
                raise ContractError(f"two different NamedTuples of the state are both called {name!r}: rename one")
    return found


def pack(tree: Any, known: Classes, home: torch.device) -> tuple[Any, dict[str, Tensor]]:
    """Describe a tree and collect its tensors.

    Args:
        tree: nested NamedTuples, tuples, lists and dicts of tensors, arrays, numbers, texts and None.
        known: classes that the reader will have; any other NamedTuple is a ContractError now, not at resume.
        home: tensors on this device return to the reader's home device, all others to the CPU.
    """
    tensors: dict[str, Tensor] = {}
    return _pack(tree, "state", known, home, tensors), tensors


def unpack(node: Any, tensors: Mapping[str, Tensor], known: Classes, home: torch.device) -> Any:
    """The tree that `pack` described, with equal bits in every number."""
    if not isinstance(node, dict):
        return node
    (kind, body), *_ = node.items()
    if kind in ("array", "scalar"):
        array = tensors[body].numpy()
        return array if kind == "array" else array[()]
    if kind in ("tensor", "home"):
        return tensors[body].to(home) if kind == "home" else tensors[body]
    parts = {key: unpack(part, tensors, known, home) for key, part in body}
    if kind in ("tuple", "list"):
        return tuple(parts.values()) if kind == "tuple" else list(parts.values())
    return parts if kind == "dict" else known[kind](**parts)


def digest(node: Any, tensors: Mapping[str, Tensor]) -> str:
    """A checksum of everything `pack` returned."""
    value = crc32(json.dumps(node).encode())
    for name in sorted(tensors):
        value = crc32(raw(tensors[name]), value)
    return f"{value:08x}"


def raw(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous CPU tensor, not copied."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")


def _pack(tree: Any, path: str, known: Classes, home: torch.device, tensors: dict[str, Tensor]) -> Any:
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if isinstance(tree, Tensor):
        return {"home" if tree.device == home else "tensor": _put(tensors, path, tree.detach().cpu().contiguous())}
    if isinstance(tree, np.ndarray | np.generic):
        tensor = _from_numpy(np.array(tree, order="C"), path)
        return {"array" if isinstance(tree, np.ndarray) else "scalar": _put(tensors, path, tensor)}
    kind, parts = type(tree).__qualname__, list(_parts(tree))
    plain = type(tree) in (dict, list, tuple) and all(type(key) in (str, int) for key, _ in parts)
    if not plain and known.get(kind) is not type(tree):
        raise ContractError(
            f"{path} is a {kind}, which cannot be saved: keep tensors, arrays, numbers, tuples, NamedTuples and dicts "
            "with text or int keys in a method's state, and use every NamedTuple class in init() already"
        )
    return {kind: [[key, _pack(part, f"{path}.{key}", known, home, tensors)] for key, part in parts]}


def _put(tensors: dict[str, Tensor], path: str, tensor: Tensor) -> str:
    """Store a tensor under a free name."""
    name = path if path not in tensors else f"{path}#{len(tensors)}"
    tensors[name] = tensor
    return name


def _parts(tree: Any) -> Iterator[tuple[str | int, Any]]:
    """The children of a container with their names; nothing for a leaf."""
    if isinstance(tree, dict):
        yield from tree.items()
    elif hasattr(tree, "_fields"):
        later = LATER.get(type(tree).__qualname__, ())
        for name, part in zip(tree._fields, tree, strict=True):
            if part is not None or name not in later:
                yield name, part
    elif isinstance(tree, tuple | list):
        yield from enumerate(tree)


def _from_numpy(array: np.ndarray, path: str) -> Tensor:
    try:
        return torch.from_numpy(array)
    except TypeError:
        raise ContractError(f"{path} is an array of {array.dtype}, which cannot be saved: use numbers") from None
