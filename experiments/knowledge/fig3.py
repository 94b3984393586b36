"""KFL Figure 4.3: networks of five widths, KFL against FedKD, 10 or 50 random devices per round; patterns."""

from knowledge_claims import by_pattern, faster, lead, plot
from knowledge_setting import DATA, HEARD, STORE, WIDTHS, case, config, name, patterns
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main

RULES = ("KFL", "FedKD")
PRINTED = {("mnist", 10): 0.0061, ("mnist", 50): 0.0059, ("cifar", 10): 0.04, ("cifar", 50): 0.0935}


def cases(quick: bool) -> list[Case]:
    out = []
    for data in DATA:
        settings = config(data, quick, model__widths=WIDTHS)
        for heard in HEARD[:1] if quick else HEARD:
            out += [case(name(data, rule, heard, mixed=True), settings, rule, heard) for rule in RULES]
        out += patterns(data, quick, mixed=True)
    return out


def check(rows: list[Row]) -> list[Finding]:
    found = [
        lead(rows, f"{data} gain{n}", data, "FedKD", n, printed, mixed=True) for (data, n), printed in PRINTED.items()
    ]
    return [*found, faster(rows, "mnist faster", "mnist", ["FedKD"], mixed=True), by_pattern(rows, mixed=True)]


def draw(rows: list[Row]) -> Figure:
    return plot(rows, RULES, True, "FedKD", PRINTED)


EXPERIMENT = Experiment(
    title="Figure 4.3: unequal models",
    claims=(
        Claim("mnist gain10", "MNIST: lead over FedKD with 10 devices", "0.61 points"),
        Claim("mnist gain50", "MNIST: lead over FedKD with 50 devices", "0.59 points"),
        Claim("mnist faster", "MNIST: KFL converges faster than FedKD", "curves"),
        Claim("cifar gain10", "CIFAR-10: lead over FedKD with 10 devices", "4 points"),
        Claim("cifar gain50", "CIFAR-10: lead over FedKD with 50 devices", "9.35 points"),
        Claim("patterns", "Descend converges faster than Uniform and Ascend, on both data sets", "curves"),
    ),
    cases=cases,
    plot=draw,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
