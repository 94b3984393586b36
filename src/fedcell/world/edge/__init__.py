"""Edge servers: one per cell, with room for a few files; what they hold need not travel over the backhaul.

`rules/` has one file per placement. `stream.edge_stream` puts servers behind any stream of requests, `servers` has what
every server does.

Reference: rawhfl, section II-A (Figure 1)
"""

from .rules import MAY_KNOW, check_known, names
from .servers import Network, Servers, View
from .stream import Edge, EdgeMemory, Log, edge_stream

__all__ = [
    "MAY_KNOW",
    "Edge",
    "EdgeMemory",
    "Log",
    "Network",
    "Servers",
    "View",
    "check_known",
    "edge_stream",
    "names",
]
