"""How the claims of Figures 4.2 and 4.3 are judged: leads, speed and patterns."""

from collections.abc import Mapping, Sequence

from knowledge_setting import DATA, HEARD, PATTERNS, chance, name
from matplotlib.figure import Figure

from fedcell.experiment import Finding, Row
from fedcell.experiment.judging import ahead, early, finding, gain, missing, told_all
from fedcell.experiment.plots import curve, dress, panels, printed_lead


def keys_of(rows: list[Row], data: str, rules: Sequence[str], heard: int, mixed: bool) -> dict[str, str]:
    """The cases of some rules that were run, by their names."""
    every = {rule: name(data, rule, heard, mixed) for rule in rules}
    return {rule: key for rule, key in every.items() if not missing(rows, [key])}


def lead(rows: list[Row], claim: str, data: str, other: str, heard: int, printed: float, mixed: bool) -> Finding:
    """A lead in final accuracy over one method."""
    own, its = name(data, "KFL", heard, mixed), name(data, other, heard, mixed)
    part = gain(rows, own, its, printed, chance=chance, name=f"KFL over {other}")
    ours = f"{part}; {told_all(rows, keys_of(rows, data, ('KFL', other), heard, mixed))}"
    return finding(claim, part, ours, f"half to twice the printed {100 * printed:g} points; partly: any lead")


def faster(rows: list[Row], claim: str, data: str, others: Sequence[str], mixed: bool) -> Finding:
    """A higher accuracy in the first third of the rounds, at both numbers of devices."""
    parts = [
        ahead(rows, name(data, "KFL", n, mixed), key, early, chance, f"S={n} {other}")
        for n in HEARD
        for other, key in keys_of(rows, data, others, n, mixed).items()
    ]
    ours = "; ".join(f"S={n}: {told_all(rows, keys_of(rows, data, ('KFL', *others), n, mixed), early)}" for n in HEARD)
    return finding(claim, parts, ours, "mean accuracy of the first third of the rounds ahead")


def by_pattern(rows: list[Row], mixed: bool) -> Finding:
    """Whether many devices first learn soonest, on both data sets."""
    parts, ours = [], []
    for data, title in DATA.items():
        keys = {"Uniform": name(data, "KFL", 10, mixed)} | {one: name(data, one, 10, mixed) for one in PATTERNS}
        parts += [
            ahead(rows, keys["Descend"], keys[other], early, chance, f"{title} {other}")
            for other in ("Uniform", "Ascend")
        ]
        if not missing(rows, list(keys.values())):
            ours.append(f"{title}: early {told_all(rows, keys, early)}, final {told_all(rows, keys)}")
    return finding("patterns", parts, "; ".join(ours), "Descend ahead in the first third of the rounds")


def plot(
    rows: list[Row], rules: Sequence[str], mixed: bool, other: str, printed: Mapping[tuple[str, int], float]
) -> Figure:
    """Curves of the rules, with the printed leads over one of them, then of the patterns, for both data sets."""
    figure, axes = panels(4)
    for place, (data, title) in enumerate(DATA.items()):
        for index, (rule, heard) in enumerate((rule, heard) for heard in HEARD for rule in rules):
            curve(axes[place], rows, name(data, rule, heard, mixed), index, f"{rule}, {heard} devices")
        for (of, heard), margin in printed.items():
            if of == data:
                printed_lead(axes[place], rows, name(data, other, heard, mixed), margin)
        for index, (one, label) in enumerate({"KFL": "Uniform", **{one: one for one in PATTERNS}}.items()):
            curve(axes[2 + place], rows, name(data, one, 10, mixed), index, label)
        dress(axes[place], "round", "test accuracy", title)
        dress(axes[2 + place], "round", "test accuracy", f"{title}, KFL")
    return figure
