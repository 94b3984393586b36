"""The frame of a reproduced figure or table: cases over seeds, a figure, and a verdict for every claim.

A file in `experiments/<seed paper>/` states what the paper claims, which runs decide it, how they are
drawn and how each claim is judged; everything else is here. Results are plain JSON beside the file.
"""

import argparse
import json
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
from .errors import FedcellError
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


def run_case(case: Case, seed: int) -> Row:
    """Simulate one case on one seed: curves at the evaluated rounds, totals, and the method's own columns."""
    config = replace(case.config, seed=seed)
    problem = (case.build or build_problem)(config)
    module = methods.load(case.method)
    method = module.build(override(module.Config(), case.settings, where=f"{case.method}."))
    rows = [row for row, _ in simulate(problem, method)]
    judged = [row for row in rows if "accuracy" in row.metrics]
    own = {name for row in rows for name in row.metrics} - {"accuracy", "loss"}
    return {
        "case": case.key,
        "seed": seed,
        "rounds": [row.round + 1 for row in judged],
        "accuracy": [row.metrics["accuracy"] for row in judged],
        "loss": [row.metrics["loss"] for row in judged],
        "final_accuracy": judged[-1].metrics["accuracy"],
        "best_accuracy": max(row.metrics["accuracy"] for row in judged),
        "seconds": [row.clock_s for row in judged],
        "clock_s": rows[-1].clock_s,
        "joules": sum(row.compute_joule + row.radio_joule for row in rows),
        "uplink_bit": sum(row.uplink_bit for row in rows),
        "made_by": _maker(problem.learner.device.type),
        **{name: [row.metrics.get(name) for row in rows] for name in sorted(own)},
    }


def run_cases(
    cases: Sequence[Case], seeds: Sequence[int], store: Path, say: Callable[[str], None], workers: int = 1
) -> list[Row]:
    """Every case on every seed; runs already in `store` with the same settings are not repeated."""
    wanted = {_key(case, seed): (case, seed) for case in cases for seed in seeds}
    done = {line["key"]: line["row"] for line in _lines(store)}
    todo = {key: pair for key, pair in wanted.items() if key not in done}
    store.parent.mkdir(parents=True, exist_ok=True)
    for number, (key, row) in enumerate(_play(todo, workers), len(wanted) - len(todo) + 1):
        say(f"[{number}/{len(wanted)}] {row['case']}, seed {row['seed']}: accuracy {row['final_accuracy']:.3f}")
        done[key] = row
        with store.open("a") as file:
            file.write(json.dumps({"key": key, "row": row}) + "\n")
    return [done[key] for key in wanted]


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
    options = parser.parse_args(arguments)
    name = script.stem + ("-quick" if options.quick else "")
    seeds = list(range(1, options.seeds + 1))
    try:
        store = options.out / f"{name}.runs.jsonl"
        if options.stored:
            rows = [line["row"] for line in _lines(store)]
        else:
            rows = run_cases(experiment.cases(options.quick), seeds, store, _say, options.workers)
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


def _lines(store: Path) -> list[Row]:
    """The finished runs on file; a line that a kill left half-written is cut off."""
    if not store.exists():
        return []
    text = store.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        store.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
