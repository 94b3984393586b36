"""The frame of a reproduced figure or table: cases over seeds, a figure, and a verdict for every claim.

A file in `experiments/<seed paper>/` states what the paper claims, which runs decide it, how they are
drawn and how each claim is judged; everything else is here. Results are plain JSON beside the file. Files that are
decided by the same runs name the same store and share them; several processes may add to one store.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure

from . import methods
from .errors import Diverged, FedcellError
from .options import override, to_dict
from .record import made_by
from .scenarios import Config, build_problem
from .simulate import simulate
from .types import Problem

VERDICTS = ("reproduced", "partly", "not reproduced", "not run")
Row = dict[str, Any]


class Claim(NamedTuple):
    """What the paper says, and the numbers it prints."""

    key: str
    text: str
    printed: str


class Case(NamedTuple):
    """One run to do for every seed. `config.seed` is replaced by the harness."""

    key: str
    config: Config
    method: str
    settings: Mapping[str, Any] = {}
    build: Callable[[Config], Problem] | None = None  # for a problem beyond settings; importable, for other processes
    most_seeds: int | None = None  # a costly case runs on the first so many seeds alone


class Finding(NamedTuple):
    """What was measured for a claim, and whether it holds."""

    claim: str
    ours: str
    verdict: str
    reason: str


class Experiment(NamedTuple):
    """A figure or a table of a paper."""

    title: str
    claims: Sequence[Claim]
    cases: Callable[[bool], list[Case]]  # quick -> cases
    plot: Callable[[list[Row]], Figure]
    check: Callable[[list[Row]], list[Finding]]
    store: str | None = None  # runs are kept under this name, for files that share them; None: the file's own


def run_case(case: Case, seed: int) -> Row:
    """Simulate one case on one seed: curves at the evaluated rounds, totals, and the method's own columns.

    A run that diverges is a result: `diverged` says how, and its curves go on as NaN to the end.
    """
    config = replace(case.config, seed=seed)
    problem = (case.build or build_problem)(config)
    module = methods.load(case.method)
    method = module.build(override(module.Config(), case.settings, where=f"{case.method}."))
    rows, how = [], {}
    try:
        for row, _ in simulate(problem, method):
            rows.append(row)
    except Diverged as error:
        how = {"diverged": str(error)}
    judged = [row for row in rows if "accuracy" in row.metrics]
    own = {name for row in rows for name in row.metrics} - {"accuracy", "loss"}
    lost = [n for n in range(len(rows) + 1, config.rounds + 1) if n % config.eval_every == 0 or n == config.rounds]
    nothing = [math.nan] * len(lost)
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
        "made_by": _maker(problem.learner.device.type),
        **{name: [row.metrics.get(name) for row in rows] for name in sorted(own)},
    }


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
        workers: processes side by side.
        only: run nothing but cases with this text in their key.

    Returns: the rows of all cases, as far as they have been run by now.
    """
    wanted = {_key(case, seed): (case, seed) for case in cases for seed in seeds if seed <= (case.most_seeds or seed)}
    done = {line["key"]: line["row"] for line in _lines(store)}
    todo = {key: pair for key, pair in wanted.items() if key not in done and only in pair[0].key}
    store.parent.mkdir(parents=True, exist_ok=True)
    for number, (key, row) in enumerate(_play(todo, workers), 1):
        how = row.get("diverged") or f"accuracy {row['final_accuracy']:.3f}"
        say(f"[{number}/{len(todo)}] {row['case']}, seed {row['seed']}: {how}")
        _append(store, {"key": key, "row": row})
    if todo:  # other processes may have added runs meanwhile
        done = {line["key"]: line["row"] for line in _lines(store)}
    return [done[key] for key in wanted if key in done]


def _key(case: Case, seed: int) -> str:
    """What a run depends on, as a text."""
    settings = {"config": to_dict(replace(case.config, seed=seed)), "method": case.method, **case.settings}
    return json.dumps([case.key, seed, settings], sort_keys=True)


def _play(todo: Mapping[str, tuple[Case, int]], workers: int) -> Iterator[tuple[str, Row]]:
    """(key, row) of every run as it ends; with several workers each run has a process and one thread of its own."""
    if workers == 1:
        yield from ((key, run_case(*pair)) for key, pair in todo.items())
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        keys = {pool.submit(run_case, *pair): key for key, pair in todo.items()}
        yield from ((keys[future], future.result()) for future in as_completed(keys))


def judge(experiment: Experiment, rows: list[Row]) -> list[Finding]:
    """The findings of an experiment, one for every claim; a claim without one was not run."""
    found = {finding.claim: finding for finding in experiment.check(rows)}
    unknown = set(found) - {claim.key for claim in experiment.claims}
    wrong = [finding.verdict for finding in found.values() if finding.verdict not in VERDICTS]
    if unknown or wrong:
        raise ValueError(f"check() of {experiment.title!r} names unknown claims {unknown} or verdicts {wrong}")
    missing = Finding("", "", "not run", "no run decides it yet")
    return [found.get(claim.key, missing._replace(claim=claim.key)) for claim in experiment.claims]


def main(experiment: Experiment, arguments: Sequence[str] | None = None) -> None:
    """Run an experiment from the command line and write its results and figure beside its file."""
    script = Path(sys.argv[0])
    parser = argparse.ArgumentParser(description=experiment.title)
    parser.add_argument("--quick", action="store_true", help="a reduced grid, to see that it works")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1..N of every case")
    parser.add_argument("--out", type=Path, default=script.parent / "results", help="folder of results and figures")
    parser.add_argument("--stored", action="store_true", help="run nothing: judge and draw the runs on file")
    parser.add_argument("--workers", type=int, default=1, help="processes that run cases side by side")
    parser.add_argument("--only", default="", metavar="TEXT", help="run only cases with this in their name; judge all")
    options = parser.parse_args(arguments)
    name = script.stem + ("-quick" if options.quick else "")
    seeds = list(range(1, options.seeds + 1))
    try:
        store = options.out / f"{experiment.store or script.stem}{'-quick' * options.quick}.runs.jsonl"
        if options.stored:
            rows = _stored(experiment, store, options.quick)
        else:
            rows = run_cases(experiment.cases(options.quick), seeds, store, _say, options.workers, options.only)
    except FedcellError as error:
        print(f"{experiment.title}: not run: {error}")
        raise SystemExit(error.exit_code) from None
    findings = judge(experiment, rows)
    _write(experiment, rows, findings, options.out / name, options.quick)
    print(f"{experiment.title} ({'quick, ' if options.quick else ''}seeds {_seeds(rows)})")
    for claim, finding in zip(experiment.claims, findings, strict=True):
        print(f"  {finding.verdict.upper()}: {claim.text}\n    paper: {claim.printed}\n    ours:  {finding.ours}")
        print(f"    why:   {finding.reason}")


def _write(experiment: Experiment, rows: list[Row], findings: list[Finding], path: Path, quick: bool) -> None:
    """The verdicts as JSON and the figure, beside each other."""
    makers = {json.dumps(row.pop("made_by"), sort_keys=True) for row in rows} or {json.dumps(_maker("cpu"))}
    pairs = zip(experiment.claims, findings, strict=True)
    result = {
        "title": experiment.title,
        "quick": quick,
        "seeds": _seeds(rows),
        "claims": [claim._asdict() | finding._asdict() for claim, finding in pairs],
        "made_by": [json.loads(maker) for maker in sorted(makers)],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    experiment.plot(rows).savefig(path.with_suffix(".png"), dpi=120)


def _maker(device: str) -> dict[str, str]:
    """The versions and the kind of device behind a result."""
    return {name: value for name, value in made_by(device).items() if name != "platform"}


def _seeds(rows: list[Row]) -> list[int]:
    return sorted({row["seed"] for row in rows})


def _stored(experiment: Experiment, store: Path, quick: bool) -> list[Row]:
    """The runs on file, the latest of each case and seed; of a shared store those of this experiment."""
    own = {case.key for case in experiment.cases(quick)} if experiment.store else None
    latest = {(line["row"]["case"], line["row"]["seed"]): line["row"] for line in _lines(store)}
    return [row for row in latest.values() if own is None or row["case"] in own]


def _lines(store: Path) -> list[Row]:
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


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
