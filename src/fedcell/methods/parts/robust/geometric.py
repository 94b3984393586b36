"""The geometric median: the point with the least sum of distances. Not a method itself: it has no `build`.

Weiszfeld's iteration: `z <- sum_k x_k / d_k / sum_k 1 / d_k` with `d_k = ||x_k - z||`, at least a millionth of the
median distance, so that a point that it meets does not stop it.

Reference: Pillutla, Kakade, Harchaoui, Robust Aggregation for Federated Learning, 2022.
"""

import torch
from torch import Tensor

STEPS = 200
CLOSE = 1e-9  # relative change at which the iteration ends


def geometric_median(rows: Tensor) -> Tensor:
    """The geometric median of the rows of `[n_rows, n_params]`."""
    points = rows.double()
    centre = points.median(dim=0).values
    for _ in range(STEPS):
        distance = torch.linalg.vector_norm(points - centre, dim=1)
        weight = 1 / distance.clamp(min=max(1e-6 * float(distance.median()), 1e-30))
        after = (weight / weight.sum()) @ points
        moved, size = torch.linalg.vector_norm(after - centre), torch.linalg.vector_norm(after)
        centre = after
        if moved <= CLOSE * size:
            break
    return centre.to(rows.dtype)
