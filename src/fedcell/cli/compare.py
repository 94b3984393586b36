"""`fedcell compare`: recorded runs side by side, seed by seed."""

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadInput

if TYPE_CHECKING:  # NumPy and SciPy are imported by the command alone
    from ..report import Comparison


def flags(sub: ArgumentParser) -> None:
    """The flags of the command."""
    sub.description = (
        "Compare recorded runs. Runs with equal settings are a group and their seeds its repeats; every group is held "
        "against a reference, seed by seed."
    )
    sub.add_argument("runs", metavar="DIR", nargs="+", help="folders of runs, comparisons or sweeps")
    sub.add_argument("--against", metavar="LABEL", help="the reference, by its label (default: the first group)")
    sub.add_argument(
        "--target",
        metavar="VALUE",
        type=float,
        action="append",
        default=[],
        help="say what it takes to reach this value of the leading metric, such as an accuracy of 0.9; repeatable "
        "(default: 95 %% of the smallest best accuracy, or what is as easy by another metric)",
    )
    sub.add_argument(
        "--only", metavar="TEXT", action="append", default=[], help="groups with this text in their label; repeatable"
    )
    sub.add_argument(
        "--label",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="call a group, or a method in all its labels, something else, such as fedprox=FedProx; repeatable",
    )
    sub.add_argument("--confidence", metavar="SHARE", type=float, default=0.95, help="of the intervals (default: 0.95)")
    sub.add_argument("--csv", metavar="FILE", help="write a line per group and quantity, in SI units")
    sub.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    sub.add_argument("--latex", action="store_true", help="the tables as LaTeX (booktabs) on stdout")
    sub.add_argument(
        "--figure",
        metavar="FILE",
        action="append",
        default=[],
        help="draw the means and their intervals into a .png, .pdf or .svg file; repeatable",
    )
    sub.add_argument(
        "--width", metavar="WIDTH", default="page", help="of the figure: column, page or inches (default: page)"
    )
    sub.add_argument(
        "--by",
        metavar="AXES",
        default="",
        help="horizontal axes of the figure: any of round,time,energy,uplink (default: all)",
    )
    sub.add_argument(
        "--over", metavar="KEY", help="what the targets cost over the values of a setting, such as world.n_blocks"
    )
    sub.add_argument(
        "--rank",
        metavar="COST",
        nargs="?",
        const="time",
        help="rank all groups by time, energy, uplink or round to the target, with the Pareto front (default: time)",
    )
    sub.set_defaults(command=run)


def run(args: Namespace) -> int:
    """Compare, print, write what is asked for."""
    from .. import report
    from ..record.files import refuse_folder, write_asked
    from ..report import over

    if args.json and args.latex:
        raise BadInput("--json and --latex both print to stdout: drop one of them")
    if args.rank and args.latex:
        raise BadInput("--latex has no ranking: drop --rank, or print it without --latex")
    width_inch = width_of(args.width)
    axes = [name.strip() for name in args.by.split(",") if name.strip()]
    report.check_figure(args.figure, axes)
    if args.csv:
        refuse_folder(Path(args.csv))
    found = report.compare(
        args.runs,
        against=args.against,
        targets=args.target,
        only=args.only,
        confidence=args.confidence,
        labels=args.label,
    )
    by, extra = args.rank or "time", args.over or args.rank
    if extra:
        over.ranking(found, by)  # refuses what it cannot rank by before anything is printed
    if args.latex:
        print(report.comparison_latex(found))
    elif args.json:
        values = report.comparison_json(found) | (over.over_json(found, args.over, by) if extra else {})
        print(json.dumps(values, indent=1, allow_nan=False))
    elif args.over:
        lines = [over.over_text(found, args.over, by), "", *report.comparison_lines(found)]
        _print_text("\n".join(lines))
    else:
        _print(found)
        if args.rank:
            _print_text("\n" + over.ranking_text(found, by))
    if args.over:
        written = [over.save_over(found, args.over, path, width_inch) for path in args.figure]
    else:
        written = [report.save_comparison(found, path, width_inch, axes) for path in args.figure]
    if args.csv:
        data = report.comparison_csv(found).encode()
        written.append(write_asked(Path(args.csv), data, "then compare again (the records are whole)"))
    if not args.json and not args.latex:
        print(*(f"written: {path}" for path in written), sep="\n", end="\n" if written else "")
    return 0


def _print(found: "Comparison") -> None:
    from .. import report
    from .output import has_rich

    if sys.stdout.isatty() and has_rich():
        from rich.console import Console

        console = Console()
        for table in report.comparison_tables(found):
            console.print(table)
        print(*report.comparison_lines(found), sep="\n")
        return
    _print_text(report.comparison_text(found))


def _print_text(text: str) -> None:
    """Print a text, with `+-` for the plus-minus sign if stdout cannot encode it."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = text.replace("\N{PLUS-MINUS SIGN}", "+-")
    print(text)


def width_of(text: str) -> float:
    """Inches from `column`, `page` or a number."""
    from ..report.figure import COLUMN_INCH, PAGE_INCH

    named = {"column": COLUMN_INCH, "page": PAGE_INCH}
    try:
        width = named[text] if text in named else float(text)
    except ValueError:
        width = 0.0
    if not 1.0 <= width <= 40.0:
        raise BadInput(f"--width {text} is no width of a figure: give column, page, or 1 to 40 inches")
    return width
