"""Federated learning on battery devices behind radio channels: accuracy, seconds and joules.

Names are loaded on first use, so that `import fedcell` costs nothing.
"""

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from .version import __version__

if TYPE_CHECKING:  # what type checkers see; at run time `_HOME` says where names live
    from . import report as report
    from .api import explain_engine as explain_engine
    from .api import run as run
    from .data import Dataset as Dataset
    from .data import from_arrays as from_arrays
    from .data import from_huggingface as from_huggingface
    from .data import from_torch as from_torch
    from .record import Record as Record
    from .record import export as export
    from .record import load_model as load_model
    from .record import read as read
    from .record import resume as resume
    from .report import compare as compare
    from .scenarios import Config as Config
    from .scenarios import build_problem as build_problem
    from .sweeps import sweep as sweep
    from .tuning import tune as tune
    from .types import Decision as Decision
    from .types import Method as Method
    from .types import Problem as Problem
    from .types import Round as Round
    from .world import StreamingCache as StreamingCache

_HOME = {  # public name -> where it lives
    "Config": "scenarios",
    "Dataset": "data",
    "Decision": "types",
    "Method": "types",
    "Problem": "types",
    "Record": "record",
    "Round": "types",
    "StreamingCache": "world",
    "build_problem": "scenarios",
    "compare": "report",
    "explain_engine": "api",
    "export": "record",
    "from_arrays": "data",
    "from_huggingface": "data",
    "from_torch": "data",
    "load_model": "record",
    "read": "record",
    "report": "",
    "resume": "record",
    "run": "api",
    "sweep": "sweeps",
    "tune": "tuning",
}

__all__ = [*_HOME, "__version__"]


if not TYPE_CHECKING:  # a name that is not there is an error to type checkers, too

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"module 'fedcell' has no attribute {name!r}")
        return getattr(_module(_HOME[name]), name) if _HOME[name] else _module(name)


def _module(name: str) -> ModuleType:
    """Import a module of this package, with garbage collection off.

    Importing PyTorch creates very many objects that stay alive. Searching them for garbage would slow down this import
    and later ones, so they move to the oldest generation, which Python searches least often, without a search.
    """
    if f"{__name__}.{name}" in sys.modules or not gc.isenabled() or gc.get_freeze_count():
        return import_module(f".{name}", __name__)
    gc.disable()
    try:
        return import_module(f".{name}", __name__)
    finally:
        gc.freeze()
        gc.unfreeze()
        gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
