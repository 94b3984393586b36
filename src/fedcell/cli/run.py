"""`fedcell run`: from flags to a recorded comparison, its table and its figure."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import api, record, report, scenarios
from ..errors import BadInput, FedcellError
from ..loggers import LogWatcher
from ..record.files import DiskError
from ..record.folder import SWEEP, TRACEBACK
from ..resolve import read_pairs, resolve
from ..study import Study
from . import study
from .blame import own_line
from .output import FIGURE, print_result
from .parser import check_run_flags, until_of
from .progress import watcher


def run(args: Namespace) -> int:
    """Run or resume, then report."""
    check_run_flags(args)
    asked = Study() if args.resume else study.fold(args)
    study.check(asked)
    if args.save_config is not None:
        _check(args)
        study.save(args, asked)
    if args.explain_engine:
        return _explain(args)
    watch, failures = watcher(args.quiet), dict[str, Exception]()
    try:
        with watch:
            play = _resume if args.resume else _execute
            records = play(args, watch, failures.__setitem__)
    except KeyboardInterrupt:
        rest = f"resume with `{watch.again}`" if watch.again else "nothing was written"
        print(f"fedcell: interrupted; {rest}", file=sys.stderr)
        return 130
    if failures and len(failures) == len(records):
        raise _plain(next(iter(failures.values())), records[0].folder / TRACEBACK)
    folder = Path(args.resume) if args.resume else records[0].folder.parent
    figure, trouble = None, None
    try:
        figure = report.save(records, folder / FIGURE, f"draw it with `{record.how_to_resume(folder, records[0].own)}`")
    except DiskError as error:
        trouble = error
    print_result(records, folder, figure, args.json)
    study.tell(study.show(asked, folder), args.json)
    _say_why(records, failures)
    if trouble:
        raise trouble
    if failures:
        return min(getattr(error, "exit_code", 1) for error in failures.values())
    return 3 if any(one.status.state == "diverged" for one in records) else 0


def _plain(error: Exception, told: Path) -> Exception:
    """An exception of a user's own file as one sentence; one of ours as it is."""
    place = "" if isinstance(error, FedcellError) else own_line(error)
    if not place:
        return error
    return FedcellError(f"{place}: {type(error).__name__}: {error}: correct it ({told} has the whole traceback)")


def _say_why(records: Sequence[record.Record], failures: Mapping[str, Exception]) -> None:
    """For each failed run, print where its traceback is, or what stopped it."""
    for one in records:
        if one.label in failures:
            place, error = one.folder / TRACEBACK, failures[one.label]
            told = _plain(error, place)
            why = f"{place} says where" if place.exists() and told is error else str(told)
            print(f"fedcell: {one.label} failed: {why}", file=sys.stderr)


def _check(args: Namespace) -> None:
    """Refuse what cannot be run, before it is saved."""
    preset = scenarios.get(args.scenario or "cell")
    settings = read_pairs(args.set, "--set")
    add_flags(settings, args, "rounds", "seed")
    resolve(preset, args.methods or preset.compare, settings)


def _execute(args: Namespace, watch: record.Watch, failed: record.Failed) -> list[record.Record]:
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
        failed=failed,
    )


def _explain(args: Namespace) -> int:
    """Print what trains the network in every method."""
    if args.resume:
        raise BadInput(f"--resume takes everything from its folder: drop --explain-engine or --resume {args.resume}")
    settings = read_pairs(args.set, "--set")
    add_flags(settings, args, "rounds", "seed")
    told = api.explain_engine(args.methods, args.scenario or "cell", settings, model=args.model)
    if args.json:
        print(json.dumps(told))
    else:
        print("\n".join(f"{label}: {line}" for label, lines in told.items() for line in lines))
    return 0


def _resume(args: Namespace, watch: record.Watch, failed: record.Failed) -> list[record.Record]:
    names = ("scenario", "model", "rounds", "seed", "set", "out")
    given = [f"--{name}" for name in names if getattr(args, name)] + args.methods
    if given:
        raise BadInput(f"--resume takes everything from its folder: drop {' '.join(given)}, or start a new run")
    if os.path.isfile(Path(args.resume) / SWEEP):
        raise BadInput(f"{args.resume} is the folder of a sweep: resume with `fedcell sweep --resume {args.resume}`")
    with LogWatcher(args.log, watch) as told:
        period = record.Period(seconds=args.checkpoint_every)
        return record.resume(args.resume, until=until_of(args), watch=told, period=period, failed=failed)


def add_flags(changes: dict[str, Any], args: Namespace, *flags: str) -> None:
    """Add settings that have flags of their own; one that is set twice is BadInput."""
    for flag in flags:
        if getattr(args, flag) is not None:
            if flag in changes:
                raise BadInput(f"--set {flag}={changes[flag]} and --{flag} {getattr(args, flag)}: drop one of them")
            changes[flag] = getattr(args, flag)


def print_notice(line: str) -> None:
    """Print a notice, such as that a setting changes nothing, to stderr."""
    print(f"fedcell: {line}", file=sys.stderr)
