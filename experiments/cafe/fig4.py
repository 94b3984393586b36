"""CAFe Figure 4: accuracy after 1000 rounds over the quorum M, several deadlines T, three classes per client.

The paper names neither its T nor its M. Here every T gets M = 1 and the quorums at which about 80 %, 50 %
and 10 % of the rounds succeed: smaller quorums hardly ever fail and are then M = 1 by construction.
"""

from itertools import pairwise

import numpy as np
from cafe_plots import accuracy_points
from cafe_setting import N_CLIENTS, ahead, case, lead, told, triples
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import missing, verdict
from fedcell.experiment.plots import dress, panels
from fedcell.theory import cafe

DEADLINES = (0.3, 0.5, 1.0, 2.0)
SUCCESS = (0.8, 0.5, 0.1)  # of the quorums beside M = 1


def quorums(deadline_s: float) -> list[int]:
    """1, then the quorums whose success probability is nearest to `SUCCESS`."""
    every = np.arange(1, N_CLIENTS + 1)
    chance = cafe.success(N_CLIENTS, every, cafe.answer_probability(deadline_s, 1.0))
    return [1, *(int(every[np.abs(chance - wanted).argmin()]) for wanted in SUCCESS)]


def name(deadline_s: float, quorum: int) -> str:
    return f"T={deadline_s:g} M={quorum}"


def cases(quick: bool) -> list[Case]:
    grid = [(t, m) for t in (DEADLINES[:2] if quick else DEADLINES) for m in quorums(t)]
    return [case(name(t, m), t, triples, quick, quorum=m) for t, m in grid]


def check(rows: list[Row]) -> list[Finding]:
    run = [t for t in DEADLINES if not missing(rows, [name(t, m) for m in quorums(t)])]
    if not run:
        return []
    best = [_best(rows, t) for t in run]
    told_all = "; ".join(f"T={t:g}: " + ", ".join(f"M={m} {told(rows, name(t, m))}" for m in quorums(t)) for t in run)
    reason = "holds for a T when no larger M beats M = 1 and M = 1 beats at least one, by more than a standard error"
    found = [Finding("one", told_all, verdict(best), f"{reason}: {sum(best)} of {len(best)} deadlines")]
    if len(run) == len(DEADLINES):
        found.append(_growth(rows))
    return found


def _best(rows: list[Row], deadline_s: float) -> bool:
    one, larger = name(deadline_s, 1), [name(deadline_s, m) for m in quorums(deadline_s)[1:]]
    return not any(ahead(rows, key, one) for key in larger) and any(ahead(rows, one, key) for key in larger)


def _growth(rows: list[Row]) -> Finding:
    """The lead of M = 1 over the quorum that half of the rounds meet, over T."""
    leads = [lead(rows, name(t, 1), name(t, quorums(t)[2])) for t in DEADLINES]
    means = [float(lead.mean()) for lead in leads]
    rises = [later > earlier for earlier, later in pairwise(means)]
    ours = ", ".join(
        f"T={t:g}: {mean:+.3f}±{lead.std():.3f}" for t, mean, lead in zip(DEADLINES, means, leads, strict=True)
    )
    reason = (
        f"lead of M = 1 over the M that succeeds half of the time; it rises in {sum(rises)} of {len(rises)} steps of T"
    )
    return Finding("growth", ours, verdict(rises), reason)


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels()
    for index, t in enumerate(DEADLINES):
        accuracy_points(ax, rows, quorums(t), [name(t, m) for m in quorums(t)], index, f"T = {t:g}")
    dress(ax, "least number of responders M", "test accuracy")
    return figure


EXPERIMENT = Experiment(
    title="CAFe Figure 4: accuracy over M, non-i.i.d. data",
    claims=(
        Claim("one", "M = 1 in general yields a higher accuracy than larger M", "curves; no numbers"),
        Claim("growth", "the advantage of M = 1 becomes more prominent as T increases", "curves; no numbers"),
    ),
    cases=cases,
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
