"""`fedcell plan`: what rounds cost and who takes part, and parameters from closed forms."""

import json
import shlex
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .parser import grid_flag, read_grid

if TYPE_CHECKING:  # SciPy is imported by the command alone
    from ..plan.cafe import CafePlan, Table

CURVE_POINTS = 201  # of the curve in the JSON
MINIMA = 6  # shown to a person


PLANNERS = ("cell", "cafe")
DIGITS = 1442  # training samples of the data set that comes with fedcell


def with_planner(argv: Sequence[str]) -> list[str]:
    """Complete `plan METHOD ...` to `plan cell METHOD ...`.

    >>> with_planner(["plan", "fedavg", "--rounds", "3"]), with_planner(["plan", "cell"]), with_planner(["list"])
    (['plan', 'cell', 'fedavg', '--rounds', '3'], ['plan', 'cell'], ['list'])
    """
    found = list(argv)
    if len(found) > 1 and found[0] == "plan" and found[1] not in PLANNERS and not found[1].startswith("-"):
        found.insert(1, "cell")
    return found


def flags(sub: ArgumentParser) -> None:
    """The flags of every planner."""
    planners = sub.add_subparsers(title="planners", metavar="PLANNER", required=True)
    cell_flags(planners.add_parser("cell", help="who takes part, and what rounds cost", allow_abbrev=False))
    cafe = planners.add_parser("cafe", help="quorum and deadline of CAFe from answer times", allow_abbrev=False)
    cafe.add_argument("--clients", metavar="N", type=int, required=True, help="clients that get the model")
    answers = cafe.add_mutually_exclusive_group(required=True)
    answers.add_argument("--rate", metavar="R", type=float, help="answer times are Exp(R), in answers per second")
    answers.add_argument(
        "--response-times", metavar="CSV", help="measured seconds: one per line, or a column `seconds`"
    )
    cafe.add_argument(
        "--waste-weight",
        metavar="W",
        type=float,
        required=True,
        help="seconds of age that a discarded client second is worth",
    )
    cafe.add_argument(
        "--comm-weight", metavar="W", type=float, required=True, help="seconds of age that a broadcast is worth"
    )
    cafe.add_argument("--quorum", metavar="M", type=int, help="least number of answers (default: 1, which is best)")
    cafe.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    cafe.add_argument("--figure", metavar="FILE", help="draw J and its minima into a .png, .pdf or .svg file")
    cafe.set_defaults(command=run)


def cell_flags(sub: ArgumentParser) -> None:
    """The flags of `fedcell plan cell`, which resemble those of a sweep."""
    sub.description = (
        "Play rounds of any method: who can take part and why others cannot, seconds, joules and bits of a round, "
        "batteries. Methods are trained only if their costs depend on what devices learn. `fedcell plan METHOD ...` is "
        "short for `fedcell plan cell METHOD ...`."
    )
    sub.add_argument(
        "methods", metavar="METHOD", nargs="*", help="NAME[:key=value,...] or a .py file (default: the scenario's)"
    )
    sub.add_argument("--scenario", metavar="NAME", default="cell", help="the preset to start from (default: cell)")
    sub.add_argument("--seeds", metavar="N", nargs="+", help="worlds such as 1..5 (default: the scenario's seed)")
    sub.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        help="plan runs of so many rounds (default: the first 100 of the scenario's)",
    )
    sub.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting; repeatable")
    grid_flag(sub, "planned")
    sub.add_argument(
        "--samples",
        metavar="N",
        type=int,
        default=0,
        help="every device holds so many, so that there may be more devices than samples (default: the data's split)",
    )
    sub.add_argument(
        "--train",
        action=BooleanOptionalAction,
        help="train all methods, or none: fast, and a guess if costs depend on what devices learn (default: train "
        "those)",
    )
    sub.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    sub.add_argument(
        "--figure", metavar="FILE", action="append", default=[], help="draw the first grid into a .png, .pdf or .svg"
    )
    sub.set_defaults(command=run_cell)


def run_cell(args: Namespace) -> int:
    """Plan the rounds, print, draw if asked."""
    from ..errors import BadInput
    from ..plan.cell import plan
    from ..plan.show import as_json as plans_json
    from ..plan.show import save, text
    from ..report.figure import check_figure
    from ..resolve import read_pairs
    from ..sweeps.grid import read_seeds
    from .progress import TimeLeft

    check_figure(args.figure)
    if args.figure and not args.grid:
        raise BadInput("a figure of a plan is drawn over a knob: give one several values with --grid KEY=VALUE VALUE")
    for name, value, least in (("rounds", args.rounds, 1), ("samples", args.samples, 0)):
        if value is not None and value < least:
            raise BadInput(f"--{name} {value} is too few: give {least} or more")
    seeds = None if args.seeds is None else read_seeds(args.seeds)
    settings, grid = read_pairs(args.set, "--set"), read_grid(args.grid)
    plans = plan(
        args.methods,
        args.scenario,
        settings,
        grid,
        seeds=seeds,
        rounds=args.rounds,
        samples=args.samples,
        train=args.train,
        watch=TimeLeft(asked=bool(args.train)),
    )
    print(json.dumps(plans_json(plans), indent=1, allow_nan=False) if args.json else text(plans))
    for path in args.figure:
        print(f"written: {save(plans, path)}", file=sys.stderr if args.json else sys.stdout)
    if not args.json and not args.samples:
        print(f"run it: {shlex.join(_sweep(args))}")
    return 0


def _sweep(args: Namespace) -> list[str]:
    """The command of the sweep that plays the planned rounds with training."""
    words = ["fedcell", "sweep", *args.methods, "--scenario", args.scenario]
    words += [] if args.rounds is None else ["--rounds", str(args.rounds)]
    for pair in args.set:
        words += ["--set", pair]
    for values in args.grid:
        words += ["--grid", *values]
    return words + (["--seeds", *args.seeds] if args.seeds else [])


def run(args: Namespace) -> int:
    """Plan, draw if asked, print."""
    from ..plan.cafe import plan
    from ..report.figure import format_of
    from ..world.response import read_trace

    times = read_trace(args.response_times, "--response-times") if args.response_times else None
    if args.figure:
        format_of(args.figure)
    best = plan(
        args.clients,
        rate=args.rate,
        response_s=times,
        waste_weight=args.waste_weight,
        comm_weight=args.comm_weight,
        quorum=args.quorum,
    )
    law = f"Exp({args.rate:g}/s)" if times is None else f"{len(times)} measured times"
    title = f"{args.clients} clients, answers {law}, weights {args.waste_weight:g} and {args.comm_weight:g}"
    if args.figure:
        _save(best, title, Path(args.figure))
    print(json.dumps(as_json(best), indent=1, allow_nan=False) if args.json else text(best, title))
    if not args.json:
        print(f"run it: {shlex.join(cafe_run(best, args))}")
    return 0


def cafe_run(best: "CafePlan", args: Namespace) -> list[str]:
    """The command that runs what was planned: clients, their answer times, the quorum and the deadline."""
    answers = {"response": "exponential", "response_rate": f"{args.rate!r}"}
    if args.response_times:
        answers = {"response": "trace", "response_trace": args.response_times}
    world = {
        "n_devices": str(args.clients),
        **answers,
        "deadline_s": f"{best.deadline_s!r}",
        "clock": "deadline",
        "access": "own_band",
    }
    words = ["fedcell", "run", f"cafe:quorum={best.quorum}"]
    words += ["--scenario", "cell" if args.clients <= DIGITS else "cafe"]
    for key, value in {**{f"world.{key}": value for key, value in world.items()}, "data.partition": "iid"}.items():
        words += ["--set", f"{key}={value}"]
    return [*words, "--set", "train.steps=1", "--rounds", "200"]


def as_json(best: "CafePlan") -> dict[str, Any]:
    """Plain values; numbers that JSON lacks become null, and the curve is downsampled."""
    from ..record.files import nulled

    every = max(len(best.curve.deadline_s) // (CURVE_POINTS - 1), 1)
    values = best._asdict()
    values["minima"] = [one._asdict() for one in best.minima]
    values["curve"] = {name: part[::every].tolist() for name, part in best.curve._asdict().items()}
    values["table"] = {name: part.tolist() for name, part in best.table._asdict().items()}
    plain: dict[str, Any] = nulled(values)
    return plain


def text(best: "CafePlan", title: str) -> str:
    """The plan for a person."""
    facts = [
        ("quorum M", f"{best.quorum}"),
        ("deadline T", f"{best.deadline_s:.6g} s"),
        ("success of a round", f"{100 * best.success:.4g} %"),
        ("wastage per update", f"{best.wastage_s:.4g} client-seconds"),
        ("broadcasts per update", f"{best.communication:.6g}"),
        ("mean age", f"{best.age_s:.4g} s"),
        ("objective J", f"{best.objective:.6g}"),
    ]
    lines = [title, "", *(f"  {name:<22}{value}" for name, value in facts), ""]
    lines.append(f"MINIMA OF J OVER T (M = {best.quorum})")
    for one in best.minima[:MINIMA]:
        lines.append(f"  {one.deadline_s:>12.6g} s{one.objective:>14.6g}  {'best' if one.best else 'local'}")
    if len(best.minima) > MINIMA:
        lines.append(f"  and {len(best.minima) - MINIMA} more (--json lists all)")
    lines += ["", "J BY M AND T (success of a round)", *_grid(best.table), ""]
    lines.append(f"If gradient noise dominates, try M = {best.noise_quorum} at this T (the largest g(M)).")
    return "\n".join(lines)


def _grid(table: "Table") -> list[str]:
    from ..report.table import columns

    cells = [["M", *(f"T = {deadline_s:.4g} s" for deadline_s in table.deadline_s)]]
    for quorum, row, chances in zip(table.quorum, table.objective, table.success, strict=True):
        pairs = zip(row, chances, strict=True)
        cells.append([str(quorum), *(f"{j:.5g} ({100 * chance:.3g}%)" for j, chance in pairs)])
    return [f"  {line}" for line in columns(cells, ">" * len(cells[0]))]


def _save(best: "CafePlan", title: str, path: Path) -> None:
    from ..plan.figure import draw
    from ..record.files import write_asked
    from ..report.figure import format_of

    buffer = BytesIO()
    draw(best, title).savefig(buffer, format=format_of(path), dpi=150)
    write_asked(path, buffer.getvalue(), "then plan again")
