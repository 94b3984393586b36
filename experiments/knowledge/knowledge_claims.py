"""How the claims of Figures 4.2 and 4.3 are judged: leads, speed and patterns."""

from collections.abc import Sequence

from knowledge_setting import DATA, HEARD, PATTERNS, name
from matplotlib.figure import Figure

from fedcell.experiment import Finding, Row
from fedcell.experiment.judging import ahead, curve, early, gap, margin, missing, told_all, verdict
from fedcell.experiment.plots import dress, panels


def keys_of(data: str, rules: Sequence[str], heard: int, mixed: bool) -> dict[str, str]:
    """The cases of some rules, by their names."""
    return {rule: name(data, rule, heard, mixed) for rule in rules}


def ran(rows: list[Row], data: str, rules: Sequence[str], mixed: bool, heard: Sequence[int] = HEARD) -> bool:
    """Whether all cases of a data set are there."""
    return not missing(rows, [key for n in heard for key in keys_of(data, rules, n, mixed).values()])


def lead(rows: list[Row], claim: str, data: str, other: str, heard: int, printed: float, mixed: bool) -> Finding:
    """A lead in final accuracy over one method."""
    own, its = name(data, "KFL", heard, mixed), name(data, other, heard, mixed)
    points = gap(rows, own, its)
    ours = f"{100 * points.mean():+.2f} points over {other}: {told_all(rows, {'KFL': own, other: its})}"
    why = "half of the printed lead, beyond its standard error; partly: a lead"
    return Finding(claim, ours, margin(points, printed), why)


def faster(rows: list[Row], claim: str, data: str, others: Sequence[str], mixed: bool) -> Finding:
    """A higher accuracy in the first third of the rounds, at both numbers of devices."""
    held = [
        ahead(rows, name(data, "KFL", n, mixed), name(data, other, n, mixed), early) for n in HEARD for other in others
    ]
    ours = "; ".join(f"S={n}: {told_all(rows, keys_of(data, ('KFL', *others), n, mixed), early)}" for n in HEARD)
    why = f"mean accuracy of the first third of the rounds ahead {sum(held)} of {len(held)} times"
    return Finding(claim, ours, verdict(held), why)


def by_pattern(rows: list[Row], mixed: bool) -> list[Finding]:
    """Whether many devices first learn soonest, on both data sets."""
    keys = {data: {one: name(data, one, 10, mixed) for one in PATTERNS} for data in DATA}
    if missing(rows, [key for of in keys.values() for key in of.values()]):
        return []
    held = [ahead(rows, of["descend"], of[other], early) for of in keys.values() for other in ("even", "ascend")]
    ours = "; ".join(
        f"{DATA[data]}: early {told_all(rows, of, early)}, final {told_all(rows, of)}" for data, of in keys.items()
    )
    why = f"Descend ahead in the first third of the rounds {sum(held)} of {len(held)} times"
    return [Finding("patterns", ours, verdict(held), why)]


def plot(rows: list[Row], rules: Sequence[str], mixed: bool) -> Figure:
    """Curves of the rules, then of the patterns, for both data sets."""
    figure, axes = panels(4)
    for column, (data, title) in enumerate(DATA.items()):
        for index, (rule, heard) in enumerate((rule, heard) for heard in HEARD for rule in rules):
            curve(axes[column], rows, name(data, rule, heard, mixed), index, f"{rule}, {heard} devices")
        for index, one in enumerate(PATTERNS):
            curve(axes[2 + column], rows, name(data, one, 10, mixed), index, one)
        dress(axes[column], "round", "test accuracy", title)
        dress(axes[2 + column], "round", "test accuracy", f"{title}, KFL")
    return figure
