"""Prepare a learner: pick its device, build a network with a random start, and check that it fits the samples."""

from collections.abc import Callable
from warnings import warn

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import BadInput, Notice, in_short
from ..machine import one_thread
from ..metrics import CLASSIFICATION
from ..rng import SETUP, stream
from ..types import Ints
from . import streams
from .architecture import Architecture
from .samples import Samples
from .tasks import LEARNED

EMBEDDINGS = nn.Embedding, nn.EmbeddingBag


def pick_device(wanted: str) -> torch.device:
    """The training device of a `train.device` setting."""
    present = torch.cuda.is_available()
    if wanted == "cuda" and not present:
        raise BadInput("train.device = 'cuda' but this machine shows no CUDA GPU: use 'cpu' or 'auto'")
    return torch.device("cuda" if present and wanted != "cpu" else "cpu")


def initialise(build: Callable[[], nn.Module], seed: int, purpose: str = "model") -> nn.Module:
    """Call a model builder, with all random streams seeded by (seed, purpose)."""
    with streams.lent():
        streams.begin(int(stream(seed, SETUP, purpose).integers(2**63)))
        return build()


def check_fits(architecture: Architecture, samples: Samples, n_outputs: int, task: str = CLASSIFICATION) -> None:
    """Refuse a model that cannot read the samples or has too few outputs for them, and warn of too many."""
    x, y = samples.take(_telling(architecture, samples))
    model = architecture.replica(samples.y.device).eval()
    for name, parameter in model.named_parameters():
        if not parameter.numel():
            raise BadInput(f"the model has {name!r} of shape {tuple(parameter.shape)}: give it at least one number")
        if not torch.isfinite(torch.stack(torch.aminmax(parameter.detach()))).all():
            raise BadInput(f"the model begins with numbers in {name!r} that are not finite: give it a finite start")
    try:
        with torch.enable_grad(), one_thread():  # threads take longer to start than two samples to pass
            scores = model(x)
    except Exception as error:  # whatever the code of a user raises
        raise BadInput(
            f"the model cannot read samples of shape {samples.shape} ({in_short(error)}): change the model or the data"
        ) from error
    rows = "one row of class scores per sample" if task == CLASSIFICATION else "one row of numbers per sample"
    if task == "next-token":
        rows = "one row of scores per token of a sample"
    n_axes = LEARNED[task].n_axes
    if not isinstance(scores, Tensor) or scores.dim() != n_axes or scores.shape[:-1] != y.shape[: n_axes - 1]:
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise BadInput(f"the model gives {shape} for {len(x)} samples: it must give {rows}")
    if not scores.requires_grad:
        raise BadInput(
            "the model gives scores that no trained parameter has a part in: leave out detach() and no_grad() in its "
            "forward()"
        )
    named = {CLASSIFICATION: "labels name {} classes", "multi-label": "data has {} labels"}
    named |= {"regression": "data has {} targets", "next-token": "data has {} tokens"}
    found = f"the model has {scores.shape[-1]} outputs but the {named[task].format(n_outputs)}"
    if scores.shape[-1] < n_outputs:
        raise BadInput(f"{found}: widen its last layer")
    if scores.shape[-1] > n_outputs and task != "next-token":  # a vocabulary may have more tokens than the texts
        warn(f"{found}: narrow its last layer unless the others are meant to stay unused", Notice, stacklevel=3)


def _telling(architecture: Architecture, samples: Samples) -> Ints:
    """Two samples; for a model with embeddings, those with the smallest and the largest token as well."""
    first = np.arange(min(2, len(samples)))
    embeds = any(isinstance(part, EMBEDDINGS) for part in architecture.module.modules())
    if type(samples) is not Samples or not len(samples) or not embeds:
        return first
    per_sample = samples.rows.reshape(len(samples), -1)
    extremes = int(per_sample.amin(dim=1).argmin()), int(per_sample.amax(dim=1).argmax())
    return np.unique([*first, *extremes])
