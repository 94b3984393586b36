"""Find models that change while they are used before the first round, and refuse each with a message."""

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import BadInput, in_short
from ..machine import one_thread
from . import streams
from .architecture import Architecture
from .samples import Samples

Shapes = dict[str, tuple[int, ...]]


@torch.no_grad()
def check_steady(architecture: Architecture, samples: Samples, buffers: str) -> None:
    """Refuse a model that changes shape when it is called in training, or moves what `model.buffers` froze."""
    module, (x, _) = architecture.replica(samples.y.device), samples.take(np.arange(min(2, len(samples))))
    before, values = shapes(module), {name: part.clone() for name, part in module.named_buffers()}
    with one_thread(), streams.lent(x.device):
        try:
            found = [tuple(scores.shape) for scores in (module(x), module(x))]
        except Exception as error:  # whatever the code of a user raises
            raise BadInput(
                f"the model cannot be trained on samples of shape {samples.shape} ({in_short(error)}): "
                "change the model or the data"
            ) from error
    after = shapes(module)
    names = [name for name in before | after if before.get(name) != after.get(name)]
    changed = [(name, before.get(name), after.get(name)) for name in names]
    if found[0] != found[1]:
        changed.append(("its output", found[0], found[1]))
    if changed:
        name, was, now = changed[0]
        raise BadInput(
            f"the model changes shape when it is called ({name}: {was}, then {now}): give it all its parameters and "
            "buffers when it is built, and the same outputs in every call"
        )
    moved = [name for name, part in module.named_buffers() if not torch.equal(part, values[name])]
    if buffers == "frozen" and moved:
        raise BadInput(
            f"model.buffers = 'frozen' but the model moves its buffer {moved[0]!r} in training: use average or local"
        )


def shapes(module: nn.Module) -> Shapes:
    """The shape of every parameter and buffer, by name."""
    named: list[tuple[str, Tensor]] = [*module.named_parameters(), *module.named_buffers()]
    return {name: tuple(part.shape) for name, part in named}
