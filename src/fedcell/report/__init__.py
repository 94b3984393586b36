"""Tables and figures, made from records alone."""

from .figure import draw, save
from .summary import Summary, as_json, summarise
from .table import human, remarks, rich_table, text

__all__ = ["Summary", "as_json", "draw", "human", "remarks", "rich_table", "save", "summarise", "text"]
