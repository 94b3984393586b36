"""CAFe Figure 3: the objective J over x = rate * T for N = 50, rate 1, weights 20 and 100. Needs no training."""

import numpy as np
from matplotlib.figure import Figure

from fedcell.experiment import Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import exact
from fedcell.experiment.plots import dress, panels
from fedcell.methods.cafe import theory as cafe
from fedcell.plan.cafe import plan


def check(rows: list[Row]) -> list[Finding]:
    best = plan(50, rate=1.0, waste_weight=20, comm_weight=100)
    curve = best.curve
    minima = sorted(best.minima)
    found = ", ".join(f"x = {one.deadline_s:.4f} (J = {one.objective:.3f})" for one in minima)
    between = (curve.deadline_s > minima[0].deadline_s) & (curve.deadline_s < minima[-1].deadline_s)
    top = curve.objective[between].max() if between.any() else -np.inf
    walled = len(minima) > 1 and top > max(one.objective for one in minima)
    wide = np.geomspace(1e-4, 1e3, 100_001)
    cost = cafe.metrics(50, 1, wide, cafe.answer_probability(wide, 1.0))
    lowest = float((20 * cost.wastage_s + 100 * cost.communication + cost.age_s).min())
    return [
        finding(
            "shape",
            exact("two minima and a higher value between them", walled),
            f"minima at {found}; highest value between them {top:.2f}",
            "two minima with a higher value between them, so J is not convex",
        ),
        finding(
            "search",
            exact("lowest", best.objective <= lowest),
            f"searched x from {curve.deadline_s[0]:.4f} to {curve.deadline_s[-1]:.2f}; best x = {best.deadline_s:.4f}",
            f"no point of a grid from 1e-4 to 1e3 is lower than the {best.objective:.4f} found (lowest: {lowest:.4f})",
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    best = plan(50, rate=1.0, waste_weight=20, comm_weight=100)
    figure, (ax,) = panels()
    shown = best.curve.deadline_s <= 20
    ax.plot(best.curve.deadline_s[shown], best.curve.objective[shown])
    for one in best.minima:
        note = f"{'global' if one.best else 'local'} minimum, x = {one.deadline_s:.3f}"
        ax.plot(one.deadline_s, one.objective, "o", label=note)
    dress(ax, "x = rate x deadline", "J(x)")
    return figure


EXPERIMENT = Experiment(
    title="CAFe Figure 3: J(x)",
    claims=(
        Claim("shape", "J(x) is not convex", "a curve that rises and falls again; no numbers"),
        Claim("search", "an exhaustive search in a bounded interval finds the best point", "no numbers", "check"),
    ),
    cases=lambda quick: [],
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
