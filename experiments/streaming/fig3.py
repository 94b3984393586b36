"""Figure 3: test accuracy of the cache rules and their two references, B = 300, b = 150, theta = 2/3."""

import streaming_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import verdict

RULES = ("full", "drsr", "srsr", "fifo", "lazy")
GRID = setting.grid(*((rule, 300, 150) for rule in RULES))
NEAR = 0.25  # of the distance between FULL and LAZY

CLAIMS = (
    Claim("beat_lazy", "DRSR, SRSR and FIFO outperform LAZY, particularly late", "no numbers in the text"),
    Claim("beat_fifo", "DRSR and SRSR outperform FIFO in the entire learning process", "no numbers in the text"),
    Claim("near_full", "DRSR and SRSR achieve performance close to FULL on the traffic data", "no numbers in the text"),
    Claim("lazy_gap", "the gain over LAZY is large on the traffic data, less so on FMNIST", "no numbers in the text"),
)


def _case(data: str, rule: str) -> str:
    return f"{data}/{setting.name(rule)}"


def cases(quick: bool) -> list[Case]:
    return setting.cases(GRID, quick)


def check(rows: list[Row]) -> list[Finding]:
    here = setting.ran(rows)
    ours = "; ".join(setting.table(rows, data, list(GRID)) for data in here)
    lazy = [
        setting.beats(setting.tail(rows, _case(data, rule)), setting.tail(rows, _case(data, "lazy")))
        for data in here
        for rule in ("drsr", "srsr", "fifo")
    ]
    fifo = [
        setting.beats(setting.third(rows, _case(data, rule), part), setting.third(rows, _case(data, "fifo"), part))
        for data in here
        for rule in ("drsr", "srsr")
        for part in range(3)
    ]
    found = [
        Finding("beat_lazy", ours, verdict(lazy), f"last {setting.TAIL} rounds: {sum(lazy)} of {len(lazy)} hold"),
        Finding("beat_fifo", ours, verdict(fifo), f"each third of the run: {sum(fifo)} of {len(fifo)} hold"),
    ]
    if "traffic" not in here:
        return [*found, *(Finding(key, "", "not run", setting.ABSENT) for key in ("near_full", "lazy_gap"))]
    return [*found, _near_full(rows, ours), _lazy_gap(rows)]


def _near_full(rows: list[Row], ours: str) -> Finding:
    mean = {rule: setting.tail(rows, _case("traffic", rule)).mean() for rule in RULES}
    parts = {rule: (mean["full"] - mean[rule]) / max(mean["full"] - mean["lazy"], 1e-9) for rule in ("drsr", "srsr")}
    held = [part <= NEAR for part in parts.values()]
    words = ", ".join(f"{rule} {part:.2f}" for rule, part in parts.items())
    return Finding("near_full", ours, verdict(held), f"share of the way from FULL to LAZY: {words}; limit {NEAR}")


def _lazy_gap(rows: list[Row]) -> Finding:
    gain = {}
    for data in ("traffic", "fashion"):
        best = sum(setting.tail(rows, _case(data, rule)) for rule in ("drsr", "srsr", "fifo")) / 3
        gain[data] = best - setting.tail(rows, _case(data, "lazy"))
    held = setting.beats(gain["traffic"], gain["fashion"])
    ours = ", ".join(f"{setting.TITLES[data]} {setting.spread(value)}" for data, value in gain.items())
    return Finding("lazy_gap", ours, verdict([held]), "mean gain of the three rules over LAZY, traffic > FMNIST")


def plot(rows: list[Row]) -> Figure:
    return setting.plot(rows, {setting.TITLES[data]: {data: list(GRID)} for data in setting.ran(rows)})


EXPERIMENT = Experiment(
    title="Streaming caches, Figure 3: accuracy of the cache rules", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
