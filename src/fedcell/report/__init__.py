"""Tables and figures, made only from records."""

from ..record import as_json, summarise
from .comparison import Comparison, Group, Measure, compare
from .figure import check_figure, draw, draw_comparison, save, save_comparison
from .latex import comparison_latex
from .paired import Difference, Estimate
from .side_by_side import comparison_csv, comparison_json, comparison_lines, comparison_tables, comparison_text
from .table import human, remarks, rich_table, text
from .unheard import unheard

__all__ = [
    "Comparison",
    "Difference",
    "Estimate",
    "Group",
    "Measure",
    "as_json",
    "check_figure",
    "compare",
    "comparison_csv",
    "comparison_json",
    "comparison_latex",
    "comparison_lines",
    "comparison_tables",
    "comparison_text",
    "draw",
    "draw_comparison",
    "human",
    "remarks",
    "rich_table",
    "save",
    "save_comparison",
    "summarise",
    "text",
    "unheard",
]
