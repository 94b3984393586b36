"""`fedcell forecast`: what a target will cost a run that has begun."""

import json
from argparse import ArgumentParser, Namespace
from math import isfinite
from typing import TYPE_CHECKING, Any

from ..errors import BadInput

if TYPE_CHECKING:  # NumPy is imported by the command alone
    from ..plan.forecast import Expected, Forecast


def flags(sub: ArgumentParser) -> None:
    """The flags of the command."""
    sub.description = (
        "Foretell rounds, seconds, joules and bits until a recorded run would reach a target: rounds from its learning "
        "curve, costs from a plan of the rounds that follow."
    )
    sub.add_argument("runs", metavar="DIR", nargs="+", help="folders of runs, or of comparisons of `fedcell run`")
    sub.add_argument("--until", metavar="NAME=VALUE", required=True, help="the target, such as accuracy=0.9")
    sub.add_argument("--rounds", metavar="N", type=int, help="most rounds to look at (default: 20 times the pilot's)")
    sub.add_argument("--confidence", metavar="SHARE", type=float, default=0.9, help="of the intervals (default: 0.9)")
    sub.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    sub.set_defaults(command=run)


def run(args: Namespace) -> int:
    """Forecast every run and print."""
    from ..plan.forecast import forecast
    from ..record.index import find
    from ..until import read_goals

    goals = read_goals(args.until)
    if len(goals) != 1:
        raise BadInput(f"--until {args.until} is not one target: give one metric, such as accuracy=0.9")
    folders = [info.folder for folder in args.runs for info in find(folder) if info.state not in ("waiting", "damaged")]
    if not folders:
        raise BadInput(f"there is no recorded run in {' '.join(args.runs)}: name folders that `fedcell run` made")
    found = [forecast(one, goals[0], confidence=args.confidence, horizon=args.rounds) for one in folders]
    print(json.dumps([as_json(one) for one in found], indent=1, allow_nan=False) if args.json else text(found))
    return 0


def text(found: "list[Forecast]") -> str:
    """A line per run, and what to keep in mind."""
    from ..report.table import BITS, JOULES, TIMES, aligned

    unique = len({one.label for one in found}) == len(found)
    names = [one.label if unique else str(one.folder) for one in found]
    header = ["method" if unique else "run", "pilot", "chance", "rounds", "time", "energy", "uplink"]
    units = {"rounds": ((1.0, ""),), "seconds": TIMES, "joules": JOULES, "bits": BITS}
    rows = [
        [name, str(one.pilot_rounds), f"{100 * one.chance:.0f} %"]
        + [_between(one.costs[cost], unit) for cost, unit in units.items()]
        for name, one in zip(names, found, strict=True)
    ]
    first = found[0]
    meaning = (
        f"to reach {first.goal}: median ({100 * first.confidence:g} % interval); chance: to get there within "
        f"{first.horizon} rounds"
    )
    notes = [f"{name}: {note}" for name, one in zip(names, found, strict=True) for note in one.notes]
    return "\n".join([*aligned([header, *rows]), "", meaning, *notes])


def _between(one: "Expected", units: Any) -> str:
    from ..report.table import human

    median, low, high = (human(value, units).strip() if isfinite(value) else "never" for value in one)
    return f"{median} ({low} to {high})"


def as_json(one: "Forecast") -> dict[str, Any]:
    """Plain values; what lies beyond the horizon is null."""
    from ..record.files import nulled

    values = one._asdict() | {
        "folder": str(one.folder),
        "goal": str(one.goal),
        "costs": {name: part._asdict() for name, part in one.costs.items()},
    }
    plain: dict[str, Any] = nulled(values)
    return plain
