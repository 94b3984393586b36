"""The world a federation lives in: places, channels, hardware, answers, streams of samples, caches."""

from .build import build_world, observe, serve, settle, start
from .stores import static_stream
from .streaming_cache import StreamingCache
from .streams import Source, binomial_stream, markov_stream, streaming

__all__ = [
    "Source",
    "StreamingCache",
    "binomial_stream",
    "build_world",
    "markov_stream",
    "observe",
    "serve",
    "settle",
    "start",
    "static_stream",
    "streaming",
]
