"""What devices with different networks share: the mean features of each class, and the loss that they pull on.

Not a method itself: it has no `build`.

Reference: chen-ch4, sections 2.1 and 3
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import BadInput
from ...learn.features import feature_width, features, features_and_scores
from ...learn.work import Report, known_to_devices
from ...types import Bools, Ints, Observation, Problem
from ..parts.classes import n_classes_of


def knowledge_width(problem: Problem) -> int:
    """Features of a sample, the same for every network."""
    widths = {feature_width(one.module) for one in problem.learner.architectures}
    if len(widths) > 1:
        raise BadInput(f"networks have {sorted(widths)} features: give all the same width before the last layer")
    return widths.pop()


def payload_bit(problem: Problem) -> float:
    """Bits of an upload: one mean per class and feature, whatever the network and the classes that a device holds."""
    return n_classes_of(problem) * knowledge_width(problem) * problem.world.settings.bits_per_parameter


def pull_strength(pull: float, scale: str, n_features: int) -> float:
    """Convert a pull given on some scale to the `lambda` of `pulled_loss`.

    Eq. (4.6) is `(1 / D_k) sum ||h - Omega||^2 / 2` over samples, while `nn.MSELoss` is the mean over samples and
    features, `(1 / (D_k p)) sum ||h - Omega||^2`: the second with `lambda` is the first with `2 lambda / p`.

    Args:
        pull: `lambda`.
        scale: `sum` as in Eq. (4.6), `mean` as in `nn.MSELoss`.
        n_features: `p`.

    >>> pull_strength(1.0, "mean", 64)
    0.03125
    """
    # Deviation: Eq. (4.6) is a sum; with lambda = 1 and 64 features it outweighs the loss, so that the mean is default
    return pull * {"sum": 1.0, "mean": 2.0 / n_features}[scale]


@torch.no_grad()
def class_means(module: nn.Module, x: Tensor, y: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Mean features of the samples of each class, and how many there are.

    `Omega_c = (1 / D_c) sum h(x)` over the samples of class `c`; zero for a class without samples.

    Args:
        module: a network that `learn.features.split` accepts.
        x, y: samples and their labels, `[n_samples, ...]` and `[n_samples]`.
        n_classes: labels are below it.

    Returns: `[n_classes, n_features]` and `[n_classes]`.

    Reference: chen-ch4, Eq. (4.4)
    """
    h = features(module, x)
    of_class = (y == torch.arange(n_classes, device=y.device)[:, None]).to(h.dtype)  # a product is the same every time
    count = of_class.sum(1)
    return of_class @ h / count.clamp(min=1)[:, None], count


@known_to_devices
def flat_class_means(n_classes: int, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """`class_means` of a network as one row, `[n_classes * n_features]`."""
    return class_means(module, x, y, n_classes)[0].flatten()


@known_to_devices
def pulled_loss(
    pull: float, knowledge: Tensor, known: Tensor, module: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None
) -> Tensor:
    """`F_k + lambda L_k`, with samples of classes never heard of left out of `L_k`.

    Reference: chen-ch4, Eqs. (4.6)-(4.8)
    """
    h, scores = features_and_scores(module, x)
    away = 0.5 * (h - knowledge[y]).square().sum(1) * known[y]
    each = functional.cross_entropy(scores, y, reduction="none") + pull * away
    return each.mean() if weight is None else (each * weight).sum()


def class_mean_report(problem: Problem) -> Report:
    """What a device reports of its model: the class means of the samples it holds, flat."""
    return partial(flat_class_means, n_classes_of(problem))


def means_of(problem: Problem, models: Tensor, device: Ints, observation: Observation) -> Tensor:
    """Class means of some devices on what they hold, `[n_rows, n_classes, n_features]`."""
    store = observation.store.of(device)
    rows = problem.learner.reports(class_mean_report(problem), models, device, store)
    return rows.view(len(device), n_classes_of(problem), knowledge_width(problem))


def merged(means: Tensor, counts: Ints, before: Tensor, known: Bools) -> tuple[Tensor, Bools]:
    """The server's class means: `sum_k D_kc Omega_kc / sum_k D_kc` over the uploads; a class without any stays.

    Args:
        means: `[n_uploads, n_classes, n_features]`.
        counts: `[n_uploads, n_classes]`, samples behind them, `D_kc`.
        before: `[n_classes, n_features]`.
        known: `[n_classes]`, classes heard of before.

    Returns: the new means, and the classes heard of by now.

    Reference: chen-ch4, Eq. (4.9)
    """
    total = counts.sum(axis=0)
    share = torch.from_numpy((counts / np.maximum(total, 1)).astype(np.float32)).to(means.device)
    heard = torch.from_numpy(total > 0).to(means.device)[:, None]
    return torch.where(heard, torch.einsum("kc,kcp->cp", share, means), before), known | (total > 0)


def missed_knowledge(counts: Ints, scheduled: Bools) -> float:
    """`(C / D) sum_k (1 / D_k) sum_c D_kc^2 (1 - sum_{j in S} D_jc / D_c)^2`: 0 if everybody is heard.

    Args:
        counts: `[n_devices, n_classes]`, `D_kc`.
        scheduled: `[n_devices]`, `S`.

    Reference: chen-ch4, Eq. (B.21)
    """
    of_class, of_device = counts.sum(axis=0), counts.sum(axis=1)
    gap = 1 - counts[scheduled].sum(axis=0) / np.maximum(of_class, 1)
    each = (counts**2 * gap**2).sum(axis=1) / np.maximum(of_device, 1)
    return float(counts.shape[1] / max(int(counts.sum()), 1) * each.sum())
