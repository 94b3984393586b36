"""Fits, tables and the figure of docs/scaling.md, from the numbers that scaling.py stored.

python benchmarks/scaling_page.py
"""

import json
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scaling import AXES, PER_CLIENT, RESULTS

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FIGURE = DOCS / "scaling.md", DOCS / "figures" / "scaling.png"
MEASURED, PROJECTED = "<!-- measured: {} -->", "<!-- ten million: {} -->"
N_CLIENTS = 10_000_000
CORES = (64, 1024)
FITTED = 3  # largest points that a power law is fitted to
COLUMNS = (  # of rounds, of whole runs
    ["parameters", "seconds per round", "train (core-s)", "rest (core-s)", "memory (MiB)"],
    ["seconds of the run", "core-seconds", "record (kB)", "memory (MiB)"],
)
Points = list[dict[str, Any]]


def fit(points: Points, key: str) -> tuple[float, float]:
    """(factor, exponent) of `factor * value ** exponent`, least squares in the logarithms of the largest points."""
    chosen = [one for one in points if one["value"]][-FITTED:]
    x, y = ([log(one[name]) for one in chosen] for name in ("value", key))
    exponent, start = np.polyfit(x, y, 1)
    return exp(float(start)), float(exponent)


def at(points: Points, key: str, value: float) -> float:
    """A fixed part and one per client, by the two largest points, continued to a value.

    The exponents say that this is the right form; a power law would lose the fixed part and end too low.
    """
    (x0, y0), (x1, y1) = ((one["value"], one[key]) for one in points[-2:])
    return float(y1 + (y1 - y0) / (x1 - x0) * (value - x1))


def amount(value: float, units: tuple[str, ...] = ("B", "kB", "MB", "GB", "TB")) -> str:
    """Bytes in words."""
    power = min(int(log(max(value, 1), 1000)), len(units) - 1)
    return f"{value / 1000**power:.3g} {units[power]}"


def tables(stored: dict[str, Any]) -> str:
    """One table per axis."""
    parts = [
        f"{stored['cores']} cores, which others used, too: load up to {stored['load_before']:.1f}. Exponents are "
        f"those of power laws through the {FITTED} largest points."
    ]
    for name in AXES:
        points = stored["axes"][name]
        parts += [table([AXES[name].title, *COLUMNS[name == "rounds"]], [cells(one) for one in points])]
        parts += [exponents(name, points)]
    return "\n\n".join(parts)


def cells(one: dict[str, Any]) -> list[str]:
    """A point as a row of its table."""
    if "record_byte" in one:
        middle = [f"{one['seconds']:.2f}", f"{one['run_core_s']:.2f}", f"{one['record_byte'] / 1e3:,.0f}"]
    else:
        middle = [f"{one['n_params']:,}", *(f"{one[key]:.4f}" for key in ("seconds", "train_core_s", "rest_core_s"))]
    return [f"{one['value']:,}", *middle, f"{one['peak_byte'] / 2**20:,.0f}"]


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def exponents(name: str, points: Points) -> str:
    """The fitted exponents of an axis in a sentence."""
    if name.startswith("shards"):
        alone, most = points[0]["seconds"], points[-1]
        return f"{most['value']} workers take {most['seconds'] / alone:.2f} times the seconds of one process."
    by = [dict(one, value=one["n_params"]) for one in points] if name == "width" else points
    words = {
        "seconds": "seconds",
        "train_core_s": "training",
        "rest_core_s": "rest",
        "run_core_s": "core-seconds",
        "peak_byte": "memory",
    }
    found = [f"{word} {fit(by, key)[1]:.2f}" for key, word in words.items() if key in points[0]]
    return f"Exponents: {', '.join(found)}."


def projection(stored: dict[str, Any]) -> str:
    """What 10 million devices would take, all of them in every round."""
    axes = [stored["axes"][name] for name in ("clients", "clients-lenet")]
    features = (64, 784)
    train = [at(points, "train_core_s", N_CLIENTS) for points in axes]
    rest = [at(points, "rest_core_s", N_CLIENTS) for points in axes]
    params = [points[0]["n_params"] for points in axes]
    rows: list[tuple[str, list[str]]] = [
        ("parameters", [f"{n:,}" for n in params]),
        ("updates of a round, 4 bytes per entry", [amount(4 * n * N_CLIENTS) for n in params]),
        (f"samples, {PER_CLIENT} per device", [amount(4 * n * PER_CLIENT * N_CLIENTS) for n in features]),
        ("memory of one process, continued", [amount(at(points, "peak_byte", N_CLIENTS)) for points in axes]),
        ("a row of the record, one letter per device", [amount(N_CLIENTS)] * 2),
        ("training of a round, core-seconds", [f"{value:,.0f}" for value in train]),
        ("the rest of a round, seconds in one process", [f"{value:,.0f}" for value in rest]),
    ]
    for cores in CORES:
        whole = [f"{t / cores + r:,.0f}" for t, r in zip(train, rest, strict=True)]
        rows.append((f"a round with training split over {cores:,} cores, seconds", whole))
    head = [f"{N_CLIENTS:,} devices, all in every round", "logistic", "LeNet"]
    largest = [points[-1]["value"] for points in axes]
    note = f"The largest measured points have {largest[0]:,} and {largest[1]:,} clients; the rest is extrapolated."
    return table(head, [[name, *values] for name, values in rows]) + f"\n\n{note}"


def draw(stored: dict[str, Any]) -> Figure:
    """Seconds and memory against every axis."""
    names = [name for name in AXES if not name.startswith("shards")]
    figure = Figure(figsize=(10, 6), layout="constrained")
    for ax, name in zip(figure.subplots(2, 3).flat, names, strict=True):
        points = stored["axes"][name]
        value = [one["n_params"] if name == "width" else one["value"] for one in points]
        for key, word in (
            ("seconds", "wall"),
            ("train_core_s", "training, core"),
            ("rest_core_s", "rest, core"),
            ("run_core_s", "core"),
        ):
            if key in points[0]:
                ax.loglog(value, [one[key] for one in points], marker="o", label=f"{word} (s)")
        right = ax.twinx()
        right.loglog(value, [one["peak_byte"] / 2**20 for one in points], "k:", label="memory (MiB)")
        right.set_ylim(1, 2000)
        ax.set_xlabel("parameters" if name == "width" else AXES[name].title)
        ax.set_ylabel("seconds of the run" if name == "rounds" else "seconds per round")
        right.set_ylabel("memory (MiB)")
        lines = [*ax.get_lines(), *right.get_lines()]
        ax.legend(lines, [str(line.get_label()) for line in lines], fontsize=7)
    return figure


def between(text: str, mark: str, part: str) -> str:
    """The text with what is between two marks replaced."""
    begin, end = mark.format("begin"), mark.format("end")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def write(stored: dict[str, Any]) -> None:
    """Rewrite the page and the figure."""
    text = between(PAGE.read_text(), MEASURED, tables(stored))
    PAGE.write_text(between(text, PROJECTED, projection(stored)))
    draw(stored).savefig(FIGURE, dpi=80)


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text()))
