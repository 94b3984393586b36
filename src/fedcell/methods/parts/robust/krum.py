"""Krum and multi-Krum: the updates that are nearest to most others. Not a method itself: it has no `build`.

With `f` wrong ones of `n`, the score of an update is the sum of its `n - f - 2` smallest squared distances to the
others. Krum keeps the update of the lowest score, multi-Krum the `m` lowest.

Reference: Blanchard et al., Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent, 2017.
"""

import numpy as np
import torch
from torch import Tensor

from ....types import Bools


def kept_by_krum(rows: Tensor, n_wrong: int, n_kept: int) -> Bools:
    """Which rows of `[n_rows, n_params]` are averaged; `n_kept` of 0 stands for all but the wrong ones."""
    n = len(rows)
    n_near = max(n - n_wrong - 2, 1)
    squared = torch.cdist(rows.double(), rows.double(), compute_mode="donot_use_mm_for_euclid_dist") ** 2
    squared.fill_diagonal_(torch.inf)  # nobody is near itself
    score = squared.sort(dim=1).values[:, : min(n_near, n - 1)].sum(dim=1).cpu().numpy()
    chosen = np.argsort(score, kind="stable")[: min(n_kept or max(n - n_wrong, 1), n)]
    kept = np.zeros(n, dtype=np.bool_)
    kept[chosen] = True
    return kept
