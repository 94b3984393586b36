"""What `run` and `show` print on stdout: a table for people, or JSON."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ..record import Record
from ..report import as_json, remarks, rich_table, summarise, text, unheard

FIGURE = "figure.png"


def print_result(records: Sequence[Record], folder: str | Path, figure: Path | None, as_json_text: bool) -> None:
    """Print the records of a folder."""
    summaries = [summarise(record) for record in records]
    if as_json_text:
        world = {name: records[0].config[name] for name in ("scenario", "seed")}
        paths = {"folder": str(folder), "figure": str(figure) if figure else None}
        runs = [as_json(one) for one in summaries]
        print(json.dumps({**world, **paths, "runs": runs}, indent=1, allow_nan=False))
        _warn(records)
        return
    if sys.stdout.isatty() and has_rich():
        from rich.console import Console

        Console().print(rich_table(summaries))
        print(*remarks(summaries), sep="\n")
    else:
        print(text(summaries))
    if figure:
        print(f"figure: {figure}")
    print(f"record: {folder}")
    _warn(records)


def _warn(records: Sequence[Record]) -> None:
    """Warn about runs in which no update ever arrived, and say why."""
    for one in records:
        if why := unheard(one):
            print(f"fedcell: {one.label}: {why}", file=sys.stderr)


def has_rich() -> bool:
    """Whether tables and bars can be drawn; without it they are plain text."""
    try:
        import rich  # noqa: F401
    except ImportError:
        return False
    return True
