"""The frame of a reproduced figure or table: what is claimed, the runs that decide it, a figure, and verdicts.

A file in `experiments/<paper>/` states what the paper claims, which runs decide it, how they are drawn and how each
claim is judged; everything else is here. Results are plain JSON beside the file.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from ..effort import Effort, effort_of, flags
from ..errors import BadInput, FedcellError
from ..record.files import write_atomic
from .beside import SideBySide
from .runs import Case, maker, run_cases, seeds_of, stored_rows
from .stores import Row
from .verdicts import DIRECTIONS, LEAST_SEEDS, RULES, UNDECIDED, VERDICTS, Claim, Finding

SHOWN = 8  # names of cases in a message


class Experiment(NamedTuple):
    """A figure or a table of a paper."""

    title: str
    claims: Sequence[Claim]
    cases: Callable[[bool], list[Case]]  # quick -> cases
    plot: Callable[[list[Row]], Figure]
    check: Callable[[list[Row]], list[Finding]]
    store: str | None = None  # runs are kept under this name, for files that share them; None: the file's own
    table: Callable[[list[Row]], SideBySide] | None = None  # the paper's own table, with what was measured beside it


def judge(experiment: Experiment, rows: list[Row]) -> list[Finding]:
    """The findings of an experiment, one for every claim; a claim without one was not run."""
    found = {finding.claim: finding for finding in experiment.check(rows)}
    unknown = set(found) - {claim.key for claim in experiment.claims}
    wrong = [finding.verdict for finding in found.values() if finding.verdict not in VERDICTS]
    if unknown or wrong:
        raise ValueError(f"check() of {experiment.title!r} names unknown claims {unknown} or verdicts {wrong}")
    few = [
        one.claim for one in found.values() if one.n is not None and one.n < LEAST_SEEDS and one.verdict in DIRECTIONS
    ]
    if few:
        raise ValueError(
            f"check() of {experiment.title!r} decides {few} on fewer than {LEAST_SEEDS} seeds: use finding()"
        )
    missing = Finding("", "", "not run", UNDECIDED)
    return [found.get(claim.key, missing._replace(claim=claim.key)) for claim in experiment.claims]


def main(experiment: Experiment, arguments: Sequence[str] | None = None) -> None:
    """Run an experiment from the command line and write its results and figure beside its file."""
    script = Path(sys.argv[0])
    parser = argparse.ArgumentParser(description=experiment.title)
    flags(parser)
    parser.add_argument("--out", type=Path, default=script.parent / "results", help="folder of results and figures")
    options = parser.parse_args(arguments)
    try:
        effort = effort_of(options)
        refuse_unmatched([case.key for case in experiment.cases(effort.quick)], effort)
        rows = rows_of(experiment, script.stem, options.out, effort, _say)
    except FedcellError as error:
        print(f"{experiment.title}: not run: {error}")
        raise SystemExit(error.exit_code) from None
    findings = judge(experiment, rows)
    write(experiment, script.stem, rows, findings, options.out, effort)
    print(text(experiment, rows, findings, effort.quick))


def refuse_unmatched(keys: Sequence[str], effort: Effort) -> None:
    """Refuse an `only` that is in the name of none of the cases."""
    if effort.only and not effort.stored and not any(effort.only in key for key in keys):
        shown = ", ".join([*keys[:SHOWN], "..."] if len(keys) > SHOWN else keys) or "none"
        raise BadInput(f"--only {effort.only} is in the name of no case: cases are {shown}")


def store_of(experiment: Experiment, name: str, results: Path, effort: Effort) -> Path:
    """The file with the runs of the experiment in the file `name`.py."""
    return effort.folder(results) / f"{experiment.store or name}.runs.jsonl"


def rows_of(experiment: Experiment, name: str, results: Path, effort: Effort, say: Callable[[str], None]) -> list[Row]:
    """The runs of an experiment, after those that are missing have been run."""
    store = store_of(experiment, name, results, effort)
    if effort.stored:
        return stored_rows(experiment.cases(effort.quick), store)
    cases = experiment.cases(effort.quick)
    return run_cases(cases, effort.numbers, store, say, effort.workers, effort.only, effort.until_s)


def text(experiment: Experiment, rows: list[Row], findings: Sequence[Finding], quick: bool) -> str:
    """Every claim with its verdict, for a person."""
    lines = [f"{experiment.title} ({'quick, ' if quick else ''}seeds {seeds_of(rows)})"]
    for claim, finding in zip(experiment.claims, findings, strict=True):
        own = "" if finding.n is None else f" ({finding.n} seed{'s' * (finding.n != 1)})"
        lines.append(f"  {finding.verdict.upper()}{own}: {claim.text}\n    paper: {claim.printed}")
        lines.append(f"    ours:  {finding.ours}\n    why:   {finding.reason}")
    return "\n".join(lines)


def as_values(claims: Sequence[Claim], findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Claims with their findings in values that JSON has."""
    return [
        claim._asdict() | finding._asdict() | {"parts": [part._asdict() for part in finding.parts]}
        for claim, finding in zip(claims, findings, strict=True)
    ]


def write(
    experiment: Experiment, name: str, rows: list[Row], findings: Sequence[Finding], results: Path, effort: Effort
) -> None:
    """The verdicts as JSON and the figure, beside each other."""
    makers = {json.dumps(row.get("made_by"), sort_keys=True) for row in rows} or {json.dumps(maker("cpu"))}
    result = {
        "rules": RULES,
        "title": experiment.title,
        "quick": effort.quick,
        "seeds": seeds_of(rows),
        "runs": len(rows),
        "claims": as_values(experiment.claims, findings),
        "made_by": [json.loads(maker) for maker in sorted(makers)],
    }
    if experiment.table:
        result["table"] = experiment.table(rows)._asdict()
    folder = effort.folder(results)
    folder.mkdir(parents=True, exist_ok=True)
    experiment.plot(rows).savefig(folder / f"{name}.png", dpi=120)
    write_atomic(folder / f"{name}.json", (json.dumps(result, indent=1) + "\n").encode())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
