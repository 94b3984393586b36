"""Recorded runs: an append-only folder per method that survives a kill, a full disk and a power cut."""

from .drive import Progress, Watch, execute, resume, silent
from .folder import Record, Status, how_to_resume, made_by, read, read_all
from .recorder import Period

__all__ = [
    "Period",
    "Progress",
    "Record",
    "Status",
    "Watch",
    "execute",
    "how_to_resume",
    "made_by",
    "read",
    "read_all",
    "resume",
    "silent",
]
