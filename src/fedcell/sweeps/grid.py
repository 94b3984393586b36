"""From methods, scenarios, seeds and settings to a list of tasks, each with a folder name of its own.

A run goes to `<scenario>[-<key>-<value>...]-seed<seed>/<method>[-<key>-<value>...]`. The keys of the first
part are those that differ from the scenario's own values, so equal settings always meet in the same folder.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from .. import methods as library
from .. import options, scenarios
from ..data import Dataset
from ..data.files import placeless_name
from ..errors import BadInput
from ..learn.model_files import shown
from ..methods.parts.pairing import absolute, files
from ..resolve import Keys, choose, configure, sort_keys
from ..scenarios import Config, Scenario
from ..unused_settings import notices
from .task import SweepRun

LONGEST = 100  # characters of a folder name
MOST_RUNS = 100_000  # of a sweep
Values = Mapping[str, Any]


class SweepPlan(NamedTuple):
    """The runs of a sweep, in the order in which they are begun."""

    folder: Path | None  # None: the next free one in runs/
    tasks: tuple[SweepRun, ...]
    notices: tuple[str, ...] = ()  # settings that change nothing in any run
    dataset: Dataset | None = None  # own samples, to be stored in the folder


def expand(
    methods: Sequence[str],
    names: Sequence[str],
    seeds: Sequence[int] | None,
    settings: Values,
    grid: Mapping[str, Sequence[Any]],
) -> tuple[tuple[SweepRun, ...], tuple[str, ...]]:
    """Every run of the grid (all methods on the first seed, then all on the next), and notices of unused settings."""
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Collection) or not len(values):
            raise BadInput(f"the grid of {key} is {values!r}: give a list of one or more values")
        if key == "until":
            raise BadInput("until has a grid, but a run stops once: give one condition, or several joined by commas")
        if key in settings:
            raise BadInput(f"{key} is set to one value and has a grid, too: drop one of them")
    presets = [_preset(name) for name in names]
    n_runs = len(seeds or [0]) * sum(len(methods or one.compare) for one in presets) * prod(map(len, grid.values()))
    if n_runs > MOST_RUNS:
        raise BadInput(f"the grid has {n_runs} runs and a sweep at most {MOST_RUNS}: give fewer seeds or values")
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    found: dict[str, SweepRun] = {}
    said: list[dict[str, str]] = []
    worlds = [(preset, point) for preset in presets for point in points]
    for n, seed in enumerate([None] if seeds is None else seeds):
        for preset, point in worlds:
            for task, unused in _world(preset, methods or preset.compare, seed, settings, point):
                found.setdefault(task.name, task)  # a method that a point does not concern is run once
                said += [unused] * (n == 0)  # alike on every seed
    return tuple(found.values()), tuple(notices(said))


def _preset(name: str) -> Scenario:
    if name not in scenarios.names() and name in library.names():
        raise BadInput(f"{name!r} is a method and no scenario: name methods before --scenario")
    return scenarios.get(name)


def _world(
    preset: Scenario, methods: Sequence[str], seed: int | None, settings: Values, point: Values
) -> Iterator[tuple[SweepRun, dict[str, str]]]:
    """The runs of all methods in one world, each with what `unused_settings` says of its settings.

    A setting of the grid that changes nothing at a point, such as a rule of `air` with another access, is left out of
    it, so that such a point is run once.
    """
    common, own = _sort(settings, methods, preset), _sort(point, methods, preset)
    changes = common.config | own.config | ({} if seed is None else {"seed": seed})
    config = configure(preset, changes)
    unused = scenarios.without_effect(config, [*common.config, *own.config])
    if any(unused.get(key) for key in own.config):
        config = configure(
            preset, {key: one for key, one in changes.items() if key not in own.config or not unused.get(key)}
        )
    world = _world_name(preset.config, config)
    for text in methods:
        word, _, written = text.partition(":")
        fixed = {key for key, _ in library.pairs(text)}
        if clash := sorted(fixed & set(own.methods.get(word, ()))):
            raise BadInput(f"{text!r} fixes {clash[0]}, which has a grid, too: drop one of them")
        given = common.methods.get(word, {}) | own.methods.get(word, {})
        shown = {key: value for key, value in given.items() if key not in fixed}
        choice = choose(text, preset, given)
        label = text + "".join(
            f"{',' if n or written else ':'}{key}={options.written(shown[key])}" for n, key in enumerate(shown)
        )
        values = {key: _plain(value) for key, _, value in options.keys(choice.config)}
        path = absolute(word)
        name = f"{world}/{_method_name(path, library.pairs(label))}"
        task = SweepRun(name, label, text.replace(word, path, 1), values, options.to_dict(config))
        yield task, unused | library.without_effect(choice, given)


def _sort(values: Values, methods: Sequence[str], preset: Scenario) -> Keys:
    if "seed" in values:
        raise BadInput("seed is no setting of a sweep: name seeds with --seeds")
    return sort_keys(values, methods, preset)


def read_seeds(texts: Sequence[str]) -> list[int]:
    """Seeds from texts such as `3`, `1..5` or `1,2,8`.

    >>> read_seeds(["1..3", "7"]), read_seeds(["2,4"])
    ([1, 2, 3, 7], [2, 4])
    """
    found: list[int] = []
    for text in filter(None, (part.strip() for word in texts for part in word.split(","))):
        first, dots, last = text.partition("..")
        if not first.isdecimal() or (dots and not (last.isdecimal() and int(first) <= int(last))):
            raise BadInput(
                f"--seeds {text!r} is no seed: write numbers and ranges from low to high, such as 1..5 or 1 7"
            )
        found += range(int(first), min(int(last if dots else first), int(first) + MOST_RUNS) + 1)
        if len(found) > MOST_RUNS:
            raise BadInput(f"--seeds {text!r} makes more than {MOST_RUNS} runs: give fewer seeds")
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------- names


def _world_name(preset: Config, config: Config) -> str:
    """The folder name of a world: the scenario, the settings that differ from it, and the seed."""
    before = {key: value for key, _, value in options.keys(replace(preset, seed=config.seed, until=config.until))}
    model = shown(options.to_dict(config.model))
    short = {
        "model.name": model["name"],
        "model.sha256": model["sha256"],
        "data.name": placeless_name(config.data.name),
    }
    changed = [
        (key, options.written(short.get(key, value))) for key, _, value in options.keys(config) if before[key] != value
    ]
    return _safe(config.scenario, changed, f"-seed{config.seed}")


def _method_name(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    """The folder name of a method and its settings; for a method file, its stem and a hash of its path."""
    return _safe(library.word(path), pairs, f"-{_hash(path)}" if files(path) else "")


def _safe(first: str, pairs: Sequence[tuple[str, str]], last: str) -> str:
    """A readable folder name; a hash is added if characters were lost.

    >>> _safe("cell", [("world.radius_m", "200"), ("world.cpu_hz", "1e9..2e9")], "-seed1")
    'cell-world.radius_m-200-world.cpu_hz-1e9..2e9-seed1'
    >>> _safe("cell", [("model.hidden", "64,32")], "-seed1")
    'cell-model.hidden-64-32-5c6008-seed1'
    """
    words = [word.strip() for pair in pairs for word in pair]
    slugs = [re.sub(r"[^a-z0-9._]+", "-", word.lower()).strip("-") for word in [first, *words]]
    name = "-".join(filter(None, slugs))
    if slugs != [first, *words] or len(name) > LONGEST:
        name = f"{name[:LONGEST].rstrip('-.')}-{_hash(repr([first, *words]))}"
    return name + last


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:6]


def _plain(value: Any) -> Any:
    """Convert the value of a setting to one that JSON can hold and that settings can read back."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | str) else options.written(value)
