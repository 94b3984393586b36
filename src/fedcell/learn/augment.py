"""Random crops and flips of images, drawn from the run's own streams, so that all engines see the same images.

A change of an image is a number: which crop, and whether it is flipped. Engines refer to samples by their
numbers, and the number of a changed sample is `sample + n_samples * change`, so no engine needs to know about changes.
"""

from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..errors import BadInput
from ..rng import uniforms
from ..types import Ints
from .samples import Samples
from .settings import TrainConfig


class Changes(NamedTuple):
    """Which changes there are: `padding` pixels around an image that is cropped to its size, and flips."""

    padding: int
    flips: bool

    @property
    def n(self) -> int:
        """How many changes there are, all equally likely."""
        return (2 * self.padding + 1) ** 2 * (2 if self.flips else 1)

    def draw(self, seed: int, round: int, device: Ints, place: Ints) -> Ints:
        """Draw a change for the sample at each place in the local steps of each device."""
        return (uniforms(seed, round, "augment", device, place) * self.n).astype(np.int64)

    def apply(self, x: Tensor, change: Tensor) -> Tensor:
        """Apply to each of the images `[n, channels, height, width]` its change."""
        height, width = x.shape[2:]
        n_shifts = 2 * self.padding + 1
        flipped, shift = change // n_shifts**2, change % n_shifts**2
        down = (shift // n_shifts)[:, None] + torch.arange(height, device=x.device)
        right = torch.arange(width, device=x.device).expand(len(x), -1)
        right = torch.where(flipped[:, None] > 0, width - 1 - right, right) + (shift % n_shifts)[:, None]
        padded = functional.pad(x, [self.padding] * 4) if self.padding else x
        rows = torch.arange(len(x), device=x.device)[:, None, None]
        cut = padded.permute(0, 2, 3, 1)[rows, down[:, :, None], right[:, None, :]]  # [n, height, width, channels]
        return cut.permute(0, 3, 1, 2)


class Augmented(Samples):
    """Samples whose numbers say how each is changed; they share the memory of the original samples."""

    changes: Changes

    @classmethod
    def of(cls, samples: Samples, settings: TrainConfig) -> Self | None:
        """The samples with the changes of `train.augment`; None if that is `none`."""
        if settings.augment == "none":
            return None
        if len(samples.shape) != 3:
            raise BadInput(
                f"train.augment = {settings.augment!r} needs images and samples have shape {samples.shape}: "
                "set train.augment=none"
            )
        found = cls.__new__(cls)
        vars(found).update(vars(samples))
        found.inputs = None  # they were equal only before they are changed
        crops = settings.augment != "flip"
        found.changes = Changes(settings.crop_padding if crops else 0, settings.augment != "crop")
        return found

    def at(self, index: Tensor) -> Tensor:
        return self.changes.apply(super().at(index % len(self)), index // len(self))

    def y_at(self, index: Tensor) -> Tensor:
        return super().y_at(index % len(self))
