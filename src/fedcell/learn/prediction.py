"""Predictions: class probabilities of one input per device, by the model of that device."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from ..machine import precision
from ..types import Floats, Start
from .architecture import Architecture
from .learner import Learner


@lru_cache(maxsize=4)
def network(architecture: Architecture, device: torch.device) -> nn.Module:
    """A copy of the network for predictions, kept between rounds."""
    return architecture.replica(device).eval()


@torch.no_grad()
def probabilities(learner: Learner, start: Start, x: Tensor) -> Floats:
    """Softmax scores of one input per device, `[n_devices, n_classes]`.

    Args:
        learner: has the networks, and knows which device has which.
        start: the model of every device, as `broadcast` gives it if all are selected.
        x: one input per device, `[n_devices, ...]`.
    """
    kinds = learner.kinds(np.arange(len(x)))
    nets = [network(one, learner.device) for one in learner.architectures]
    rows, scores = [], []
    for kind, point in sorted(set(zip(kinds.tolist(), start.of_row.tolist(), strict=True))):
        of_point = np.flatnonzero((kinds == kind) & (start.of_row == point))
        for part in [of_point] if start.own is None else np.split(of_point, len(of_point)):
            own = None if start.own is None else start.own[part[0]]
            learner.architectures[kind].load(nets[kind], start.points[point], own)
            rows.append(part)
            with precision(learner.settings.tf32):
                scores.append(nets[kind](x[torch.from_numpy(part).to(x.device)]))
    found = torch.cat(scores).double().softmax(dim=1).cpu().numpy()
    return np.asarray(found[np.argsort(np.concatenate(rows))])
