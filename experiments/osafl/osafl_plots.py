"""How the figures on OSAFL look."""

from collections.abc import Sequence

import numpy as np
import osafl_setting as setting
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcell.experiment import Row
from fedcell.experiment.plots import dress, panels
from fedcell.report.figure import COLOURS, LINES


def curves(axes: Axes, rows: Sequence[Row], model: str, k: int, what: str, entries: Sequence[str]) -> None:
    """Mean and spread over seeds of every entry that was run, and the ceiling of the data."""
    for index, entry in enumerate(entries):
        name = setting.key(model, k, entry)
        if not setting.of_case(rows, name):
            continue
        at, every = setting.curve(rows, name, what)
        mean, deviation = every.mean(axis=0), every.std(axis=0)
        look = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index // len(COLOURS) % len(LINES)]}
        label = setting.TITLES.get(entry, entry)
        if not np.isfinite(every).all():
            label, mean, deviation = f"{label}, diverged", np.where(np.isfinite(mean), mean, np.nan), 0 * mean
        axes.plot(at, mean, label=label, linewidth=1.2, **look)
        axes.fill_between(at, mean - deviation, mean + deviation, alpha=0.15, color=look["color"], linewidth=0)
    limits = setting.ceilings([row for row in rows if row["case"].startswith(f"{model} ")], k)
    if limits:
        height = np.mean([one.on_test if what == "accuracy" else one.loss for one in limits])
        label = "data ceiling" if what == "accuracy" else "loss floor of the data"
        axes.axhline(height, color="#888888", linewidth=1, linestyle=":", label=label)
    if what == "loss":
        axes.set_ylim(top=min(axes.get_ylim()[1], 5.5))


def grid(rows: Sequence[Row], models: Sequence[str], what: str) -> Figure:
    """One panel per model and K that was run."""
    ran = [(model, k) for model in models for k in (1, 2) if setting.ran(rows, model, k)]
    figure, places = panels(len(ran))
    for axes, (model, k) in zip(places, ran, strict=False):
        curves(axes, rows, model, k, what, list(setting.TITLES))
        dress(axes, "round", f"test {what}", f"{setting.MODELS[model].title}, K = {k}")
    return figure


def table(
    rows: Sequence[Row], models: Sequence[str], k: int, printed: dict[str, dict[str, tuple[float, float]]]
) -> Figure:
    """Best accuracies beside the printed ones, with the ceiling of our draw."""
    ran = [model for model in models if setting.ran(rows, model, k)]
    figure, places = panels(len(ran), columns=3, height=4.2)
    for axes, model in zip(places, ran, strict=False):
        entries = [entry for entry in setting.TITLES if setting.ran(rows, model, k, [entry])]
        for place, entry in enumerate(entries):
            found = setting.values(rows, setting.key(model, k, entry))
            axes.errorbar(
                place,
                found.mean(),
                found.std(),
                fmt="o",
                color=COLOURS[0],
                capsize=3,
                label="here" if not place else None,
            )
            paper = printed[model].get(setting.printed_as(entry))
            if paper:
                axes.plot(place, paper[0], "x", color="#888888", label="printed" if not place else None)
        limits = setting.ceilings([row for row in rows if row["case"].startswith(f"{model} ")], k)
        axes.axhline(
            np.mean([one.on_test for one in limits]), color="#888888", linestyle=":", label="data ceiling (here)"
        )
        dress(axes, "", "best test accuracy", f"{setting.MODELS[model].title}, K = {k}")
        names = [setting.TITLES[entry].replace(" (", "\n(") for entry in entries]
        axes.set_xticks(range(len(entries)), names, rotation=90, fontsize=7)
    return figure
