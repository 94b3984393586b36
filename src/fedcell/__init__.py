"""Federated learning on battery devices behind radio channels: accuracy, seconds and joules.

Names are loaded on first use, so that `import fedcell` costs nothing.
"""

from importlib import import_module
from typing import Any

from .version import __version__

_HOME = {  # public name -> where it lives
    "Config": "scenarios",
    "Decision": "types",
    "Method": "types",
    "Problem": "types",
    "Round": "types",
    "StreamingCache": "world",
    "build_problem": "scenarios",
    "compare": "report",
    "from_arrays": "data",
    "read": "record",
    "report": "",
    "resume": "record",
    "run": "api",
    "sweep": "sweeps",
    "tune": "tuning",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedcell' has no attribute {name!r}")
    if not _HOME[name]:
        return import_module(f".{name}", __name__)
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
