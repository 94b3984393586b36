"""What models say of inputs: class probabilities, each input put to the model of its own device."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from ..types import Floats, Start
from .architecture import Architecture, trainable
from .learner import Learner, precision


@lru_cache(maxsize=4)
def network(architecture: Architecture, device: torch.device) -> nn.Module:
    """A copy of the network that predictions are made with, kept between rounds."""
    return architecture.replica(device).eval()


@torch.no_grad()
def probabilities(learner: Learner, start: Start, x: Tensor) -> Floats:
    """Softmax scores of one input per device, `[n_devices, n_classes]`.

    Args:
        learner: networks, and which device has which.
        start: the model of every device, as `broadcast` gives it if all are selected.
        x: one input per device, `[n_devices, ...]`.
    """
    kinds = learner.kinds(np.arange(len(x)))
    nets = [network(one, learner.device) for one in learner.architectures]
    rows, scores = [], []
    for kind, point in sorted(set(zip(kinds.tolist(), start.of_row.tolist(), strict=True))):
        values = learner.architectures[kind].views(start.points[point])
        for parameter, value in zip(trainable(nets[kind]), values, strict=True):
            parameter.copy_(value)
        rows.append(np.flatnonzero((kinds == kind) & (start.of_row == point)))
        with precision(learner.settings.tf32):
            scores.append(nets[kind](x[torch.from_numpy(rows[-1]).to(x.device)]))
    found = torch.cat(scores).double().softmax(dim=1).cpu().numpy()
    return np.asarray(found[np.argsort(np.concatenate(rows))])
