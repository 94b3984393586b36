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
from ..idle import notices
from ..loggers import Log
from ..record.files import DiskError
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
    figure, trouble = None, None
    try:
        figure = report.save(records, folder / FIGURE, f"draw it with `{record.how_to_resume(folder, records[0].own)}`")
    except DiskError as error:
        trouble = error
    print_result(records, folder, figure, args.json)
    if trouble:
        raise trouble
    return 3 if any(one.status.state == "diverged" for one in records) else 0


def _execute(args: Namespace, watch: record.Watch, period: record.Period) -> list[record.Record]:
    scenario = scenarios.get(args.scenario or "cell")
    texts = args.methods or scenario.compare
    changes, defaults = split_settings(args.set, texts, scenario)
    add_flags(changes, args, "rounds", "seed")
    config = options.override(scenario.config, changes)
    said = [scenarios.without_effect(config, changes)]
    for text in texts:
        name = text.partition(":")[0]
        preset = scenario.methods.get(name, {})
        given = [key for key, value in defaults.get(name, {}).items() if value != preset.get(key)]
        said.append(methods.without_effect(methods.parse(text, defaults), given))
    print_notices(said)
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
    seen: set[str] = set()
    for text in texts:
        key, equals, value = text.partition("=")
        word, _, rest = key.strip().partition(".")
        if not equals:
            raise BadInput(f"--set {text!r} has no value: write key=value")
        if word == "scenario":
            raise BadInput(f"--set {text} does not change the preset: use --scenario {value}")
        if word not in sections and not (word in by_word and rest):
            raise BadInput(_unknown(key.strip(), word, by_word, scenario))
        own = f"{by_word[word]}.{rest}" if word not in sections else key.strip()
        if own in seen:
            raise BadInput(f"--set {key.strip()} is given twice: drop one of them")
        seen.add(own)
        if word in sections:
            changes[own] = value.strip()
        else:
            defaults.setdefault(by_word[word], {})[rest] = value.strip()
    return changes, defaults


def add_flags(changes: dict[str, Any], args: Namespace, *flags: str) -> None:
    """Add settings that have flags of their own; one that is set twice is BadInput."""
    for flag in flags:
        if getattr(args, flag) is not None:
            if flag in changes:
                raise BadInput(f"--set {flag}={changes[flag]} and --{flag} {getattr(args, flag)}: drop one of them")
            changes[flag] = getattr(args, flag)


def print_notices(said: Sequence[Mapping[str, str]]) -> None:
    """Say which settings change nothing."""
    for line in notices(said):
        print(f"fedcell: {line}", file=sys.stderr)


def _unknown(key: str, word: str, by_word: Mapping[str, str], scenario: scenarios.Scenario) -> str:
    if word in methods.names():
        return f"--set {key}: method {word!r} is not part of this run: name it, or drop the setting"
    known = [name for name, _, _ in options.keys(scenario.config)]
    for own, name in by_word.items():
        known += [f"{own}.{name}" for name, _, _ in options.keys(methods.load(name).Config())]
    return f"unknown key {key!r}{did_you_mean(key, known)} (fedcell list keys shows all)"
