"""Kernels in Triton, which comes with PyTorch for GPUs. Without Triton, plain PyTorch operations are used."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch


def kernels(name: str, device: torch.device) -> Any:
    """Import a module of kernels by name; None if the device is no GPU or Triton is missing."""
    return _loaded(name) if device.type == "cuda" else None


@cache
def _loaded(name: str) -> Any:
    return import_module(f".{name}", __package__) if find_spec("triton") else None


def at_once(channels: int) -> int:
    """How many channels a kernel reads and writes at once: a number known at compile time that divides them all."""
    return next(n for n in (4, 2, 1) if channels % n == 0)
