"""CAFe Table 1: MCU with M = 1 against AWU when some clients are biased and always answer; T = 0.5."""

from functools import partial

from cafe_plots import accuracy_points
from cafe_setting import ahead, biased, case, told, values
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import missing, verdict
from fedcell.experiment.plots import dress, panels

PRINTED = {5: (0.812, 0.744), 10: (0.788, 0.762), 15: (0.488, 0.734), 20: (0.46, 0.747), 30: (0.1, 0.668)}
SCHEMES = ("mcu", "awu")
CHANCE, FLAT = 0.2, 0.15


def name(scheme: str, share: int) -> str:
    return f"{scheme} {share}%"


def cases(quick: bool) -> list[Case]:
    return [
        case(name(scheme, share), 0.5, partial(biased, share), quick, n_fast=share, scheme=scheme)
        for share in ((5, 30) if quick else PRINTED)
        for scheme in SCHEMES
    ]


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [name(scheme, share) for share in PRINTED for scheme in SCHEMES]):
        return []
    few = [ahead(rows, name("mcu", share), name("awu", share)) for share in (5, 10)]
    many = [ahead(rows, name("awu", share), name("mcu", share)) for share in (15, 20, 30)]
    mcu, awu = ({share: values(rows, name(scheme, share)).mean() for share in PRINTED} for scheme in SCHEMES)
    ours = {
        scheme: ", ".join(f"{share}%: {told(rows, name(scheme, share))}" for share in PRINTED) for scheme in SCHEMES
    }
    both = f"MCU {ours['mcu']}; AWU {ours['awu']}"
    spread = max(awu.values()) - min(awu.values())
    fallen = [mcu[30] < CHANCE, mcu[30] < mcu[5] - FLAT]
    return [
        Finding("few", both, verdict(few), f"MCU ahead by more than a standard error at 5 and 10 %: {sum(few)} of 2"),
        Finding(
            "many", both, verdict(many), f"AWU ahead by more than a standard error at 15, 20, 30 %: {sum(many)} of 3"
        ),
        Finding("collapse", ours["mcu"], verdict(fallen), f"MCU at 30 % below {CHANCE}, and {FLAT} below MCU at 5 %"),
        Finding(
            "flat",
            ours["awu"],
            "reproduced" if spread < FLAT else "not reproduced",
            f"AWU spans {spread:.3f} over all shares (asked: below {FLAT}; printed: 0.094)",
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels()
    for index, scheme in enumerate(SCHEMES):
        accuracy_points(ax, rows, list(PRINTED), [name(scheme, share) for share in PRINTED], index, scheme.upper())
        ax.plot(
            list(PRINTED),
            [values[index] for values in PRINTED.values()],
            "x",
            color="#888888",
            label=f"{scheme.upper()}, printed",
        )
    dress(ax, "biased clients (%)", "test accuracy")
    return figure


EXPERIMENT = Experiment(
    title="CAFe Table 1: biased clients that always answer",
    claims=(
        Claim("few", "with few biased clients MCU is comparatively better", "5 %: .812 / .744, 10 %: .788 / .762"),
        Claim("many", "with more of them AWU is ahead", "15 %: .488 / .734, 20 %: .46 / .747, 30 %: .1 / .668"),
        Claim("collapse", "the accuracy of MCU falls to chance", ".812 to .1"),
        Claim("flat", "AWU maintains its accuracy", ".744, .762, .734, .747, .668"),
    ),
    cases=cases,
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
