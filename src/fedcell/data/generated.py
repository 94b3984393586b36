"""Data that are drawn instead of loaded: worlds that bring their own samples and the stream that they come in."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..learn.samples import Samples
from ..types import Stream
from .scaling import Scaling
from .video.problem import video_problem_parts
from .video.settings import VideoConfig

# To train on, to test on, how they reach devices, the number of classes, how inputs are scaled.
Drawn = tuple[Samples, Samples, Stream, int, Scaling]


def video(settings: VideoConfig, n_devices: int, n_rounds: int, seed: int, device: torch.device) -> Drawn:
    """Video requests."""
    parts = video_problem_parts(settings, n_devices, n_rounds, seed, device)
    return parts.train, parts.test, parts.stream, parts.n_classes, parts.catalogue.scaling


# By `data.name`, which is also the section of the settings: settings, devices, rounds, seed, device -> samples.
GENERATORS: Mapping[str, Callable[[Any, int, int, int, torch.device], Drawn]] = {"video": video}
