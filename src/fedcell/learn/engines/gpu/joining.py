"""Keep images channels last when a network joins them along their channels, as convolutions need them.

Batched over models, `torch.cat` writes its result channels first. Every convolution behind it, and the backward pass to
those before it, would have to rearrange the images.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

JOINS = (torch.cat, torch.concat, torch.concatenate)


class ChannelsLast(TorchFunctionMode):
    """Inside the context, batches of images that are joined along channels stay channels last in memory."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in JOINS and not set(given) - {"dim"} and 0 < len(args) < 3:
            parts, dim = args[0], given.get("dim", args[1] if len(args) > 1 else 0)
            if dim in (1, -3) and all(isinstance(part, Tensor) and part.dim() == 4 for part in parts):
                return torch.cat([part.movedim(1, -1) for part in parts], dim=-1).movedim(-1, 1)
        return func(*args, **given)
