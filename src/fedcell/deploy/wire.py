"""What travels between the server and a device: flat float32 vectors and plain numbers, no pickle.

A device that keeps a model of its own gets no model and sends a report of it, such as class means. Functions travel by
their names. A device that trains part of the entries (`mask`) only sends the values of these entries. It also only gets
these if all others are zero, as in a pruned model. With a coding, it sends the payload instead.
"""

import json
from io import BytesIO
from math import prod
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..data.scaling import SCALINGS, UNIT, Scaling
from ..metrics import CLASSIFICATION
from ..types import Bools, Ints
from .calls import Call
from .coded import Arrays, decoded
from .meters import METERS
from .tasks import MessageError, Task, Vector

TRAIN, HELLO = "train", "query"  # types of messages
NUMBERS = ("device", "round", "seed", "n_params", "n_classes", "n_reported", "steps", "batch_size")
RATIOS = ("lr", "momentum", "prox")
CALLS = ("objective", "report")
SECTIONS = ("model", "train", "coding")
MOST_SAMPLES = 2**32  # that a device may claim, so that sums stay exact
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}  # by version of NumPy's format


class Facts(NamedTuple):
    """What a device reports about itself."""

    device: int
    round: int
    counts: Ints  # [n_classes], samples that it holds of each label
    compute_s: float
    identity: str  # the same after a restart; empty if nothing is kept on disk
    right: int = 0  # test samples that its own model has right
    tested: int = 0  # of so many
    joule: float = 0.0  # that training used
    meter: str = ""  # what measured them; empty: nothing did


# ---------------------------------------------------------------- to the device


def pack_task(task: Task) -> RecordDict:
    """The content of a message that asks a device to train."""
    pruned = task.mask is not None and len(task.start) > 0 and not task.start[~task.mask].any()
    arrays = {"start": _array(_part(task.start, task.mask if pruned else None))}
    if task.mask is not None:
        arrays["mask"] = _array(np.packbits(task.mask))
    for name in ("shift", "tail"):
        if (part := getattr(task, name)) is not None:
            arrays[name] = _array(part)
    for name in CALLS:
        arrays |= _arrays_of(getattr(task, name), name)
    if task.scaling.kind != "unit":
        arrays |= {"input_shift": _array(task.scaling.shift), "input_scale": _array(task.scaling.scale)}
    values: dict[str, Any] = {name: int(getattr(task, name)) for name in NUMBERS}
    values |= {name: float(getattr(task, name)) for name in RATIOS}
    values |= {name: json.dumps(dict(getattr(task, name))) for name in SECTIONS}
    values |= {name: json.dumps(_told(getattr(task, name))) for name in CALLS}
    values |= {"scaling": task.scaling.kind, "learned": task.learned, "run": task.run}
    return RecordDict({"arrays": ArrayRecord(arrays), "task": ConfigRecord(values)})


def unpack_task(content: RecordDict) -> Task:
    """The task of a message."""
    values, arrays = _record(content, "task"), content.array_records["arrays"]
    mask = None
    if "mask" in arrays:
        mask = np.unpackbits(arrays["mask"].numpy(), count=int(values["n_params"])).astype(np.bool_)
    known: dict[str, Any] = {name: values[name] for name in (*NUMBERS, *RATIOS)}
    known |= {name: json.loads(str(values[name])) for name in SECTIONS}
    known |= {name: _call(json.loads(str(values[name])), arrays, name) for name in CALLS}
    if "shift" in arrays:
        known["shift"] = _whole(arrays["shift"].numpy(), None, int(values["n_params"]), "shift")
    if "tail" in arrays:
        known["tail"] = arrays["tail"].numpy()
    start = arrays["start"].numpy()
    if known["report"] is None:
        pruned = mask if len(start) != int(values["n_params"]) else None
        start = _whole(start, pruned, int(values["n_params"]), "start")
    known |= {"learned": str(values.get("learned", CLASSIFICATION)), "run": str(values.get("run", ""))}
    known |= {"start": start, "mask": mask}
    return Task(**known, scaling=_scaling(str(values.get("scaling", "unit")), arrays))


class Hello(NamedTuple):
    """A question to a node: who it is and what it holds."""

    round: int
    n_classes: int  # labels that it counts; 1 for tasks without labels
    learned: str = CLASSIFICATION
    run: str = ""  # name of the run


def pack_hello(round: int, n_classes: int, learned: str = CLASSIFICATION, run: str = "") -> RecordDict:
    """The content of a message that asks a node who it is."""
    return RecordDict({"hello": ConfigRecord(Hello(round, n_classes, learned, run)._asdict())})


def unpack_hello(content: RecordDict) -> Hello:
    """Read the question of a hello message."""
    values = _record(content, "hello")
    learned, run = str(values.get("learned", CLASSIFICATION)), str(values.get("run", ""))
    return Hello(int(values["round"]), int(values["n_classes"]), learned, run)


# ---------------------------------------------------------------- to the server


def pack_facts(
    facts: Facts,
    update: Vector | None = None,
    mask: Bools | None = None,
    payload: Arrays | None = None,
    tail: Vector | None = None,
) -> RecordDict:
    """The content of an answer, with the update of one that trained, or with the payload that stands for it.

    Running statistics go beside it as they are.
    """
    values: dict[str, Any] = {**facts._asdict(), "counts": [int(count) for count in facts.counts]}
    content = RecordDict({"facts": ConfigRecord(values)})
    if payload is None and update is None:
        return content
    arrays = dict(payload or {}) if update is None or payload is not None else {"update": _part(update, mask)}
    if tail is not None:
        arrays["tail"] = tail
    content["arrays"] = ArrayRecord({name: _array(part) for name, part in arrays.items()})
    return content


def unpack_facts(content: RecordDict, n_classes: int) -> Facts:
    """Read what a device reports about itself; raises MessageError with the reason if it makes no sense."""
    values = _record(content, "facts")
    try:
        counts = np.asarray(values["counts"], dtype=np.int64).reshape(-1)
        facts = Facts(
            device=int(values["device"]),
            round=int(values["round"]),
            counts=counts,
            compute_s=float(values["compute_s"]),
            identity=str(values["identity"])[:64],
            right=int(values["right"]),
            tested=int(values["tested"]),
            joule=float(values.get("joule", 0.0)),
            meter=str(values.get("meter", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise MessageError(f"the answer lacks a fact ({type(error).__name__}: {error})") from None
    if len(counts) != n_classes or counts.min(initial=0) < 0:
        raise MessageError(f"the answer counts {len(counts)} labels of {n_classes}, or a negative number")
    n_samples = float(counts.sum(dtype=np.float64))  # whole numbers could overflow
    if n_samples > MOST_SAMPLES:
        raise MessageError(
            f"the answer counts {n_samples:.4g} samples, more than any device holds", "samples", n_samples
        )
    if not 0 <= facts.right <= facts.tested < 2**40:
        raise MessageError(f"the answer has {facts.right} of {facts.tested} test samples right")
    if not 0 <= facts.joule < 1e12 or facts.meter not in METERS:
        raise MessageError(f"the answer says that training used {facts.joule:g} J by {facts.meter[:20]!r}")
    if not 0 <= facts.compute_s < 1e9:
        raise MessageError(f"the answer says that computing took {facts.compute_s:g} s")
    return facts


def unpack_update(content: RecordDict, task: Task) -> Vector:
    """The update of an answer `[n_params]`, or its class means, flat.

    Raises MessageError with the reason if it cannot be used.
    """
    record = content.array_records.get("arrays")
    if record is None or not (task.coding or "update" in record):
        raise MessageError("the answer holds no update")
    if task.coding:
        arrays = {name: read_array(array, "update") for name, array in record.items() if name != "tail"}
        try:
            values = decoded(task, arrays)
        except Exception as error:  # whatever a hostile payload leads to
            raise MessageError(f"the update cannot be read ({error})") from None
    else:
        values = read_array(record["update"], "update")
    return _finite(_whole(values, task.mask, task.n_values, "update"), "update")


def unpack_tail(content: RecordDict, task: Task) -> Vector | None:
    """The running statistics of an answer, None if the task had none; raises MessageError as `unpack_update` does."""
    if task.tail is None:
        return None
    record = content.array_records.get("arrays")
    if record is None or "tail" not in record:
        raise MessageError("the answer holds no running statistics")
    values = read_array(record["tail"], "tail")
    return _finite(_whole(values, None, len(task.tail), "tail"), "tail")


def read_array(array: Array, name: str) -> NDArray[Any]:
    """The numbers of an array that a device sent; raises MessageError if its bytes are not what `np.save` writes.

    The header is checked first: it may announce plain numbers only, and exactly as many bytes as follow it, so that
    nobody makes the server load another format or reserve more memory than was sent.
    """
    try:
        data = BytesIO(array.data)
        shape, _, dtype = HEADERS[npy.read_magic(data)](data)
        n_bytes = len(array.data) - data.tell()
        if dtype.kind not in "biuf" or prod(shape) * dtype.itemsize != n_bytes:
            raise ValueError(f"its header says {dtype} {list(shape)} and {n_bytes} bytes follow")
        return array.numpy()
    except Exception as error:  # NumPy and Python raise many kinds for bytes that are no array
        what = f"{type(error).__name__}: {error}"[:200]
        raise MessageError(f"the {name} cannot be read ({what})") from None


def _finite(values: Vector, name: str) -> Vector:
    if not np.isfinite(values).all():
        n_bad = int((~np.isfinite(values)).sum())
        raise MessageError(f"the {name} holds {n_bad} numbers that are not finite", "not finite", n_bad)
    return values


def bits(content: RecordDict) -> float:
    """Bits of the arrays of a message, in NumPy's format, without the numbers and names beside them."""
    return 8.0 * sum(len(array.data) for record in content.array_records.values() for array in record.values())


def message_bits(message: Message) -> float:
    """Bits of a message as Flower serialises it: arrays, numbers, names and where it goes.

    HTTP, TLS and the requests of nodes for work come on top.
    """
    return 8.0 * _weight(message)


def _weight(part: Any) -> int:
    return len(part.deflate()) + sum(map(_weight, (part.children or {}).values()))


# ---------------------------------------------------------------- helpers


def _array(values: NDArray[Any]) -> Array:
    return Array(np.ascontiguousarray(values))


def _told(call: Call | None) -> list[Any] | None:
    """The name of a function and its numbers, with None in place of every array."""
    return call and [call.name, [None if isinstance(one, np.ndarray) else one for one in call.given]]


def _arrays_of(call: Call | None, name: str) -> dict[str, Array]:
    given = enumerate(call.given if call else ())
    return {f"{name} {n}": _array(one) for n, one in given if isinstance(one, np.ndarray)}


def _call(told: list[Any] | None, arrays: ArrayRecord, name: str) -> Call | None:
    if told is None:
        return None
    function, given = told
    return Call(function, tuple(arrays[f"{name} {n}"].numpy() if one is None else one for n, one in enumerate(given)))


def _part(vector: Vector, mask: Bools | None) -> Vector:
    return vector if mask is None else vector[mask]


def _whole(values: NDArray[Any], mask: Bools | None, n_params: int, name: str) -> Vector:
    """Put values into a vector that is zero outside the mask; raises MessageError if they do not fit."""
    wanted = n_params if mask is None else int(mask.sum())
    if values.dtype != np.float32 or values.shape != (wanted,):
        raise MessageError(f"the {name} is {values.dtype} {list(values.shape)}, not float32 [{wanted}]")
    if mask is None:
        return values
    whole = np.zeros(n_params, dtype=np.float32)
    whole[mask] = values
    return whole


def _scaling(kind: str, arrays: ArrayRecord) -> Scaling:
    """How the server scales its test samples; raises MessageError if that makes no sense."""
    if kind == "unit":
        return UNIT
    if kind not in SCALINGS or not {"input_shift", "input_scale"} <= set(arrays):
        raise MessageError(f"the task scales samples by {kind!r}, without shift and scale or unknown here")
    shift, scale = arrays["input_shift"].numpy(), arrays["input_scale"].numpy()
    if shift.ndim != 1 or shift.shape != scale.shape or not (np.isfinite(shift).all() and (scale > 0).all()):
        raise MessageError(f"the task scales samples by {list(shift.shape)} and {list(scale.shape)} numbers, or by 0")
    return Scaling(kind, shift, scale)


def _record(content: RecordDict, name: str) -> dict[str, Any]:
    found = content.config_records.get(name)
    if found is None:
        raise MessageError(f"the message holds no {name}")
    return dict(found)
