"""CAFe Figure 6: g(M) = M Pr(n' >= M - 1) for N = 100 and T = 0.5. Needs no training."""

import numpy as np
from cafe_setting import N_CLIENTS
from matplotlib.figure import Figure

from fedcell.experiment import Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import exact
from fedcell.experiment.plots import dress, panels
from fedcell.methods.cafe import theory as cafe

QUORUMS = np.arange(1, N_CLIENTS + 1)


def gains() -> np.ndarray:
    return cafe.noise_gain(N_CLIENTS, QUORUMS, cafe.answer_probability(0.5, 1.0))


def check(rows: list[Row]) -> list[Finding]:
    g = gains()
    best = int(QUORUMS[g.argmax()])
    drop = 1 - g[39] / g.max()
    return [
        finding(
            "peak",
            exact("33", abs(best - 33) <= 1),
            f"argmax M = {best}, g = {g.max():.4f}",
            "exact binomial sums; the maximum lies within one of 33",
        ),
        finding(
            "fall",
            exact("falls", drop > 0.25),
            f"g(33) = {g[32]:.2f}, g(36) = {g[35]:.2f}, g(40) = {g[39]:.2f}, g(45) = {g[44]:.2f}",
            f"g loses {100 * drop:.0f} % from its maximum to M = 40 (asked: more than 25 %)",
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels()
    ax.plot(QUORUMS, gains())
    ax.axvline(33, color="#888888", linestyle=":")
    dress(ax, "M", "g(M)", "T = 0.5; dotted: M = 33")
    return figure


EXPERIMENT = Experiment(
    title="CAFe Figure 6: g(M), T = 0.5",
    claims=(
        Claim("peak", "g(M) has its maximum around M = 33", "33"),
        Claim("fall", "g(M) decreases rapidly as M comes closer to 40", "a curve; no numbers"),
    ),
    cases=lambda quick: [],
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
