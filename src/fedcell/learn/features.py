"""A network as feature extractor and predictor: everything before its last dense layer, and that layer.

Reference: chen-ch4, section 2.1
"""

import torch
from torch import Tensor, nn

from ..errors import BadInput
from .architecture import Architecture
from .norms import NORMS


def split(module: nn.Module) -> tuple[list[nn.Module], nn.Linear]:
    """The layers of the extractor, and the predictor."""
    if isinstance(module, nn.Sequential) and len(module) and isinstance(module[-1], nn.Linear):
        return list(module)[:-1], module[-1]
    raise BadInput(
        f"a {type(module).__name__} has no features to share: use a Sequential that ends with a dense layer (mlp, cnn)"
    )


def features(module: nn.Module, x: Tensor) -> Tensor:
    """The output of the extractor for samples, `[n_samples, n_features]`."""
    layers, _ = split(module)
    for layer in layers:
        x = layer(x)
    return x


def features_and_scores(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Features, and the scores of the predictor for them, in one pass."""
    h = features(module, x)
    return h, split(module)[1](h)


def feature_width(module: nn.Module) -> int:
    """Number of features of a sample."""
    return split(module)[1].in_features


def head_entries(architecture: Architecture, n_layers: int) -> Tensor:
    """Mask of the entries of the flat vector in the last dense layers and the norms behind them, bool `[n_params]`.

    Args:
        architecture: any network.
        n_layers: how many dense layers; at least one layer is left for the body, so a single layer is all body.
    """
    parts = dict(architecture.module.named_modules())
    owners: list[str] = []  # the layer of each parameter; of a norm, the layer before it
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
