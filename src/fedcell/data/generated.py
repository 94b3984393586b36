"""Data that are drawn instead of loaded: generators of samples and of the stream that brings them to devices."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ..learn.samples import Samples
from ..metrics import CLASSIFICATION
from ..types import Stream
from ..world import static_stream
from .characters import LETTERS, CharactersConfig, draw_corpus
from .scaling import UNIT, Scaling
from .video.problem import video_problem_parts
from .video.settings import VideoConfig


class Drawn(NamedTuple):
    """Samples and what else a problem needs to know of them."""

    train: Samples
    test: Samples
    stream: Stream  # how they reach devices
    n_classes: int  # or labels, targets or tokens
    scaling: Scaling  # of inputs
    task: str = CLASSIFICATION


def video(settings: VideoConfig, n_devices: int, n_rounds: int, seed: int, device: torch.device) -> Drawn:
    """Draw the samples of video requests, and their stream."""
    parts = video_problem_parts(settings, n_devices, n_rounds, seed, device)
    return Drawn(parts.train, parts.test, parts.stream, parts.n_classes, parts.catalogue.scaling)


def characters(settings: CharactersConfig, n_devices: int, n_rounds: int, seed: int, device: torch.device) -> Drawn:
    """Draw texts of authors, one per device."""
    found = draw_corpus(settings, n_devices, seed)
    train = Samples(found.x_train.astype(np.float32), found.y_train, device)
    test = Samples(found.x_test.astype(np.float32), found.y_test, device)
    return Drawn(train, test, static_stream(found.store), len(LETTERS), UNIT, "next-token")


# By `data.name`, which is also the section of the settings: settings, devices, rounds, seed, device -> samples.
GENERATORS: Mapping[str, Callable[[Any, int, int, int, torch.device], Drawn]] = {
    "video": video,
    "characters": characters,
}
