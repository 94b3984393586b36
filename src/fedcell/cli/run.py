"""`fedcell run`: from flags to a recorded comparison, its table and its figure."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from .. import methods, options, record, report, scenarios
from ..errors import BadInput, did_you_mean
from ..loggers import Log
from ..record.folder import SWEEP
from .output import FIGURE, print_result
from .progress import watcher


def run(args: Namespace) -> int:
    """Run or resume, then report."""
    if not args.checkpoint_every >= 0:
        raise BadInput(f"--checkpoint-every {args.checkpoint_every:g} is below 0: give seconds of wall time")
    period = record.Period(seconds=args.checkpoint_every)
    watch = watcher(args.quiet)
    try:
        with watch, Log(args.log, watch) as told:
            records = _resume(args, told, period) if args.resume else _execute(args, told, period)
    except KeyboardInterrupt:
        rest = f"go on with `{watch.again}`" if watch.again else "nothing was written"
        print(f"fedcell: interrupted; {rest}", file=sys.stderr)
        return 130
    folder = Path(args.resume) if args.resume else records[0].folder.parent
    print_result(records, folder, report.save(records, folder / FIGURE), args.json)
    return 3 if any(one.status.state == "diverged" for one in records) else 0


def _execute(args: Namespace, watch: record.Watch, period: record.Period) -> list[record.Record]:
    scenario = scenarios.get(args.scenario or "cell")
    texts = args.methods or scenario.compare
    changes, defaults = split_settings(args.set, texts, scenario)
    for flag in ("rounds", "seed"):
        if getattr(args, flag) is not None:
            changes[flag] = getattr(args, flag)
    config = options.override(scenario.config, changes)
    return record.execute(config, texts, args.out, defaults=defaults, watch=watch, period=period)


def _resume(args: Namespace, watch: record.Watch, period: record.Period) -> list[record.Record]:
    names = ("scenario", "rounds", "seed", "set", "out")
    given = [f"--{name}" for name in names if getattr(args, name)] + args.methods
    if given:
        raise BadInput(f"--resume takes everything from its folder: drop {' '.join(given)}, or start a new run")
    if os.path.isfile(Path(args.resume) / SWEEP):
        raise BadInput(f"{args.resume} is the folder of a sweep: go on with `fedcell sweep --resume {args.resume}`")
    return record.resume(args.resume, watch=watch, period=period)


def split_settings(
    texts: Sequence[str], chosen: Sequence[str], scenario: scenarios.Scenario
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Sort `--set` texts into changes of the config and settings by method name.

    Args:
        texts: `key=value`, where a key begins with a section of the config or with the name of a method.
        chosen: the methods of this run, as written.
        scenario: where the settings start from.
    """
    names = [text.partition(":")[0] for text in chosen]
    by_word = {Path(name).stem: name for name in names} | {name: name for name in names}
    sections = [entry.name for entry in fields(scenario.config)]
    changes: dict[str, Any] = {}
    defaults = {name: dict(settings) for name, settings in scenario.methods.items()}
    for text in texts:
        key, equals, value = text.partition("=")
        word, _, rest = key.strip().partition(".")
        if not equals:
            raise BadInput(f"--set {text!r} has no value: write key=value")
        if word == "scenario":
            raise BadInput(f"--set {text} does not change the preset: use --scenario {value}")
        if word in sections:
            changes[key.strip()] = value.strip()
        elif word in by_word and rest:
            defaults.setdefault(by_word[word], {})[rest] = value.strip()
        else:
            raise BadInput(_unknown(key.strip(), word, by_word, scenario))
    return changes, defaults


def _unknown(key: str, word: str, by_word: Mapping[str, str], scenario: scenarios.Scenario) -> str:
    if word in methods.names():
        return f"--set {key}: method {word!r} is not part of this run: name it, or drop the setting"
    known = [name for name, _, _ in options.keys(scenario.config)]
    for own, name in by_word.items():
        known += [f"{own}.{name}" for name, _, _ in options.keys(methods.load(name).Config())]
    return f"unknown key {key!r}{did_you_mean(key, known)} (fedcell list keys shows all)"
