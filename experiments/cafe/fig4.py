"""CAFe Figure 4: accuracy after 1000 rounds over the quorum M, several deadlines T, three classes per client.

The paper names neither its T nor its M. Here every T gets M = 1 and the quorums at which about 80 %, 50 %
and 10 % of the rounds succeed: smaller quorums hardly ever fail and are then M = 1 by construction. With very
unequal numbers of samples the longer T get M = 1 and the peak of g(M), where the paper expects the best quorum.
"""

from itertools import pairwise

import numpy as np
from cafe_plots import accuracy_points
from cafe_setting import N_CLIENTS, accuracy, ahead, case, told, triples, unequal_triples
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import wider
from fedcell.experiment.plots import dress, panels
from fedcell.methods.cafe import theory as cafe

DEADLINES = (0.3, 0.5, 1.0, 2.0)
SUCCESS = (0.8, 0.5, 0.1)  # of the quorums beside M = 1
LONG = DEADLINES[2:]  # of unequal clients: the paper sees a larger M gain there "for larger T values"
EVERY = np.arange(1, N_CLIENTS + 1)


def quorums(deadline_s: float) -> list[int]:
    """1, then the quorums whose success probability is nearest to `SUCCESS`."""
    chance = cafe.success(N_CLIENTS, EVERY, cafe.answer_probability(deadline_s, 1.0))
    return [1, *(int(EVERY[np.abs(chance - wanted).argmin()]) for wanted in SUCCESS)]


def peak(deadline_s: float) -> int:
    """The quorum with the largest g(M)."""
    return int(EVERY[cafe.noise_gain(N_CLIENTS, EVERY, cafe.answer_probability(deadline_s, 1.0)).argmax()])


def name(deadline_s: float, quorum: int) -> str:
    return f"T={deadline_s:g} M={quorum}"


def unequal(deadline_s: float, quorum: int) -> str:
    return f"unequal {name(deadline_s, quorum)}"


def cases(quick: bool) -> list[Case]:
    grid = [(t, m) for t in (DEADLINES[:2] if quick else DEADLINES) for m in quorums(t)]
    skewed = [(t, m) for t in (LONG[:1] if quick else LONG) for m in (1, peak(t))]
    return [
        *(case(name(t, m), t, triples, quick, quorum=m) for t, m in grid),
        *(case(unequal(t, m), t, unequal_triples, quick, quorum=m) for t, m in skewed),
    ]


def check(rows: list[Row]) -> list[Finding]:
    ours = "; ".join(f"T={t:g}: " + ", ".join(f"M={m} {told(rows, name(t, m))}" for m in quorums(t)) for t in DEADLINES)
    better = [ahead(rows, name(t, 1), name(t, m)) for t in DEADLINES for m in quorums(t)[1:]]
    grows = [wider(rows, lead_at(long), lead_at(short), accuracy) for short, long in pairwise(DEADLINES)]
    skewed = [(t, m) for t in LONG for m in (1, peak(t))]
    return [
        finding("one", better, ours, "M = 1 against every larger M, at every T"),
        finding(
            "growth", grows, "", "lead of M = 1 over the M that succeeds half of the time, from each T to the next"
        ),
        finding(
            "unequal",
            [ahead(rows, unequal(t, peak(t)), unequal(t, 1)) for t in LONG],
            ", ".join(f"{name(t, m)} {told(rows, unequal(t, m))}" for t, m in skewed),
            "30 to 3000 samples of a client; the peak of g(M) against M = 1",
        ),
    ]


def lead_at(deadline_s: float) -> tuple[str, str]:
    """M = 1 and the quorum that half of the rounds meet."""
    return name(deadline_s, 1), name(deadline_s, quorums(deadline_s)[2])


def plot(rows: list[Row]) -> Figure:
    figure, (same, skewed) = panels(2)
    for index, t in enumerate(DEADLINES):
        accuracy_points(same, rows, quorums(t), [name(t, m) for m in quorums(t)], index, f"T = {t:g}")
        both = (1, peak(t))
        accuracy_points(skewed, rows, both, [unequal(t, m) for m in both], index, f"T = {t:g}")  # of `LONG` alone
    dress(same, "least number of responders M", "test accuracy", "as many samples each")
    dress(skewed, "least number of responders M", "test accuracy", "30 to 3000 samples of a client")
    return figure


EXPERIMENT = Experiment(
    title="CAFe Figure 4: accuracy over M, non-i.i.d. data",
    claims=(
        Claim("one", "M = 1 in general yields a higher accuracy than larger M", "curves; no numbers"),
        Claim("growth", "the advantage of M = 1 becomes more prominent as T increases", "curves; no numbers"),
        Claim(
            "unequal",
            "with very unequal numbers of samples a larger M than 1 is best on non-i.i.d. data as well, for larger T",
            "said to be seen; no numbers",
        ),
    ),
    cases=cases,
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
