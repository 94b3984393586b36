"""Search for the settings that reach a target at the least cost: trials are sweeps, and a search is resumable."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .search import Tuning, tune

_HOME = {"Tuning": "search", "tune": "search"}  # public name -> where it lives

__all__ = ["Tuning", "tune"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
