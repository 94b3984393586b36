"""Functions that travel by name: a device has the function, and gets its name and first arguments. Needs no Flower."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadInput
from ..learn.work import KNOWN, full_name

METHODS = "fedcell.methods."  # modules that a device may load for a function of theirs


class Call(NamedTuple):
    """A function of `KNOWN` and its first arguments."""

    name: str
    given: tuple[float | NDArray[np.float32], ...]


def call_of(function: Callable[..., Tensor], what: str) -> Call:
    """Describe a function for devices; raises BadInput, saying `what` the method does with it, if they lack it."""
    name = full_name(function.func) if isinstance(function, partial) else ""
    if not isinstance(function, partial) or KNOWN.get(name) is not function.func or function.keywords:
        raise BadInput(f"this method {what} of its own, which devices do not have: choose another one")
    given = (one.detach().cpu().numpy() if isinstance(one, Tensor) else one for one in function.args)
    return Call(name, tuple(given))


def function_of(call: Call | None, device: torch.device) -> Any:
    """Return the function of a call with its arguments on `device`; None without a call."""
    if call is None:
        return None
    module = call.name.rpartition(".")[0]
    if call.name not in KNOWN and module.startswith(METHODS) and all(part.isidentifier() for part in module.split(".")):
        with suppress(ModuleNotFoundError):
            import_module(module)
    if call.name not in KNOWN:
        raise BadInput(f"this device knows no {call.name!r}: install the fedcell of the server")
    given = (torch.from_numpy(one.copy()).to(device) if isinstance(one, np.ndarray) else one for one in call.given)
    return partial(KNOWN[call.name], *given)
