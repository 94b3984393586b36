"""The world a federation lives in: places, channels, hardware, answers, stores."""

from .build import build_world, observe, settle, start
from .stores import static_stream

__all__ = ["build_world", "observe", "settle", "start", "static_stream"]
