"""Run methods of fedcell on real devices with Flower.

Names are loaded on first use; they need the extra `flower`.
"""

from importlib import import_module
from typing import Any

_HOME = {"Strategy": "strategy", "client_app": "client", "server_app": "flower", "server_data": "remote"}

__all__ = ["Strategy", "client_app", "server_app", "server_data"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedcell.deploy' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
