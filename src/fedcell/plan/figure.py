"""The curve of a plan's objective with its minima."""

from typing import TYPE_CHECKING

import numpy as np

from .cafe import CafePlan

if TYPE_CHECKING:  # only drawing imports matplotlib
    from matplotlib.figure import Figure

INK, LINE, BEST = "#333333", "#0072B2", "#D55E00"
HEADROOM = 12.0  # the curve is shown up to this multiple of its lowest value


def draw(plan: CafePlan, title: str) -> "Figure":
    """J over the deadline, both axes logarithmic, local minima hollow and the best one filled."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    ax = figure.subplots()
    shown = np.isfinite(plan.curve.objective) & (plan.curve.objective <= HEADROOM * plan.objective)
    few = len(plan.curve.deadline_s) < 50
    ax.plot(plan.curve.deadline_s[shown], plan.curve.objective[shown], color=LINE, marker="." if few else "")
    for one in plan.minima[:6]:
        if one.objective <= HEADROOM * plan.objective:
            ax.plot(one.deadline_s, one.objective, "o", color=BEST, mfc=BEST if one.best else "white", ms=8)
            note = f"{'best: ' if one.best else ''}{one.deadline_s:.4g} s"
            ax.annotate(note, (one.deadline_s, one.objective), (0, -16), textcoords="offset points", ha="center")
    ax.set(xscale="log", yscale="log", xlabel="deadline T (s)", ylabel="objective J", title=title)
    ax.margins(y=0.15)
    ax.grid(color="#dddddd", linewidth=0.7, which="both")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=INK)
    return figure
