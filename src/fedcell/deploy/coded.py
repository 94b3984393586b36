"""Updates in a coding, such as `fedavg+topk`: the device's side, which encodes, and the server's, which decodes.

A device keeps what it did not send in its folder and adds it to its next update. It does not learn whether an answer
arrived, so what was sent and lost is lost.
"""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import coding as codings
from .. import options
from ..coding import Coding, Shapes
from ..errors import BadInput
from ..methods import Choice
from ..methods.parts.pairing import split
from ..rng import stream
from .kept import Kept, keep, kept_in
from .tasks import Task, Vector

FILE = "unsent.safetensors"
Arrays = Mapping[str, NDArray[Any]]
DTYPES = (np.float32, np.float16, np.int32, np.int16, np.int8, np.uint8)  # that the arrays of payloads may have


def told(choice: Choice, shapes: Shapes = ()) -> dict[str, Any]:
    """Describe the coding of a method in plain values, for tasks; empty without a coding.

    Args:
        choice: the method. A method file with a coding of its own names it as `coding`, and its settings as `CODED`.
        shapes: of the layers of the network, for codings that need them.
    """
    module = getattr(choice.module, "coding", None)
    if module is None:
        return {}
    name = split(choice.source)[1] or module.__name__.rpartition(".")[2]
    config = getattr(choice.module, "CODED", choice.config)
    if name.endswith(".py"):
        raise BadInput(f"coding {name!r} is a file, which devices may not have: name one of {', '.join(_deployable())}")
    coding: Coding = module.build(config)
    if coding.at_sum is not None:
        raise BadInput(
            f"{name} cannot be deployed: its noise comes from the seed of the run, which the server knows and which "
            "protects nobody, so simulate it"
        )
    if coding.keeps_lost:
        raise BadInput(f"{name} cannot keep what was lost: a device does not learn what arrived, so set lost=dropped")
    settings = options.to_dict(config)
    found = {"name": name, "settings": {key: settings[key] for key in options.to_dict(module.Config())}}
    return found if coding.shaped is None else {**found, "shapes": [list(shape) for shape in shapes]}


def _deployable() -> list[str]:
    """Names of the codings that devices can use."""
    found = ((name, codings.load(name)) for name in codings.names())
    return [name for name, module in found if module.build(module.Config()).at_sum is None]


def coding_of(task: Task) -> Coding:
    """Build the coding that a task asks for, for the task's network."""
    module = codings.load(str(task.coding["name"]))
    coding: Coding = module.build(options.from_dict(module.Config(), task.coding["settings"]))
    if coding.shaped is None:
        return coding
    shapes = tuple(tuple(map(int, shape)) for shape in task.coding["shapes"])
    if sum(map(prod, shapes)) != task.n_params:
        raise BadInput(f"layers of {sum(map(prod, shapes))} numbers are not those of {task.n_params} parameters")
    return coding.for_network(shapes)


def payload_of(task: Task, update: Vector, folder: Path | None) -> Arrays:
    """Encode what a device sends of its update; with feedback, the rest stays in its folder."""
    coding, before = coding_of(task), None
    if coding.feedback:
        nothing = np.zeros(coding.n_kept(len(update)), dtype=np.float32)
        before = kept_in(folder, FILE, nothing, f"{coding.name} with feedback").start(task.round)
    kept = None if before is None else torch.from_numpy(before)
    u, payload = coding.send(torch.from_numpy(update), kept, stream(task.seed, task.round, f"coding {task.device}"))
    if before is not None and folder is not None:
        rest: Vector = np.empty_like(before)
        coding.keep(u, payload, coding.decode(payload, len(u)), out=torch.from_numpy(rest))
        keep(folder, FILE, Kept(task.round, before, rest if np.isfinite(rest).all() else before))
    return {name: part.numpy() for name, part in coding.pack(payload, len(u)).items()}


def decoded(task: Task, arrays: Arrays) -> Vector:
    """The update behind the arrays of an answer; raises ValueError with the reason if they make no sense."""
    for name, part in arrays.items():
        if part.dtype not in DTYPES or part.ndim != 1:
            raise ValueError(f"{name} is {part.dtype} {list(part.shape)}, not a row of short numbers")
    packed, coding = {name: torch.from_numpy(part.copy()) for name, part in arrays.items()}, coding_of(task)
    try:
        found: Vector = coding.decode(coding.unpack(packed, task.n_params), task.n_params).numpy()
    except (KeyError, RuntimeError, IndexError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    return found
