"""Recorded runs: an append-only folder per method that survives a kill, a full disk and a power cut.

Names are loaded on first use: reading what a run achieved needs no PyTorch, running does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .drive import execute, resume, run_one
    from .folder import Status, how_to_resume, made_by
    from .home import export, load_model
    from .index import RunInfo, as_json, find
    from .playing import Failed, Progress, Watch, silent
    from .reading import Record, read, read_all, summarise
    from .recorder import Period

_HOME = {  # public name -> where it lives
    "Failed": "playing",
    "Period": "recorder",
    "Progress": "playing",
    "Record": "reading",
    "RunInfo": "index",
    "Status": "folder",
    "Watch": "playing",
    "as_json": "index",
    "execute": "drive",
    "export": "home",
    "find": "index",
    "how_to_resume": "folder",
    "load_model": "home",
    "made_by": "folder",
    "read": "reading",
    "read_all": "reading",
    "resume": "drive",
    "run_one": "drive",
    "silent": "playing",
    "summarise": "reading",
}

__all__ = [
    "Failed",
    "Period",
    "Progress",
    "Record",
    "RunInfo",
    "Status",
    "Watch",
    "as_json",
    "execute",
    "export",
    "find",
    "how_to_resume",
    "load_model",
    "made_by",
    "read",
    "read_all",
    "resume",
    "run_one",
    "silent",
    "summarise",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
