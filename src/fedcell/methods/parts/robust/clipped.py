"""Norm bound: no update is longer than a multiple of the median length. Not a method itself: it has no `build`.

Reference: Sun et al., Can You Really Backdoor Federated Learning?, 2019.
"""

import torch
from torch import Tensor


def clipped(rows: Tensor, times: float) -> Tensor:
    """Rows `[n_rows, n_params]`, the long ones shortened to `times` the median length of all."""
    length = torch.linalg.vector_norm(rows.double(), dim=1)
    limit = times * length.quantile(0.5)
    factor = torch.where(length > limit, limit / length.clamp(min=torch.finfo(torch.float64).tiny), 1.0)
    return rows * factor.to(rows.dtype)[:, None]
