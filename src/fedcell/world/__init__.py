"""The world a federation lives in: places, channels, hardware, answers, streams of samples, caches."""

from .build import build_world, observe, settle, start
from .caches import StreamingCache
from .stores import static_stream
from .streams import LabelStream, Source, binomial_stream, markov_stream, streaming

__all__ = [
    "LabelStream",
    "Source",
    "StreamingCache",
    "binomial_stream",
    "build_world",
    "markov_stream",
    "observe",
    "settle",
    "start",
    "static_stream",
    "streaming",
]
