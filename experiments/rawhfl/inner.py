"""What a local round is: one update by the mean gradient of its 10 mini-batches, or one update by each of them.

The paper's sentence allows both, and both cost the same time and energy. How soon accuracies level off tells them
apart: for upsilon = 0.7 the paper sees a plateau after about 14 global rounds, and for upsilon in [0.1, 0.8] all good
methods end at the mean of upsilon.
"""

import rawhfl_setting as setting
from fig6 import MARGIN, PLATEAU, PLATEAU_ROUND, reaches
from matplotlib.figure import Figure
from rawhfl_ledger import EDGE_ROUNDS
from rawhfl_plots import curves

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, near, spread
from fedcell.experiment.measures import at_round
from fedcell.experiment.plots import dress, panels

ENTRIES = tuple(f"{entry} {reading}" for entry in (setting.OURS, "central") for reading in setting.READINGS)
STAYS = ("0.7", "mixed")
RULE_NEAR = 0.02  # of "most similar" on the test set

CLAIMS = tuple(
    Claim(f"{claim}_{reading}", f"{text}, read as {words}", printed)
    for reading, words in (("average", "one update by the mean gradient"), ("sequential", "ten updates"))
    for claim, text, printed in (
        ("plateau", "RawHFL Z = 4 reaches its plateau early for upsilon = 0.7", "after about 14 rounds"),
        ("end", "RawHFL Z = 4 ends at the mean of upsilon", "0.7013 for 0.7, 0.4485 for [0.1, 0.8]"),
    )
)


def cases(quick: bool) -> list[Case]:
    return setting.cases(STAYS, ENTRIES, quick)


def check(rows: list[Row]) -> list[Finding]:
    return [finding for reading in setting.READINGS for finding in (_plateau(rows, reading), _end(rows, reading))]


def _plateau(rows: list[Row], reading: str) -> Finding:
    entry = f"{setting.OURS} {reading}"
    if not setting.lasted(rows, "0.7", [entry]):
        return finding(f"plateau_{reading}", ())
    part = near(rows, setting.key("0.7", entry), PLATEAU_ROUND, MARGIN, reaches(PLATEAU), "round")
    then = setting.values(rows, "0.7", entry, at_round(PLATEAU_ROUND * EDGE_ROUNDS))
    ours = f"{part}; accuracy at round {PLATEAU_ROUND} {spread(then)}"
    rule = f"first round with {PLATEAU:.0%} of its end within {MARGIN} of {PLATEAU_ROUND}"
    return finding(f"plateau_{reading}", part, ours, rule)


def _end(rows: list[Row], reading: str) -> Finding:
    parts, words = [], []
    for stay in STAYS:
        for entry in (setting.OURS, "central"):
            if setting.lasted(rows, stay, [f"{entry} {reading}"]):
                found = setting.values(rows, stay, f"{entry} {reading}")
                words.append(f"{setting.TITLES[entry]} {spread(found)} (upsilon {stay})")
        if setting.lasted(rows, stay, [f"{setting.OURS} {reading}"]):
            off = setting.values(rows, stay, f"{setting.OURS} {reading}", setting.over("similar_on_test", stay))
            parts.append(inside(f"upsilon {stay}", off, -RULE_NEAR, RULE_NEAR, "points"))
            words.append(f"RawHFL minus most similar {spread(off)}; {setting.told_ceiling(rows, stay)}")
    rule = f"within {RULE_NEAR} of always naming the most similar file, on the same test sets"
    return finding(f"end_{reading}", parts, "; ".join(words), rule)


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(len(STAYS))
    for axes, stay in zip(places, STAYS, strict=True):
        curves(axes, rows, stay, "accuracy", ENTRIES)
        dress(axes, "global round", "test accuracy", f"upsilon {setting.STAY[stay]}")
    return figure


EXPERIMENT = Experiment(
    title="RawHFL: two readings of a local round",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
