"""Runs that decide claims: cases over seeds, kept in stores.

A store is a file with one line of JSON per run. Files that are decided by the same runs name the same store and share
them; several processes may add to one store, and a run that is on file with the same settings is not repeated.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from functools import cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .. import methods
from ..data import Dataset, load
from ..data.generated import GENERATORS
from ..errors import BadInput, Diverged
from ..machine import cores
from ..options import flat, override, to_dict
from ..record import made_by
from ..scenarios import Config, build_problem
from ..simulate import simulate
from ..types import Problem

Row = dict[str, Any]
DEFAULTS = to_dict(Config())


class Case(NamedTuple):
    """One run to do for every seed. `config.seed` is replaced by the harness."""

    key: str
    config: Config
    method: str
    settings: Mapping[str, Any] = {}
    build: Callable[[Config], Problem] | None = None  # for a problem beyond settings; importable, for other processes
    most_seeds: int | None = None  # a costly case runs on the first so many seeds alone


def run_case(case: Case, seed: int) -> Row:
    """Simulate one case on one seed: curves at the evaluated rounds, totals, and the method's own columns.

    A run that diverges is a result: `diverged` says how, and its curves go on as NaN, its columns as None.
    """
    config = replace(case.config, seed=seed)
    problem = (case.build or build)(config)
    method = methods.load(case.method).build(_method_config(case.method, case.settings))
    rows, how = [], {}
    try:
        for row, _ in simulate(problem, method):
            rows.append(row)
    except Diverged as error:
        how = {"diverged": str(error)}
    judged = [row for row in rows if "accuracy" in row.metrics]
    own = {name for row in rows for name in row.metrics} - {"accuracy", "loss"}
    lost = [n for n in range(len(rows) + 1, config.rounds + 1) if n % config.eval_every == 0 or n == config.rounds]
    nothing, unplayed = [math.nan] * len(lost), [None] * (config.rounds - len(rows))
    return {
        "case": case.key,
        "seed": seed,
        **how,
        "rounds": [row.round + 1 for row in judged] + lost,
        "accuracy": [row.metrics["accuracy"] for row in judged] + nothing,
        "loss": [row.metrics["loss"] for row in judged] + nothing,
        "final_accuracy": math.nan if how else judged[-1].metrics["accuracy"],
        "best_accuracy": max((row.metrics["accuracy"] for row in judged), default=math.nan),
        "seconds": [row.clock_s for row in judged] + nothing,
        "clock_s": rows[-1].clock_s if rows else 0.0,
        "joules": sum(row.compute_joule + row.radio_joule for row in rows),
        "uplink_bit": sum(row.uplink_bit for row in rows),
        "made_by": maker(problem.learner.device.type),
        **{name: [row.metrics.get(name) for row in rows] + unplayed for name in sorted(own)},
    }


def build(config: Config) -> Problem:
    """The problem of the settings; a data set is read once for all runs of a process."""
    return build_problem(config, None if config.data.name in GENERATORS else read_once(config.data.name))


@cache
def read_once(name: str) -> Dataset:
    """A data set by its name or path, kept."""
    return load(name)


def run_cases(
    cases: Sequence[Case],
    seeds: Sequence[int],
    store: Path,
    say: Callable[[str], None],
    workers: int = 1,
    only: str = "",
) -> list[Row]:
    """Every case on every seed; runs already in `store` with the same settings are not repeated.

    Args:
        cases: what to run.
        seeds: seeds of every case, as far as the case allows.
        store: file that runs are read from and added to.
        say: told of every finished run.
        workers: processes side by side; 0: as many as there are cores.
        only: run nothing but cases with this text in their key.

    Returns: the rows of all cases, as far as they have been run by now.
    """
    todo = missing_runs(cases, seeds, store, only)
    store.parent.mkdir(parents=True, exist_ok=True)
    for number, (key, row) in enumerate(_play(todo, workers or cores()), 1):
        how = row.get("diverged") or f"accuracy {row['final_accuracy']:.3f}"
        say(f"[{number}/{len(todo)}] {row['case']}, seed {row['seed']}: {how}")
        _append(store, {"key": key, "row": row})
    return _on_file(_done(store), cases, seeds)  # other processes may have added runs meanwhile


def stored_rows(cases: Sequence[Case], store: Path) -> list[Row]:
    """The rows of all cases that `store` has, with the same settings, on any seed."""
    done = _done(store)
    return _on_file(done, cases, sorted({row["seed"] for row in done.values()}))


def _on_file(done: Mapping[str, Row], cases: Sequence[Case], seeds: Sequence[int]) -> list[Row]:
    return [done[same] for same in map(_lasting, _wanted(cases, seeds)) if same in done]


def missing_runs(
    cases: Sequence[Case], seeds: Sequence[int], store: Path, only: str = ""
) -> dict[str, tuple[Case, int]]:
    """The runs that `store` lacks, by what they depend on; `only` as for `run_cases`."""
    done = _done(store)
    wanted = _wanted(cases, seeds)
    return {key: pair for key, pair in wanted.items() if only in pair[0].key and _lasting(key) not in done}


def _wanted(cases: Sequence[Case], seeds: Sequence[int]) -> dict[str, tuple[Case, int]]:
    return {_key(case, seed): (case, seed) for case in cases for seed in seeds if seed <= (case.most_seeds or seed)}


def _done(store: Path) -> dict[str, Row]:
    return {_lasting(line["key"]): line["row"] for line in lines_of(store)}


def _key(case: Case, seed: int) -> str:
    """What a run depends on, as a text: all settings of the world and of the method, also those that are not given."""
    own = to_dict(_method_config(case.method, case.settings))
    config = to_dict(replace(case.config, seed=seed))
    return json.dumps([case.key, seed, {"config": config, "method": case.method, **own}], sort_keys=True)


def _lasting(key: str) -> str:
    """A key without the settings that have their defaults.

    A setting that did not exist when a run was stored had the effect of its default, so the run still counts.
    """
    case, seed, settings = json.loads(key)
    defaults = flat({"config": DEFAULTS, **_method_defaults(settings["method"])})
    changed = {key: value for key, value in flat(settings).items() if key not in defaults or value != defaults[key]}
    return json.dumps([case, seed, changed], sort_keys=True)


def _method_config(method: str, settings: Mapping[str, Any]) -> Any:
    return override(methods.load(method).Config(), settings, where=f"{method}.")


@cache
def _method_defaults(method: str) -> dict[str, Any]:
    """None of a method that is gone: its runs stay on file and count for nothing."""
    try:
        return to_dict(_method_config(method, {}))
    except BadInput:
        return {}


def _play(todo: Mapping[str, tuple[Case, int]], workers: int) -> Iterator[tuple[str, Row]]:
    """(key, row) of every run as it ends; the first failure is raised when all others are through."""
    failures: list[Exception] = []
    for key, result in _alone(todo) if workers == 1 else _side_by_side(todo, workers):
        if isinstance(result, Exception):
            case, seed = todo[key]
            result.add_note(f"in the run {case.key}, seed {seed}")
            failures.append(result)  # the other runs are worth keeping
        else:
            yield key, result
    if failures:
        raise failures[0]


def _alone(todo: Mapping[str, tuple[Case, int]]) -> Iterator[tuple[str, Row | Exception]]:
    for key, pair in todo.items():
        try:
            result: Row | Exception = run_case(*pair)
        except Exception as error:
            result = error
        yield key, result


def _side_by_side(todo: Mapping[str, tuple[Case, int]], workers: int) -> Iterator[tuple[str, Row | Exception]]:
    """Each run in a process and one thread of its own; none waits in a queue, so that Ctrl-C ends soon."""
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        rest = iter(todo.items())
        under_way: dict[Future[Row], str] = {}
        while True:
            for key, pair in islice(rest, workers - len(under_way)):
                under_way[pool.submit(run_case, *pair)] = key
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield under_way.pop(future), error or future.result()


def seeds_of(rows: Sequence[Row]) -> list[int]:
    """The seeds that have runs."""
    return sorted({row["seed"] for row in rows})


def lines_of(store: Path) -> list[Row]:
    """The finished runs on file; a line that a kill left half-written is passed over."""
    lines = store.read_text().splitlines() if store.exists() else []
    return [line for line in map(_line, lines) if line]


def _line(text: str) -> Row:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}


def _append(store: Path, line: Row) -> None:
    """Add a run in one write, so that processes can share the file, on a line of its own even after a kill."""
    broken = store.exists() and not store.read_bytes().endswith(b"\n")
    with store.open("ab", buffering=0) as file:
        file.write(b"\n" * broken + json.dumps(line).encode() + b"\n")


def maker(device: str) -> dict[str, str]:
    """The versions and the kind of device behind a result."""
    return {name: value for name, value in made_by(device).items() if name != "platform"}
