"""`fedcell show`: one comparison in full, or a line for each of many runs. Needs no PyTorch."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadInput, FedcellError
from ..record.folder import COMPARISON, ROWS, RUN

if TYPE_CHECKING:
    from ..record import RunInfo

HEADER = ("run", "method", "scenario", "seed", "state", "rounds")  # then scores and costs
COSTS = ("time", "energy", "uplink")
TEXTS = ("run", "method", "scenario", "state")  # columns of words, the others hold numbers
MEANING = "{} time: {}. energy: of all devices. uplink: bits of all devices."
SORTS: dict[str, Callable[["RunInfo"], Any]] = {
    "name": lambda info: 0,  # as they are found
    "method": lambda info: info.label,
    "scenario": lambda info: info.scenario,
    "seed": lambda info: info.seed,
    "state": lambda info: info.state,
    "best": lambda info: _by_score(info, info.totals.best),
    "final": lambda info: _by_score(info, info.totals.final),
    "time": lambda info: info.totals.simulated_s,
    "energy": lambda info: _upwards(info.totals.joule),
    "uplink": lambda info: info.totals.uplink_bit,
    "newest": lambda info: -_changed(info),
}


def flags(sub: ArgumentParser) -> None:
    """The flags of `show`."""
    sub.add_argument("folder", metavar="DIR", help="one run, a comparison of `fedcell run`, or any folder above runs")
    sub.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    sub.add_argument(
        "--sort",
        metavar="COLUMN",
        default="name",
        help=f"of many runs: {', '.join(SORTS)} (default: name)",
    )
    sub.add_argument("--last", metavar="N", type=int, help="of many runs: the N that were written to last")
    sub.set_defaults(command=show)


def show(args: Namespace) -> int:
    """Print what is in a folder."""
    from ..record.index import find

    folder = Path(args.folder)
    if args.sort not in SORTS:
        raise BadInput(f"--sort {args.sort} is no column: choose one of {', '.join(SORTS)}")
    if args.last is not None and args.last < 1:
        raise BadInput(f"--last {args.last} shows nothing: give 1 or more")
    many = os.path.isdir(folder) and not any(os.path.exists(folder / name) for name in (COMPARISON, RUN))
    infos = find(folder) if many else []
    if not infos:
        return _show_one(folder, args)
    if args.last is not None:
        newest = sorted(infos, key=_changed)[-args.last :]
        infos = [info for info in infos if info in newest]
    print_runs(sorted(infos, key=SORTS[args.sort]), folder, args.json)
    return 0


def _show_one(folder: Path, args: Namespace) -> int:
    """A run or a comparison in full."""
    from ..record import read_all
    from .output import FIGURE, print_result

    left: list[str] = []
    records = read_all(folder, left.append)
    flags = [f"--sort {args.sort}"] * (args.sort != "name") + [f"--last {args.last}"] * (args.last is not None)
    if flags:
        raise BadInput(f"{flags[0]} is for a list of many runs: drop it, or name a folder above {folder}")
    if not records:
        raise FedcellError(left[0])
    figure = folder / FIGURE
    print_result(records, folder, figure if figure.exists() else None, args.json)
    for why in left:
        print(f"fedcell: left out: {why}", file=sys.stderr)
    return 0


def print_runs(infos: Sequence["RunInfo"], folder: Path, as_json: bool) -> None:
    """A line per run, for people or as JSON."""
    from ..record.index import as_json as as_values

    if as_json:
        runs = [as_values(info) for info in infos]
        print(json.dumps({"folder": str(folder), "runs": runs}, indent=1, allow_nan=False))
        return
    from ..record.scores import heads, shared

    named = shared(infos) is None
    rows = [[*HEADER, *heads(infos), *COSTS], *(_cells(info, folder, named) for info in infos)]
    if any(info.served for info in infos):
        from ..report.table import SERVED, served_cells

        added = [SERVED, *(served_cells(info.served) for info in infos)]
        rows = [[*row, *more] for row, more in zip(rows, added, strict=True)]
    if sys.stdout.isatty():
        _print_rich(rows, _meaning(infos))
    else:
        print(_text(rows, _meaning(infos)))
    print(*remarks(infos), sep="\n", end="\n" if remarks(infos) else "")
    print(f"{len(infos)} runs: {folder}")


def remarks(infos: Sequence["RunInfo"]) -> list[str]:
    """A line for every run that has a message."""
    return [f"{info.folder}: {info.state}: {info.message}" for info in infos if info.message]


def _cells(info: "RunInfo", folder: Path, named: bool) -> list[str]:
    from ..record.scores import score_cells
    from ..report.table import BITS, JOULES, TIMES, human

    place = info.folder.relative_to(folder) if info.folder.is_relative_to(folder) else info.folder
    rounds = str(info.rounds) if info.rounds == info.total_rounds else f"{info.rounds}/{info.total_rounds}"
    found, scores = info.totals, score_cells(info, named)
    costs = [human(found.simulated_s, TIMES), human(found.joule, JOULES), human(found.uplink_bit, BITS)]
    return [str(place), info.label, info.scenario, str(info.seed), info.state, rounds, *scores, *costs]


def _meaning(infos: Sequence["RunInfo"]) -> str:
    from ..record.scores import score_meaning
    from ..report.table import SERVED_MEANING

    text = MEANING.format(score_meaning(infos), " or ".join(dict.fromkeys(info.clock for info in infos)))
    return text + SERVED_MEANING * any(info.served for info in infos)


def _text(rows: Sequence[Sequence[str]], meaning: str) -> str:
    """Aligned columns, texts to the left and numbers to the right."""
    from ..report.table import columns, ruled

    sides = "".join("<" if name in TEXTS else ">" for name in rows[0])
    return "\n".join([*columns(ruled(rows), sides), "", meaning])


def _print_rich(rows: Sequence[Sequence[str]], meaning: str) -> None:
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(_text(rows, meaning))
        return
    table = Table(box=SIMPLE_HEAD, caption=meaning, caption_justify="left", padding=(0, 1, 0, 0))
    for name in rows[0]:
        folds = name in ("run", "method")
        table.add_column(name, justify="left" if name in TEXTS else "right", no_wrap=not folds, overflow="fold")
    for row in rows[1:]:
        table.add_row(*row)
    Console().print(table)


def _upwards(cost: float) -> float:
    return cost if isfinite(cost) else inf


def _by_score(info: "RunInfo", score: float) -> float:
    """A sort key: good scores first, runs without one last."""
    return (-score if info.metric.rises else score) if isfinite(score) else inf


def _changed(info: "RunInfo") -> float:
    """When a run was last written to, in seconds since 1970."""
    for name in (ROWS, RUN):
        try:
            return (info.folder / name).stat().st_mtime
        except OSError:
            continue
    return 0.0
