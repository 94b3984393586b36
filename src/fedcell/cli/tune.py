"""`fedcell tune`: the settings that reach a target at the least cost."""

import json
import shlex
import sys
from argparse import ArgumentParser, Namespace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from ..errors import BadInput

if TYPE_CHECKING:  # imported by the command alone
    from ..tuning.search import Tried, Tuning

SHOWN = 10  # trials in the table
EXAMPLE = """examples:
  fedcell tune fedavg --until accuracy=0.8 --cost joules --search train.lr=0.02~1 --search train.steps=1..20 --out study
  fedcell tune --resume study --trials 40

"""


def flags(sub: ArgumentParser) -> None:
    """The flags of the command."""
    sub.epilog = EXAMPLE + (sub.epilog or "")
    sub.add_argument("method", metavar="METHOD", nargs="?", help="NAME[:key=value,...] or the path of a .py file")
    sub.add_argument("--scenario", metavar="NAME", help="the preset to start from (default: cell)")
    sub.add_argument("--until", metavar="NAME=VALUE", help="the target, such as accuracy=0.9")
    sub.add_argument("--cost", metavar="COST", help="what is least: seconds, joules, bits or rounds (default: seconds)")
    sub.add_argument(
        "--search",
        metavar="KEY=RANGE",
        action="append",
        default=[],
        help="0.01..1 (uniform), 0.01~1 (uniform in the logarithm) or a|b|c; repeatable",
    )
    sub.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="one value for all; repeatable")
    sub.add_argument("--rounds", metavar="N", help="most rounds of a run (default: the scenario's)")
    sub.add_argument("--seeds", metavar="N", nargs="+", help="worlds of every trial, such as 1..3 (default: 1)")
    sub.add_argument("--trials", metavar="N", type=int, help="settings to try beside the preset's own (default: 20)")
    sub.add_argument("--batch", metavar="N", type=int, help="trials that are run side by side (default: 4)")
    sub.add_argument("--sampler-seed", metavar="N", type=int, help="of the search itself (default: 1)")
    sub.add_argument("--out", metavar="DIR", help="folder of the search, new or to resume")
    sub.add_argument("--resume", metavar="DIR", help="resume a search, with its own settings; --trials may be more")
    sub.add_argument("--workers", metavar="N", type=int, default=0, help="processes side by side; 0: as many as cores")
    sub.add_argument("--engine", metavar="NAME", default="local", help="local or ray (default: local)")
    sub.add_argument("--address", metavar="HOST:PORT", help="Ray cluster to join")
    sub.add_argument("--quiet", action="store_true", help="no progress; notices and errors only")
    sub.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    sub.set_defaults(command=run)


def run(args: Namespace) -> int:
    """Search and print."""
    from ..tuning import search

    def say(line: str) -> None:
        if not args.quiet:
            print(line, file=sys.stderr)

    where: dict[str, Any] = {"workers": args.workers, "engine": args.engine, "address": args.address, "say": say}
    try:
        found = _resumed(args, where) if args.resume else search.tune(**_asked(args), **where)
    except KeyboardInterrupt:
        folder = args.resume or args.out
        rest = f"resume with `fedcell tune --resume {shlex.quote(folder)}`" if folder else "nothing was written"
        print(f"fedcell: interrupted; {rest}", file=sys.stderr)
        return 130
    request = search.on_file(found.folder)
    print(json.dumps(as_json(found), indent=1, allow_nan=False) if args.json else text(found))
    if not args.json and found.best.settings:
        words = ["fedcell", "run", request.method, "--scenario", request.scenario, "--until", request.until]
        for key, value in {**request.settings, **found.best.settings}.items():
            words += ["--set", f"{key}={value}"]
        print(f"run it: {shlex.join(words)}")
    return 0


def _resumed(args: Namespace, where: dict[str, Any]) -> "Tuning":
    from ..tuning import search

    names = ("scenario", "until", "cost", "search", "set", "rounds", "seeds", "batch", "sampler_seed", "out")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)] + [args.method] * bool(args.method)
    if given:
        raise BadInput(f"--resume takes everything from its folder but --trials: drop {' '.join(given)}")
    return search.resume(args.resume, trials=args.trials, **where)


def _asked(args: Namespace) -> dict[str, Any]:
    from ..resolve import read_pairs
    from ..sweeps.grid import read_seeds
    from .run import add_flags

    for name, example in (("method", "fedavg"), ("until", "--until accuracy=0.9"), ("out", "--out study")):
        if not getattr(args, name):
            raise BadInput(f"a search needs {'a method' if name == 'method' else '--' + name}: add {example}")
    settings = read_pairs(args.set, "--set")
    add_flags(settings, args, "rounds")
    values = {
        "method": args.method,
        "scenario": args.scenario,
        "until": args.until,
        "cost": args.cost,
        "search": read_pairs(args.search, "--search"),
        "settings": settings,
        "seeds": None if args.seeds is None else read_seeds(args.seeds),
        "trials": args.trials,
        "batch": args.batch,
        "seed": args.sampler_seed,
        "out": args.out,
    }
    return {name: value for name, value in values.items() if value is not None}


def text(found: "Tuning") -> str:
    """The cheapest trials, and how they compare with the preset."""
    from ..report.table import aligned

    keys = list(found.trials[0].settings)
    ranked = sorted(found.trials, key=lambda one: one.cost)[:SHOWN]
    header = [*keys, "reached", f"best {found.goal.name}", found.cost]
    rows = [[*(one.settings[key] for key in keys), *_cells(one)] for one in ranked]
    rows.append([*("preset" for _ in keys), *_cells(found.preset)])
    return "\n".join(
        [f"{found.goal}: least {found.cost} of {len(found.trials)} trials", *aligned([header, *rows]), verdict(found)]
    )


def _cells(one: "Tried") -> list[str]:
    return [str(one.reached), f"{one.best:.4g}", f"{one.cost:.6g}" if isfinite(one.cost) else "never"]


def verdict(found: "Tuning") -> str:
    """What the search came to, in one sentence."""
    best, preset = found.best, found.preset
    if best.cost == inf:
        return f"no trial reached {found.goal}: search wider, allow more rounds, or lower the target"
    if not best.settings:
        return f"nothing beat the preset's {preset.cost:.6g} {found.cost}: search wider, or try more"
    words = " ".join(f"{key}={value}" for key, value in best.settings.items())
    if preset.cost == inf:
        return f"best: {words} with {best.cost:.6g} {found.cost}; the preset never gets there"
    return (
        f"best: {words} with {best.cost:.6g} {found.cost}, {100 * (1 - best.cost / preset.cost):.1f} % less than "
        f"the preset's {preset.cost:.6g}"
    )


def as_json(found: "Tuning") -> dict[str, Any]:
    """Plain values; costs that are infinite become null."""
    from ..record.files import nulled

    values = {
        "folder": str(found.folder),
        "until": str(found.goal),
        "cost": found.cost,
        "preset": found.preset._asdict(),
        "best": found.best._asdict(),
        "trials": [one._asdict() for one in found.trials],
    }
    plain: dict[str, Any] = nulled(values)
    return plain
