"""`fedcell plan`: parameters of a method from closed forms, without training."""

import json
from argparse import ArgumentParser, Namespace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # SciPy is imported by the command alone
    from ..plan.cafe import CafePlan, Table

CURVE_POINTS = 201  # of the curve in the JSON
MINIMA = 6  # shown to a person


def flags(sub: ArgumentParser) -> None:
    """The flags of every planner."""
    planners = sub.add_subparsers(title="planners", metavar="PLANNER", required=True)
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
    return 0


def as_json(best: "CafePlan") -> dict[str, Any]:
    """Plain values; numbers that JSON lacks become null, and the curve is thinned."""
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
    lines.append(f"Where gradient noise dominates, try M = {best.noise_quorum} at this T (the largest g(M)).")
    lines.append(f"run it: fedcell run cafe:quorum={best.quorum} --set world.deadline_s={best.deadline_s:.6g}")
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
