"""KFL Figure 4.2: equal networks, KFL against FedRep, APFL and FedAvg, 10 or 50 random devices per round; patterns."""

from knowledge_claims import by_pattern, faster, keys_of, lead, plot, ran
from knowledge_setting import DATA, HEARD, MINI, STORE, case, config, name, patterns
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, early, gap, missing, told, told_all, verdict

RULES = ("KFL", "FedRep", "APFL", "FedAvg")
PRINTED = {("mnist", 10): 0.021, ("mnist", 50): 0.0096, ("cifar", 10): 0.0665}  # lead over FedRep
LEVEL = 0.02  # accuracy by which two methods may differ and be level
ALONE = "KFL alone"


def cases(quick: bool) -> list[Case]:
    out = []
    for data in DATA:
        settings = config(data, quick)
        for heard in HEARD[:1] if quick else HEARD:
            out += [case(name(data, rule, heard), settings, rule, heard) for rule in RULES]
        out.append(case(name(data, ALONE, 10), settings, "KFL", 10, pull=0.0))
        out += patterns(data, quick, mixed=False)
    if not quick:
        out += [case(name(data, rule, 10), config(data, quick), rule, 10) for data in MINI for rule in RULES]
    return out


def check(rows: list[Row]) -> list[Finding]:
    found = [finding for data in DATA if ran(rows, data, RULES, mixed=False) for finding in _of(rows, data)]
    for data in DATA:
        if not missing(rows, [name(data, "KFL", 10), name(data, ALONE, 10)]):
            found.append(_alone(rows, data))
    for data in MINI:
        if ran(rows, data, RULES, mixed=False, heard=(10,)):
            printed = PRINTED[data.removesuffix("64"), 10]
            found.append(lead(rows, f"{data} gain10", data, "FedRep", 10, printed, mixed=False))
    if all(ran(rows, data, RULES, mixed=False) for data in DATA):
        found.append(_fewer(rows))
    return found + by_pattern(rows, mixed=False)


def _of(rows: list[Row], data: str) -> list[Finding]:
    """The claims about one data set."""
    others = RULES[1:]
    best = [_above(rows, data, n, other) for n in HEARD for other in others]
    accuracy = "; ".join(f"S={n}: {told_all(rows, keys_of(data, RULES, n, mixed=False))}" for n in HEARD)
    why = f"KFL ahead of a benchmark {sum(best)} of {len(best)} times"
    if data == "cifar":
        why += f", or less than {LEVEL} behind at S=50"
    out = [
        Finding(f"{data} best", accuracy, verdict(best), why),
        lead(rows, f"{data} gain10", data, "FedRep", 10, PRINTED[data, 10], mixed=False),
    ]
    if data == "mnist":
        gain = lead(rows, "mnist gain50", data, "FedRep", 50, PRINTED[data, 50], mixed=False)
        return [*out, gain, faster(rows, "mnist faster", data, others, mixed=False)]
    return [*out, _level(rows)]


def _above(rows: list[Row], data: str, heard: int, other: str) -> bool:
    """Ahead of another method; on CIFAR-10 with 50 devices level is stated, and enough."""
    own, its = name(data, "KFL", heard), name(data, other, heard)
    level = data == "cifar" and heard == 50 and gap(rows, own, its).mean() > -LEVEL
    return level or ahead(rows, own, its)


def _level(rows: list[Row]) -> Finding:
    own, its = name("cifar", "KFL", 50), name("cifar", "FedRep", 50)
    held = [abs(gap(rows, own, its).mean()) <= LEVEL, ahead(rows, own, its, early)]
    pair = {"KFL": own, "FedRep": its}
    ours = f"final {told_all(rows, pair)}; first third {told_all(rows, pair, early)}"
    return Finding("cifar level50", ours, verdict(held), f"within {LEVEL} at the end, ahead in the first third")


def _fewer(rows: list[Row]) -> Finding:
    few, many = ({d: gap(rows, name(d, "KFL", n), name(d, "FedRep", n)).mean() for d in DATA} for n in HEARD)
    ours = ", ".join(f"{DATA[d]} {100 * few[d]:+.2f} (S=10) and {100 * many[d]:+.2f} (S=50) points" for d in DATA)
    held = [bool(few[d] > many[d] and few[d] > 0) for d in DATA]
    return Finding("fewer", ours, verdict(held), "a lead over FedRep that is larger at S=10, on both data sets")


def _alone(rows: list[Row], data: str) -> Finding:
    own, alone = name(data, "KFL", 10), name(data, ALONE, 10)
    ours = f"{100 * gap(rows, own, alone).mean():+.2f} points: {told(rows, own)} against {told(rows, alone)}"
    held = [ahead(rows, own, alone)]
    return Finding(f"{data} alone", ours, verdict(held), "final accuracy ahead by more than the standard error")


def draw(rows: list[Row]) -> Figure:
    return plot(rows, RULES, mixed=False)


def _claims(data: str) -> list[Claim]:
    where, word = DATA[data], "more" if data == "mnist" else "at least as"
    best = f"{where}: KFL is {word} accurate than FedRep, FedAvg and APFL with 10 and 50 devices"
    out = [Claim(f"{data} best", best.replace("as accurate than", "as accurate as"), "curves")]
    if data == "cifar":
        level = "CIFAR-10, 50 devices: about as accurate as FedRep, but sooner"
        gain = Claim("cifar gain10", "CIFAR-10: lead with 10 devices", "6.65 points; over FedRep, as it seems")
        return [*out, gain, Claim("cifar level50", level, "stated; no numbers")]
    return [
        *out,
        Claim("mnist gain10", "MNIST: lead over FedRep with 10 devices", "2.1 points"),
        Claim("mnist gain50", "MNIST: lead over FedRep with 50 devices", "0.96 points"),
        Claim("mnist faster", "MNIST: KFL converges faster", "curves"),
    ]


EXPERIMENT = Experiment(
    title="Figure 4.2: equal models",
    claims=[
        *(claim for data in DATA for claim in _claims(data)),
        Claim("fewer", "the lead is larger with fewer devices", "2.1 against 0.96 points on MNIST"),
        Claim(
            "patterns",
            "many devices first, few later (Descend) converges faster than Uniform and Ascend, on both data sets",
            "curves",
        ),
        *(Claim(f"{d} gain10", f"{title}: lead over FedRep with 10 devices", "no runs") for d, title in MINI.items()),
        *(
            Claim(f"{d} alone", f"{title}, 10 devices: KFL ends above the same devices training alone", "no runs")
            for d, title in DATA.items()
        ),
    ],
    cases=cases,
    plot=draw,
    check=check,
    store=STORE,
)


if __name__ == "__main__":
    main(EXPERIMENT)
