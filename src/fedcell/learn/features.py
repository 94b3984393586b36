"""A network as feature extractor and predictor: everything before its last dense layer, and that layer.

Reference: chen-ch4, section 2.1
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import BadInput
from .architecture import Architecture
from .norms import NORMS
from .work import known_to_devices


def split(module: nn.Module) -> tuple[list[nn.Module], nn.Linear]:
    """The layers of the extractor, and the predictor."""
    if isinstance(module, nn.Sequential) and len(module) and isinstance(module[-1], nn.Linear):
        return list(module)[:-1], module[-1]
    raise BadInput(
        f"a {type(module).__name__} has no features to share: use a Sequential that ends with a dense layer (mlp, cnn)"
    )


def features(module: nn.Module, x: Tensor) -> Tensor:
    """What the extractor makes of samples, `[n_samples, n_features]`."""
    layers, _ = split(module)
    for layer in layers:
        x = layer(x)
    return x


def features_and_scores(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Features, and what the predictor makes of them, in one pass."""
    h = features(module, x)
    return h, split(module)[1](h)


def feature_width(module: nn.Module) -> int:
    """Number of features of a sample."""
    return split(module)[1].in_features


@torch.no_grad()
def class_means(module: nn.Module, x: Tensor, y: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Mean features of the samples of each class, and how many there are.

    `Omega_c = (1 / D_c) sum h(x)` over the samples of class `c`; zero for a class without samples.

    Args:
        module: a network that `split` takes.
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


def head_entries(architecture: Architecture, n_layers: int) -> Tensor:
    """Which entries of the flat vector belong to the last dense layers and the norms behind them, bool `[n_params]`.

    Args:
        architecture: of any kind.
        n_layers: so many of them; one layer at least is left for the body, so a single layer is all body.
    """
    parts = dict(architecture.module.named_modules())
    owners: list[str] = []  # of every parameter: its layer, or the one before its norm
    for name in architecture.names:
        layer = name.rpartition(".")[0]
        owners.append(owners[-1] if owners and isinstance(parts[layer], NORMS) else layer)
    dense = [layer for layer in dict.fromkeys(owners) if isinstance(parts[layer], nn.Linear)]
    head = dense[max(len(dense) - n_layers, 1 if len(dense) == len(set(owners)) else 0) :]
    mask = torch.zeros(architecture.n_params, dtype=torch.bool)
    ends = [*architecture.offsets[1:], architecture.n_params]
    for layer, first, last in zip(owners, architecture.offsets, ends, strict=True):
        mask[first:last] = layer in head
    return mask
