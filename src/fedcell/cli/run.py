"""`fedcell run`: from flags to a recorded comparison, its table and its figure."""

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from .. import api, record, report
from ..errors import BadInput
from ..loggers import LogWatcher
from ..record.files import DiskError
from ..record.folder import SWEEP
from ..resolve import read_pairs
from .output import FIGURE, print_result
from .parser import check_run_flags, until_of
from .progress import watcher


def run(args: Namespace) -> int:
    """Run or resume, then report."""
    check_run_flags(args)
    watch = watcher(args.quiet)
    try:
        with watch:
            records = _resume(args, watch) if args.resume else _execute(args, watch)
    except KeyboardInterrupt:
        rest = f"go on with `{watch.again}`" if watch.again else "nothing was written"
        print(f"fedcell: interrupted; {rest}", file=sys.stderr)
        return 130
    folder = Path(args.resume) if args.resume else records[0].folder.parent
    figure, trouble = None, None
    try:
        figure = report.save(records, folder / FIGURE, f"draw it with `{record.how_to_resume(folder, records[0].own)}`")
    except DiskError as error:
        trouble = error
    print_result(records, folder, figure, args.json)
    if trouble:
        raise trouble
    return 3 if any(one.status.state == "diverged" for one in records) else 0


def _execute(args: Namespace, watch: record.Watch) -> list[record.Record]:
    settings = read_pairs(args.set, "--set")
    args.until = until_of(args)
    add_flags(settings, args, "rounds", "seed", "until")
    return api.run(
        args.methods,
        args.scenario or "cell",
        settings,
        model=args.model,
        out=args.out,
        log=args.log,
        watch=watch,
        say=print_notice,
        checkpoint_s=args.checkpoint_every,
    )


def _resume(args: Namespace, watch: record.Watch) -> list[record.Record]:
    names = ("scenario", "model", "rounds", "seed", "set", "out")
    given = [f"--{name}" for name in names if getattr(args, name)] + args.methods
    if given:
        raise BadInput(f"--resume takes everything from its folder: drop {' '.join(given)}, or start a new run")
    if os.path.isfile(Path(args.resume) / SWEEP):
        raise BadInput(f"{args.resume} is the folder of a sweep: go on with `fedcell sweep --resume {args.resume}`")
    with LogWatcher(args.log, watch) as told:
        period = record.Period(seconds=args.checkpoint_every)
        return record.resume(args.resume, until=until_of(args), watch=told, period=period)


def add_flags(changes: dict[str, Any], args: Namespace, *flags: str) -> None:
    """Add settings that have flags of their own; one that is set twice is BadInput."""
    for flag in flags:
        if getattr(args, flag) is not None:
            if flag in changes:
                raise BadInput(f"--set {flag}={changes[flag]} and --{flag} {getattr(args, flag)}: drop one of them")
            changes[flag] = getattr(args, flag)


def print_notice(line: str) -> None:
    """Say that a setting changes nothing."""
    print(f"fedcell: {line}", file=sys.stderr)
