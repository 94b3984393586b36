"""`fedcell reproduce`: the experiments of a clone and the ledger of what the papers claim."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import effort as efforts
from ..errors import BadInput

if TYPE_CHECKING:  # PyTorch and Matplotlib are imported by the command alone
    from ..effort import Effort
    from ..experiment.catalogue import ExperimentFile
    from ..experiment.ledger import LedgerRow
    from ..experiment.reproduce import Reproduction
    from ..experiment.times import Workload

SHOWN = 60  # characters of the names of missing cases
UNDECIDED = ("not run", "indicated", "cannot decide")
WORDS = ("reproduced", "far larger", "partly", "indicated", "not reproduced", "cannot decide", "not run")


def flags(sub: ArgumentParser) -> None:
    """The flags of the command."""
    sub.add_argument(
        "names",
        metavar="EXPERIMENT",
        nargs="*",
        help="a paper such as cafe, or a figure or table of it such as cafe/fig3; without any, the list of all",
    )
    sub.add_argument("--all", action="store_true", help="every experiment of every paper")
    efforts.flags(sub)
    sub.add_argument("--out", metavar="DIR", type=Path, help="folder of results (default: beside the experiments)")
    sub.add_argument("--experiments", metavar="DIR", type=Path, help="the experiments (default: those of the clone)")
    sub.add_argument(
        "--pack", action="store_true", help="pack the runs on file into results/runs.jsonl.gz, then judge and draw them"
    )
    sub.add_argument(
        "--from",
        dest="sources",
        metavar="PATH",
        type=Path,
        action="append",
        default=[],
        help="with --pack: more runs, a *.runs.jsonl or runs.jsonl.gz or a folder of them; may be given again",
    )
    sub.add_argument(
        "--missing", action="store_true", help="run nothing: list the runs that are missing, how long, and for what"
    )
    sub.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    sub.set_defaults(command=run)


def run(args: Namespace) -> int:
    """List, or run and sum up."""
    from ..experiment import catalogue

    if args.experiments and not catalogue.papers(args.experiments):
        raise BadInput(f"no experiments in {args.experiments}: name a folder with <paper>/<figure>.py in it")
    root = args.experiments or catalogue.find()
    effort = efforts.effort_of(args)
    if args.all and args.names:
        raise BadInput(f"--all means every experiment: drop it, or drop {' '.join(args.names)}")
    _check_pack(args, effort)
    if args.missing:
        return _missing(root, args, effort)
    if args.all or args.names:
        chosen = catalogue.choose(root, args.names) if args.names else catalogue.entries(root)
        if args.pack:
            _pack(root, chosen, args.out, args.sources)
            effort = effort._replace(stored=True)
        return _run(chosen, effort, args.out, args.json)
    if effort != efforts.Effort():
        raise BadInput("nothing to run: name experiments, or give --all (fedcell reproduce shows what there is)")
    return _list(root, args.out, args.json)


def _check_pack(args: Namespace, effort: "Effort") -> None:
    if args.sources and not args.pack:
        raise BadInput("--from names runs to pack: add --pack")
    if args.pack and (effort.quick or effort.only or effort.seeds or not (args.all or args.names)):
        raise BadInput("--pack takes papers, or --all, without --quick, --only and --seeds: it packs all runs on file")


def _pack(root: Path, chosen: Sequence["ExperimentFile"], out: Path | None, sources: Sequence[Path]) -> None:
    """Pack every paper of which an experiment was named."""
    from ..experiment import catalogue, packing

    papers = dict.fromkeys(entry.paper for entry in chosen)
    if sources and len(papers) > 1:
        raise BadInput(f"--from brings the runs of one paper, not of {', '.join(papers)}: pack them one by one")
    for paper in papers:
        entries = [entry for entry in catalogue.entries(root) if entry.paper == paper]
        done = packing.pack(entries, out / paper if out else root / paper / "results", sources)
        left = f"; left out {done.n_left_out} that no experiment asks for" if done.n_left_out else ""
        _say(f"{done.path}: {done.n_runs} runs, {done.n_bytes / 1e6:.2f} MB{left}")


# ---------------------------------------------------------------- the list


def _list(root: Path, out: Path | None, as_json: bool) -> int:
    from ..experiment import catalogue, times
    from ..experiment.ledger import ledger

    rows = ledger(root, out)
    if as_json:
        print(json.dumps([plain(row) for row in rows], indent=1))
        return 0
    print(listing(rows, root))
    print(times.told(times.work(catalogue.entries(root), efforts.Effort(), out)))
    return 0


def plain(row: "LedgerRow") -> dict[str, Any]:
    """A row of the ledger in values that JSON has."""
    from ..experiment import pages

    return pages.plain(row) | {"result": str(row.result) if row.result else None}


def listing(rows: Sequence["LedgerRow"], root: Path) -> str:
    """Papers and experiments with the verdicts on file."""
    from ..experiment.ledger import read_paper

    table: list[tuple[str, ...]] = [("experiment", "claims", *WORDS, "seeds", "what it is")]
    for paper in dict.fromkeys(row.paper for row in rows):
        own = [row for row in rows if row.paper == paper]
        table.append((paper, *counts(_of_papers(own)), "", read_paper(root / paper).title))
        for name in dict.fromkeys(row.experiment for row in own):
            part = [row for row in own if row.experiment == name]
            here = (root / paper / f"{name}.py").is_file()
            seeds = str(len(part[0].seeds) or ".") if here else "."
            title = part[0].title + ("" if here else " (no experiment yet)")
            table.append((f"  {paper}/{name}", *counts(row.verdict for row in part), seeds, title))
    table.append(("all papers", *counts(_of_papers(rows)), "", ""))
    lines = [*aligned(table), ""]
    if left_out := sum(not row.counted for row in rows):
        lines.append(f"Sums leave out {left_out} checks, questions and second readings that are not the papers'.")
    return "\n".join([*lines, "Run one with `fedcell reproduce EXPERIMENT`; `--quick` tries it, `--all` runs all."])


def _of_papers(rows: Iterable["LedgerRow"]) -> list[str]:
    return [row.verdict for row in rows if row.counted]


def counts(verdicts: Iterable[str]) -> tuple[str, ...]:
    """How many claims, and how many of each verdict; a dot for none.

    >>> counts(["partly", "reproduced", "partly"])
    ('3', '1', '.', '2', '.', '.', '.', '.')
    """
    found = Counter(verdicts)
    return str(found.total()), *(str(found[word] or ".") for word in WORDS)


def aligned(table: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with the first column to the left, numbers to the right and the last column as long as it is."""
    from ..report.table import columns

    sides = f"<{'>' * (len(table[0]) - 2)}<"
    return [line.rstrip() for line in columns(table, sides)]


# ---------------------------------------------------------------- what is missing


def _missing(root: Path, args: Namespace, effort: "Effort") -> int:
    """What the full grids lack, by experiment; of all papers unless some are named."""
    from ..experiment import catalogue, times
    from ..experiment.ledger import ledger

    if args.pack or effort.stored or args.json:
        raise BadInput("--missing is a list by itself: drop --pack, --stored and --json")
    whole = times.work(catalogue.entries(root), effort, args.out)
    if args.names:  # times come from the runs of all papers
        whole = times.work(catalogue.choose(root, args.names), effort, args.out)._replace(clock=whole.clock)
    print(lacks(whole, ledger(root, args.out)))
    return 0


def lacks(whole: "Workload", rows: Sequence["LedgerRow"]) -> str:
    """Experiments with missing runs, how long they take one by one, and how many claims are open."""
    from ..experiment import times
    from ..experiment.pages import cut

    undecided = Counter(row.name for row in rows if row.verdict in UNDECIDED)
    table: list[tuple[str, ...]] = [("experiment", "runs", "on a CPU", "on a GPU", "open claims", "cases")]
    for entry, runs in whole.lacking().items():
        took = [times.about(*whole.seconds(device, runs)) for device in (times.CPU, times.GPU)]
        cases = "; ".join(dict.fromkeys(run.case for run in runs))
        table.append((str(entry), str(len(runs)), *took, str(undecided[str(entry)] or "."), cut(cases, SHOWN)))
    if len(table) == 1:
        return "No run is missing."
    return "\n".join(
        [*aligned(table), "", "A ? stands for runs of unknown length. Runs that experiments share count once."]
    )


# ---------------------------------------------------------------- running


def _run(chosen: Sequence["ExperimentFile"], effort: "Effort", out: Path | None, as_json: bool) -> int:
    from ..experiment.reproduce import reproduce

    done: list[Reproduction] = []
    code = 0
    try:
        for outcome in reproduce(chosen, effort, out, _say):
            done.append(outcome)
            if not as_json:
                print(f"{outcome.text or outcome.entry}{_note(outcome)}\n", flush=True)
    except KeyboardInterrupt:
        _say("fedcell: interrupted; the same command continues, runs that ended are kept")
        code = 130
    print(json.dumps([as_values(one) for one in done], indent=1) if as_json else summary(done, len(chosen), effort))
    return code or int(any(one.failed for one in done))


def as_values(outcome: "Reproduction") -> dict[str, Any]:
    """An outcome in values that JSON has."""
    from ..experiment.frame import as_values as claims

    return {
        "experiment": str(outcome.entry),
        "failed": outcome.failed,
        "note": outcome.note,
        "seeds": list(outcome.seeds),
        "claims": claims(outcome.claims, outcome.findings) if outcome.findings else [],
        "changed": {key: {"on_file": old, "now": new} for key, (old, new) in outcome.changed.items()},
    }


def summary(done: Sequence["Reproduction"], n_chosen: int, effort: "Effort") -> str:
    """Verdicts of all experiments, what failed, and what differs from the results on file."""
    table: list[tuple[str, ...]] = [("experiment", "claims", *WORDS, "")]
    for one in done:
        verdicts = counts(finding.verdict for finding in one.findings)
        table.append((str(one.entry), *verdicts, "failed" if one.failed else ""))
    if len(done) > 1:
        table.append(("all", *counts(finding.verdict for one in done for finding in one.findings), ""))
    lines = ["SUMMARY", *aligned(table)]
    lines += [
        f"{one.entry}/{key}: {new}; the result on file says {old}"
        for one in done
        for key, (old, new) in one.changed.items()
    ]
    failed = [one for one in done if one.failed]
    lines += [f"{one.entry} failed: {one.note}" for one in failed]
    if len(done) < n_chosen:
        lines.append(f"{n_chosen - len(done)} of {n_chosen} experiments were not reached")
    if effort.quick:
        lines.append("quick: a reduced grid is no evidence, so these verdicts stay out of the ledger")
    return "\n".join(lines)


def _note(outcome: "Reproduction") -> str:
    if not outcome.note:
        return ""
    return f"{': failed: ' if outcome.failed else chr(10) + '  '}{outcome.note}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
