"""CAFe Table 1: MCU with M = 1 against AWU when some clients are biased and always answer; T = 0.5.

The paper gives neither step sizes nor the length of a run, and the table depends on their product, the total step: far
along training saturates and biased clients do no harm. The runs of the step axis have a step of 0.05 in every round, so
that after round r the total step is 0.05 r; the table is judged at the total step at which MCU with 5 % biased clients
is nearest to its printed accuracy, which uses one of the ten numbers. This reading was chosen after results, so it has
fresh seeds. Claims that end in `long` are the same at the end of the runs of the other figures (1000 rounds, step 0.1
that falls, total step 55).
"""

from functools import partial

import numpy as np
from cafe_plots import look
from cafe_setting import LAST, accuracy, biased, case, values
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, SideBySide, beside, finding, main, percent
from fedcell.experiment.judging import Measure, Part, accuracies, gain, level, of_accuracy, told, under
from fedcell.experiment.plots import dress, panels

PRINTED = {5: (0.812, 0.744), 10: (0.788, 0.762), 15: (0.488, 0.734), 20: (0.46, 0.747), 30: (0.1, 0.668)}
SCHEMES = ("mcu", "awu")
FEW, MANY = (5, 10), (15, 20, 30)
STEP = 0.05  # of every round on the step axis
TOTALS = (10, 15, 20, 25, 30, 40, 50)
FRESH = (31, 32, 33, 34, 35)
CHANCE, FLAT = 0.2, 0.15
AXIS, LONG = "", "long"  # the runs of the step axis, and those of the other figures


def name(scheme: str, share: int, reading: str = AXIS) -> str:
    return f"{scheme} {share}% {reading or f'step={STEP:g}'}"


def cases(quick: bool) -> list[Case]:
    out = []
    for share in (5, 30) if quick else PRINTED:
        for scheme in SCHEMES:
            split = partial(biased, share)
            own = {"n_fast": share, "scheme": scheme}
            axis = case(name(scheme, share), 0.5, split, quick, **own, lr=STEP, decay="fixed")
            out += [axis._replace(seeds=FRESH), case(name(scheme, share, LONG), 0.5, split, quick, **own)]
    return out


# ---------------------------------------------------------------- the step axis


def at_total(total: float) -> Measure:
    """Mean of the last evaluations up to a total step; NaN for a run that is shorter."""

    def measure(row: Row) -> float:
        at = np.array(row["rounds"])
        before = accuracies(row)[at <= total / STEP]
        return float(before[-LAST:].mean()) if at[-1] >= total / STEP else np.nan

    return of_accuracy(measure)


def judged_at(rows: list[Row]) -> float:
    """The total step at which MCU with 5 % biased clients is nearest to the printed accuracy."""
    means = {total: values(rows, name("mcu", 5), at_total(total)).mean() for total in TOTALS}
    return min(means, key=lambda total: abs(means[total] - PRINTED[5][0]))


# ---------------------------------------------------------------- judging


def check(rows: list[Row]) -> list[Finding]:
    found = []
    if any(row["case"] == name("mcu", 5) for row in rows):
        total = judged_at(rows)
        found += _claims(rows, AXIS, at_total(total), f"total step {total:g}, the nearest to the printed MCU at 5 %")
    return found + _claims(rows, LONG, accuracy, "round 1000, total step 55")


def _claims(rows: list[Row], reading: str, value: Measure, where: str) -> list[Finding]:
    def lead(share: int) -> Part:
        mcu, awu = (name(scheme, share, reading) for scheme in SCHEMES)
        high, low = (mcu, awu) if share in FEW else (awu, mcu)
        return gain(rows, high, low, abs(PRINTED[share][0] - PRINTED[share][1]), value)

    def row(scheme: str) -> str:
        cells = (f"{share}%: {told(rows, name(scheme, share, reading), value)}" for share in PRINTED)
        return f"{scheme.upper()} {', '.join(cells)}"

    mcu, awu, many = (name("mcu", 5, reading), name("awu", 5, reading), name("mcu", 30, reading))
    fallen = [under(rows, many, CHANCE, value), gain(rows, mcu, many, PRINTED[5][0] - PRINTED[30][0], value)]
    flat = [level(rows, name("awu", share, reading), awu, FLAT, value) for share in list(PRINTED)[1:]]
    both, end = f"{row('mcu')}; {row('awu')}", f" {reading}".rstrip()
    return [
        finding(f"few{end}", [lead(share) for share in FEW], both, f"{where}; MCU ahead by the printed margins"),
        finding(f"many{end}", [lead(share) for share in MANY], both, f"{where}; AWU ahead by the printed margins"),
        finding(f"collapse{end}", fallen, row("mcu"), f"{where}; below {CHANCE}, and by the printed fall"),
        finding(f"flat{end}", flat, row("awu"), f"{where}; each share within {FLAT} of 5 %"),
    ]


# ---------------------------------------------------------------- table and figure


def table(rows: list[Row]) -> SideBySide:
    value = at_total(judged_at(rows)) if values(rows, name("mcu", 5)).size else accuracy
    columns = {
        scheme.upper(): {
            f"{share} %": (percent(printed[index]), told(rows, name(scheme, share), value))
            for share, printed in PRINTED.items()
        }
        for index, scheme in enumerate(SCHEMES)
    }
    return beside("biased clients", columns)


def plot(rows: list[Row]) -> Figure:
    figure, (table, axis) = panels(2)
    there = {row["case"] for row in rows}
    total = judged_at(rows) if name("mcu", 5) in there else TOTALS[0]
    for index, scheme in enumerate(SCHEMES):
        ran = [share for share in PRINTED if name(scheme, share) in there]
        numbers = [values(rows, name(scheme, share), at_total(total)) for share in ran]
        means, spreads = [one.mean() for one in numbers], [one.std() for one in numbers]
        table.errorbar(ran, means, spreads, capsize=3, label=scheme.upper(), **look(index))
        printed = [numbers[index] for numbers in PRINTED.values()]
        table.plot(list(PRINTED), printed, "x+"[index], color="#888888", label=f"{scheme.upper()}, printed")
        for share, line in ((5, "-"), (30, "--")):
            if name(scheme, share) in there:
                at = [values(rows, name(scheme, share), at_total(one)).mean() for one in TOTALS]
                colour = look(index)["color"]
                axis.plot(TOTALS, at, line, marker="o", color=colour, label=f"{scheme.upper()}, {share} %")
    axis.axvline(total, color="#888888", linestyle=":")
    dress(table, "biased clients (%)", "test accuracy", f"total step {total:g}")
    dress(axis, "total step", "test accuracy", "dotted: where the table is judged")
    return figure


CLAIMS = (
    Claim("few", "with few biased clients MCU is comparatively better", "5 %: .812 / .744, 10 %: .788 / .762"),
    Claim("many", "with more of them AWU is ahead", "15 %: .488 / .734, 20 %: .46 / .747, 30 %: .1 / .668"),
    Claim("collapse", "the accuracy of MCU falls to chance", ".812 to .1"),
    Claim("flat", "AWU maintains its accuracy", ".744, .762, .734, .747, .668"),
)

EXPERIMENT = Experiment(
    title="CAFe Table 1: biased clients that always answer",
    claims=(
        *CLAIMS,
        *(
            claim._replace(key=f"{claim.key} {LONG}", text=f"{claim.text}, at the end of 1000 rounds")
            for claim in CLAIMS
        ),
    ),
    cases=cases,
    plot=plot,
    check=check,
    table=table,
)

if __name__ == "__main__":
    main(EXPERIMENT)
