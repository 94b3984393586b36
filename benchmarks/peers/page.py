"""The tables of docs/performance.md and of the README, from the numbers that run.py stored.

python benchmarks/peers/page.py
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))  # the other benchmarks

from judge import Line, from_stored, verdicts
from peers import TITLES
from scaling_page import between, table
from tasks import TASKS

RESULTS = Path(__file__).parent / "results.json"
RESULTS_CUDA = Path(__file__).parent / "results-cuda.json"
PUBLISHED = Path(__file__).parent / "published.json"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
README = PAGE.parents[1] / "README.md"
SHORT = {  # tasks of the README in few words
    "a": "LeNet, 100 clients, 5 steps of 32",
    "b": "CIFAR-10 CNN of pfl, 50 of 1,000 clients, 5 steps of 10",
    "c": "logistic regression, 10 of 1,000 clients, 6 steps of 10",
    "e": "ResNet-8 with group norm, 10 of 100 clients, 10 steps of 32",
}
MARK, MARK_CUDA, MARK_SHORT = "<!-- peers: {} -->", "<!-- peers on a GPU: {} -->", "<!-- speed: {} -->"
MARK_PUBLISHED = "<!-- published length: {} -->"
PFL_PUBLISHED = {"one process": 10.1, "several processes": 4.2}  # minutes on one A100, arXiv:2404.06430
HEAD = [
    "",
    "seconds per round",
    "times fedcell's",
    "start-up (s)",
    "first round (s more)",
    "memory (MiB)",
    "model apart",
]


def summary(results: dict[str, Any]) -> str:
    """Machine and tables of all tasks that were measured."""
    return "\n\n".join(part for name in sorted(results) for part in section(name, results[name]))


def section(name: str, stored: dict[str, Any]) -> list[str]:
    """A task: what it is, its table, what was demanded and found, where it was measured."""
    rows = measured(stored)
    found = [line for line, _ in rows]
    bars = {} if stored.get("gpu") else TASKS[name].bars  # which are for CPUs
    demands = verdicts(found, bars, TASKS[name].same_model)
    judged = [[one.what, one.found, "yes" if one.holds else "**no**"] for one in demands]
    parts = [f"### Task {name}: {TASKS[name].title}", table(HEAD, [cells(line, when) for line, when in rows])]
    parts += [table(["demand", "found", "holds"], judged)] if judged else []
    told = [circumstances(one) for one in (stored, *stored.get("earlier", []))]
    return [*parts, *(f"{text}." for text in stored["refused"]), *told]


def measured(stored: dict[str, Any]) -> list[tuple[Line, str]]:
    """Every framework, with the day of its measurement if others were measured again since."""
    rows = [(line, "") for line in from_stored(stored)]
    for old in stored.get("earlier", []):
        rows += [(line, old["measured"]) for line in from_stored(old)[1:]]
    return rows


def cells(line: Line, when: str = "") -> list[str]:
    """A framework as a row of a table."""
    low, high = min(line.ratios), max(line.ratios)
    spread = f" ({low:.3g} to {high:.3g})" if high > low else ""
    return [
        ", ".join(part for part in (TITLES[line.peer], line.setting.replace("_", "-"), when) if part),
        f"{line.round_s:.3g}",
        f"{line.ratio:.3g}{spread}",
        f"{line.startup_s:.1f}",
        f"{line.warm_up_s:.2g}",
        f"{line.peak_byte / 2**20:,.0f}",
        f"{line.distance:.0e}",
    ]


def circumstances(stored: dict[str, Any]) -> str:
    """The machine, its load and the versions in a sentence."""
    machine = stored["machine"]
    loads = [trial["load_before"] for trials in stored["repetitions"] for trial in trials]
    versions = {name: found.get({"flower": "flwr"}.get(name, name)) for name, found in stored["versions"].items()}
    versions["fedcell"] = f"{versions['fedcell'] or ''} ({machine['revision'] or 'no commit known'})".strip()
    named = ", ".join(f"{TITLES[name]} {version}" for name, version in versions.items() if version)
    gpu = f"{stored['gpu']}, " if stored.get("gpu") else ""
    return (
        f"{gpu}{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB, "
        f"Python {machine['python']}, PyTorch {stored['versions']['fedcell']['torch']}; {named}. "
        f"{times(len(stored['repetitions']), 'repetition')} of {stored['rounds']} rounds{others(stored)} in turn, "
        f"{stored['measured']}; load average {min(loads):.1f} to {max(loads):.1f} before a run began."
    )


def others(stored: dict[str, Any]) -> str:
    """That peers played fewer rounds, and that processes started together, if they did."""
    few = stored.get("peer_rounds")
    fewer = f" (the others {few}; models are compared after as many)" if few else ""
    return fewer + ", the processes started together," * ("together" in stored)


def published(found: dict[str, Any]) -> str:
    """pfl's benchmark at its published length: fedcell's time beside pfl's."""
    machine, spent = found["machine"], (f"{found[key]:.3g} s" for key in ("startup_s", "first_s"))
    where = found["gpu"] or f"{machine['cores']} cores of an {machine['processor']}"
    rows = [[f"fedcell, {where}", f"{found['whole_s'] / 60:.2g}"]]
    rows += [[f"pfl as published, {how}, one A100", f"{minutes}"] for how, minutes in PFL_PUBLISHED.items()]
    round_ms, evaluated_ms = (1e3 * found[key] for key in ("round_s", "evaluated_s"))
    return "\n\n".join(
        [
            table([f"{found['rounds']:,} rounds, evaluated every {found['eval_every']}", "minutes"], rows),
            f"The whole process, with {' of start-up and '.join(spent)} for the first round; {round_ms:.3g} ms a "
            f"round, {evaluated_ms:.3g} ms one with evaluation on {found['tested']:,} images. "
            f"Python {machine['python']}, PyTorch {found['versions']['torch']}, "
            f"fedcell {machine['revision'] or '(no commit known)'}, {found['measured']}.",
        ]
    )


def times(count: int, word: str) -> str:
    """
    >>> times(1, "repetition"), times(3, "repetition")
    ('1 repetition', '3 repetitions')
    """
    return f"{count} {word}{'s' * (count != 1)}"


def short(cpu: dict[str, Any], gpu: dict[str, Any]) -> str:
    """How many times fedcell's seconds others take, on a CPU and on a GPU; a dash if that was not measured."""
    lines = []
    for name, title in SHORT.items():
        sides = [measured(one[name]) if name in one else [] for one in (cpu, gpu)]
        ratios = [{line.peer: f"{line.ratio:.3g}" for line, _ in found} for found in sides]
        lines.append([title, *(one.get(peer, "-") for one in ratios for peer in ("pfl", "plain"))])
    head = ["a round takes so many times as long", "pfl, CPU", "plain loop, CPU", "pfl, GPU", "plain loop, GPU"]
    machine = next(iter(cpu.values()))["machine"]
    where = f"{machine['cores']} cores of an {machine['processor']}"
    if gpu:
        where += f"; one {next(iter(gpu.values()))['gpu']}"
    return f"{table(head, lines)}\n\n{where}; `python benchmarks/peers/run.py`, with `--device cuda` on the GPU."


def stored() -> tuple[dict[str, Any], dict[str, Any]]:
    """(results of a CPU, results of a GPU)."""
    cpu, gpu = (json.loads(file.read_text()) if file.exists() else {} for file in (RESULTS, RESULTS_CUDA))
    return cpu, gpu


def write() -> None:
    """Rewrite the tables from what is stored."""
    cpu, gpu = stored()
    text = between(PAGE.read_text(), MARK, summary(cpu))
    text = between(text, MARK_CUDA, summary(gpu)) if gpu else text
    if PUBLISHED.exists():
        text = between(text, MARK_PUBLISHED, published(json.loads(PUBLISHED.read_text())))
    PAGE.write_text(text)
    README.write_text(between(README.read_text(), MARK_SHORT, short(cpu, gpu)))


if __name__ == "__main__":
    write()
