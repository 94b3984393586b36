"""Layers that normalise: by the statistics of a batch, or of groups of channels of each sample.

Norms of built-in networks keep no running statistics: with `BatchNorm`, the scores of a sample depend on the batch that
it is in, in training and in evaluation. `RunningNorm` replaces PyTorch's batch norms that keep them, and `GroupNorm`
its group norms.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

EPS = 1e-5  # added to variances
CHANNELS, GROUPS = 4, 32  # least channels of a group, most groups of a layer
ALONE = 0.75  # share in a batch above which a sample must be the only one
BUILT_IN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def norm(kind: str, n_channels: int) -> list[nn.Module]:
    """The norm of a layer with so many outputs, as `model.norm` says: one layer, or none."""
    if kind == "none":
        return []
    return [BatchNorm(n_channels) if kind == "batch" else nn.GroupNorm(n_groups(n_channels), n_channels, EPS)]


def n_groups(n_channels: int) -> int:
    """The largest number of groups, up to 32, that divides the channels and leaves 4 or more in each if possible.

    >>> [n_groups(n) for n in (1, 6, 7, 12, 16, 64, 512)]
    [1, 1, 1, 3, 4, 16, 32]
    """
    most = max(1, min(GROUPS, n_channels // CHANNELS))
    return next(n for n in range(most, 0, -1) if n_channels % n == 0)


class BatchNorm(nn.Module):
    """`gamma (x - mean) / sqrt(variance + eps) + beta`, mean and variance of every channel over the batch at hand.

    A channel of a single value, such as a dense unit in a batch of one sample, has no variance: it is passed on as
    `gamma x + beta`.
    """

    weight: nn.Parameter | None  # None, like the bias, in a user's layer without scale and shift
    bias: nn.Parameter | None
    share: Tensor | None = None  # [n], weight of each sample in the statistics; None: all alike

    def __init__(self, num_features: int, eps: float = EPS, device: torch.device | None = None) -> None:
        super().__init__()
        self.num_features, self.eps = num_features, eps
        self.weight = nn.Parameter(torch.ones(num_features, device=device))
        self.bias = nn.Parameter(torch.zeros(num_features, device=device))

    def forward(self, x: Tensor) -> Tensor:
        x = _wide(x)
        if self.share is not None:
            return self._weighted(x, self.share)
        if x.numel() == x.shape[1]:
            return self._affine(x)
        return functional.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)

    def _weighted(self, x: Tensor, share: Tensor) -> Tensor:
        mean, variance = moments(x, share)
        found = (x - mean) * (variance + self.eps).rsqrt()
        if x[0, 0].numel() == 1:
            found = torch.where(share.amax() > ALONE, x, found)  # one sample, and padding
        return self._affine(found)

    def _affine(self, x: Tensor) -> Tensor:
        if self.weight is None or self.bias is None:
            return x
        per_channel = (1, -1, *[1] * (x.dim() - 2))
        return x * self.weight.view(per_channel) + self.bias.view(per_channel)

    def extra_repr(self) -> str:
        return f"{self.num_features}"


class RunningNorm(_BatchNorm):
    """PyTorch's batch norm with running statistics, for any number of axes and for padded batches.

    Training normalises by the batch and moves `running <- (1 - momentum) running + momentum batch`, with the unbiased
    variance; evaluation uses what is running. A channel of a single value has no variance: PyTorch refuses it, here it
    is normalised as in evaluation and moves nothing.
    """

    share: Tensor | None = None  # [n], weight of each sample in the statistics; None: all alike

    def forward(self, x: Tensor) -> Tensor:
        x = _wide(x)
        if self.training and self.share is not None:
            return self._weighted(x, self.share)
        moving = self.training and x.numel() > x.shape[1]
        return self._normalised(x, moving)

    def _normalised(self, x: Tensor, moving: bool) -> Tensor:
        rate = self.momentum if moving else 0.0
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, moving, rate or 0.0, self.eps
        )

    def _weighted(self, x: Tensor, share: Tensor) -> Tensor:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        mean, variance = moments(x, share)
        n = x[0, 0].numel() / share.amax()  # values of a channel: every real sample has the same share
        alone = n < 1 / ALONE
        before, spread = (part.clone().view(mean.shape) for part in (self.running_mean, self.running_var))
        mean = torch.where(alone, before, mean)
        found = (x - mean) * (torch.where(alone, spread, variance) + self.eps).rsqrt()
        unbiased = torch.where(alone, spread, variance * n / (n - 1).clamp(min=ALONE))
        for running, now in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.add_(now.detach().reshape(-1) - running, alpha=self.momentum)
        if not self.affine:
            return found
        return found * self.weight.view(mean.shape) + self.bias.view(mean.shape)


class GroupNorm(nn.GroupNorm):
    """PyTorch's group norm, whose backward pass on a CPU crashes on channels-last images that need no gradient."""

    def forward(self, x: Tensor) -> Tensor:
        alone = x.is_cpu and torch.is_grad_enabled() and not x.requires_grad
        return super().forward(x.clone(memory_format=torch.contiguous_format) if alone else x)


def _wide(x: Tensor) -> Tensor:
    """Convert bfloat16 values (`train.bf16`) to float32, in which statistics are computed."""
    return x.float() if x.dtype == torch.bfloat16 else x


def moments(x: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of every channel, `[1, n_channels, 1, ...]`, samples counting by their share, `[n]`."""
    per_sample, every = (-1, *[1] * (x.dim() - 1)), (0, *range(2, x.dim()))
    weight = share.view(per_sample) / x[0, 0].numel()
    mean = (x * weight).sum(every, keepdim=True)
    return mean, ((x - mean).square() * weight).sum(every, keepdim=True)


NORMS = (BatchNorm, RunningNorm, GroupNorm, nn.LayerNorm)


def adopt(module: nn.Module) -> None:
    """Turn PyTorch's batch and group norms into ours, in place; nobody else may use the module."""
    for part in module.modules():
        if type(part) in BUILT_IN:
            part.__class__ = BatchNorm if getattr(part, "running_mean", None) is None else RunningNorm
        elif type(part) is nn.GroupNorm:
            part.__class__ = GroupNorm


def batch_norms(module: nn.Module) -> list[BatchNorm]:
    """The batch norms of a module that keep no running statistics."""
    return [part for part in module.modules() if isinstance(part, BatchNorm)]


def padded_norms(module: nn.Module) -> list[BatchNorm | RunningNorm]:
    """The norms of a module that must not count padding in their statistics."""
    return [part for part in module.modules() if isinstance(part, BatchNorm | RunningNorm)]


@contextmanager
def counting(norms: Sequence[BatchNorm | RunningNorm], share: Tensor) -> Iterator[None]:
    """Inside the context, norms weigh samples by their share, `[n]`, which sums to one and is zero on padding."""
    for part in norms:
        part.share = share
    try:
        yield
    finally:
        for part in norms:
            part.share = None
