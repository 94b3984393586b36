"""`fedcell sweep`: a grid of methods, scenarios, seeds and settings, recorded side by side."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadInput
from .parser import check_run_flags, grid_flag, read_grid, run_flags, until_of

if TYPE_CHECKING:  # imported by the command alone
    from ..sweeps import SweepPlan

EXAMPLE = """examples:
  fedcell sweep fedavg fedprox:mu=0.1 --scenario cell cells --seeds 1..5 --rounds 30 --out study
  fedcell sweep fedprox --grid fedprox.mu=0.01 0.1 1 --grid world.cpu_hz=1e9 1e9..2e9 --out study
  fedcell sweep fedavg --model net.py:wide --seeds 1..3 --out nets
  fedcell sweep --resume study

"""


def flags(sub: ArgumentParser) -> None:
    """The flags of a sweep."""
    sub.epilog = EXAMPLE + (sub.epilog or "")
    run_flags(sub)
    sub.add_argument("--scenario", metavar="NAME", nargs="+", help="presets to start from (default: cell)")
    sub.add_argument("--seeds", metavar="N", nargs="+", help="seeds such as 1..5 or 1 2 7 (default: the scenario's)")
    sub.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="one value for all runs, as in `fedcell run`, such as train.lr=0.05 or fedprox.steps=5; repeatable",
    )
    grid_flag(sub, "run")
    sub.add_argument("--out", metavar="DIR", help="folder of the sweep, new or to extend (default: runs/sweep-<n>)")
    sub.add_argument("--resume", metavar="DIR", help="resume every run that was asked for in this folder")
    sub.add_argument(
        "--workers",
        metavar="N",
        type=int,
        default=0,
        help="processes side by side; 0: as many as there are cores or runs (default: 0)",
    )
    sub.add_argument(
        "--engine", metavar="NAME", default="local", help="who does the runs: local or ray (default: local)"
    )
    sub.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="Ray cluster to join, or auto for this machine's (default: RAY_ADDRESS if set, else one of its own)",
    )
    sub.add_argument("--dry-run", action="store_true", help="list the runs and how far they are; write nothing")
    sub.set_defaults(command=sweep)


def sweep(args: Namespace) -> int:
    """Plan, run what is left, print the runs."""
    from ..study import Study
    from ..sweeps import carry_out
    from ..sweeps.drive import place_of, states
    from . import study
    from .many import watcher_of_many
    from .show import print_runs

    check_run_flags(args)
    asked = Study() if args.resume else study.fold(args)
    study.check(asked)
    plan = _resumed(args) if args.resume else _planned(args)
    if args.save_config is not None:
        study.save(args, asked)
    for line in plan.notices:
        print(f"fedcell: {line}", file=sys.stderr)
    if args.dry_run:
        print_runs(states(plan), place_of(plan), args.json)
        return 0
    watch = watcher_of_many(args.quiet, len(plan.tasks), sum(task.rounds for task in plan.tasks))
    try:
        with watch:
            infos, code = carry_out(
                plan,
                workers=args.workers,
                engine=args.engine,
                address=args.address,
                log=args.log,
                watch=watch,
                checkpoint_s=args.checkpoint_every,
            )
    except KeyboardInterrupt:
        rest = f"resume with `{watch.again}`" if watch.again else "nothing was written"
        print(f"fedcell: interrupted; {rest}", file=sys.stderr)
        return 130
    top = _top(plan, infos[0].folder)
    print_runs(infos, top, args.json)
    study.tell(study.show(asked, top), args.json)
    return code


def _planned(args: Namespace) -> "SweepPlan":
    from ..resolve import read_pairs
    from ..sweeps import plan
    from ..sweeps.grid import read_seeds
    from .run import add_flags

    settings = read_pairs(args.set, "--set")
    args.until = until_of(args)
    add_flags(settings, args, "rounds", "until")
    seeds = None if args.seeds is None else read_seeds(args.seeds)
    return plan(args.methods, args.scenario or "cell", seeds, settings, read_grid(args.grid), args.out, args.model)


def _resumed(args: Namespace) -> "SweepPlan":
    from ..sweeps import going_on

    names = ("scenario", "model", "seeds", "rounds", "set", "grid", "out")
    given = [f"--{name}" for name in names if getattr(args, name)] + args.methods
    if given:
        raise BadInput(f"--resume takes every run from its folder: drop {' '.join(given)}, or use --out to add runs")
    return going_on(args.resume, until_of(args))


def _top(plan: "SweepPlan", first: Path) -> Path:
    """The folder of the sweep, even if the sweep chose it itself."""
    return plan.folder or first.parent.parent
