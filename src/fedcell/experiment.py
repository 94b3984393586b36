"""The frame of a reproduced figure or table: cases over seeds, a figure, and a verdict for every claim.

A file in `experiments/<seed paper>/` states what the paper claims, which runs decide it, how they are
drawn and how each claim is judged; everything else is here. Results are plain JSON beside the file.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from . import methods
from .errors import FedcellError
from .learn.learner import pick_device
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
    build: Callable[[Config], Problem] | None = None  # for a problem that settings alone do not describe


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
        **{name: [row.metrics.get(name) for row in rows] for name in sorted(own)},
    }


def run_cases(cases: Sequence[Case], seeds: Sequence[int], store: Path, say: Callable[[str], None]) -> list[Row]:
    """Every case on every seed; runs already in `store` with the same settings are not repeated."""
    done = {line["key"]: line["row"] for line in _lines(store)}
    out = []
    for number, (case, seed) in enumerate((case, seed) for case in cases for seed in seeds):
        settings = {"config": to_dict(replace(case.config, seed=seed)), "method": case.method, **case.settings}
        key = json.dumps([case.key, seed, settings], sort_keys=True)
        if key not in done:
            say(f"[{number + 1}/{len(cases) * len(seeds)}] {case.key}, seed {seed}")
            done[key] = run_case(case, seed)
            store.parent.mkdir(parents=True, exist_ok=True)
            with store.open("a") as file:
                file.write(json.dumps({"key": key, "row": done[key]}) + "\n")
        out.append(done[key])
    return out


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
    options = parser.parse_args(arguments)
    name = script.stem + ("-quick" if options.quick else "")
    seeds = list(range(1, options.seeds + 1))
    try:
        rows = run_cases(experiment.cases(options.quick), seeds, options.out / f"{name}.runs.jsonl", _say)
    except FedcellError as error:
        print(f"{experiment.title}: not run: {error}")
        raise SystemExit(error.exit_code) from None
    findings = judge(experiment, rows)
    options.out.mkdir(parents=True, exist_ok=True)
    result = {
        "title": experiment.title,
        "quick": options.quick,
        "seeds": seeds if rows else [],
        "claims": [
            claim._asdict() | finding._asdict() for claim, finding in zip(experiment.claims, findings, strict=True)
        ],
        "made_by": made_by(str(pick_device("auto"))),
    }
    (options.out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    experiment.plot(rows).savefig(options.out / f"{name}.png", dpi=120)
    print(f"{experiment.title} ({'quick, ' if options.quick else ''}{len(seeds) if rows else 0} seeds)")
    for claim, finding in zip(experiment.claims, findings, strict=True):
        print(f"  {finding.verdict.upper()}: {claim.text}\n    paper: {claim.printed}\n    ours:  {finding.ours}")
        print(f"    why:   {finding.reason}")


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
