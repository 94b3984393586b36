"""How Tables II to IV are judged: accuracies from the runs, energies from ten drops without training."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Claim, Experiment, Finding, Row, SideBySide, beside, finding, percent
from fedcell.experiment.judging import exact, inside, near, spread, within
from fedcell.experiment.plots import dress, panels
from fedcell.report.figure import COLOURS
from fedcell.types import Floats

Printed = Mapping[str, tuple[float, float]]  # method -> (accuracy, its spread over users)

JOULE: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "rawhfl Z=2": (1508.33, 205.47),
        "rawhfl Z=4": (2848.16, 273.85),
        "rawhfl Z=6": (4137.94, 401.28),
        "h_fedavg m1": (490.23, 1391.70),
        "h_fedavg m2": (11226.51, 413.97),
        "h_fedavg ub": (13836.46, 519.91),
        "h_fedavg relay": (3455.56, 131.95),
    }
)
ORDER = ("h_fedavg m1", "rawhfl Z=2", "rawhfl Z=4", "h_fedavg relay", "rawhfl Z=6", "h_fedavg m2", "h_fedavg ub")
RULE_NEAR = 0.02  # of "most similar" on the test set
GAP_NEAR = 0.03  # no lead of Central-SGD
ABOVE, BELOW = 0.01, 0.04  # the Bayes ceiling on the test set
ONE_FILE = 0.02
USERS_NEAR = 0.03
CLOSE = 0.2  # relative, of energies
NOTHING, MOST = 0.05, 0.6  # of the energy of H-FedAvg-UB
SLOT = 0.15  # relative
SAME = 1e-4  # stored numbers have five digits


# ---------------------------------------------------------------- claims


def claims(printed: Printed, stay: str, gap: float) -> tuple[Claim, ...]:
    """What a table says about accuracies, and that its energies are those of the others."""
    words = ", ".join(f"{setting.TITLES[name]} {a:.4f}±{b:.4f}" for name, (a, b) in printed.items())
    of = {name: value for name, (value, _) in printed.items()}
    spans = f"{min(of[e] for e in setting.LEVEL):.4f} to {max(of[e] for e in setting.LEVEL):.4f}"
    return (
        Claim("values", f"final accuracy of every method, upsilon {setting.STAY[stay]}", words),
        Claim("level", "RawHFL with any Z, H-FedAvg-UB and FedAvg-UB end alike", spans),
        Claim("similar", "they end at the mean of upsilon: they learn which file is most similar", spans),
        Claim(
            "central",
            "Central-SGD is at least as good as RawHFL",
            f"{of['central']:.4f} against {of[setting.OURS]:.4f}",
        ),
        Claim("gap", "the lead of Central-SGD over RawHFL Z = 4", f"{gap:.4f}"),
        Claim(
            "bayes",
            "Central-SGD meets the Bayes ceiling of the requests, and nobody is above it",
            f"{of['central']:.4f}",
        ),
        Claim("weak", "M1 < M2 << RawHFL", f"{of['h_fedavg m1']:.4f}, {of['h_fedavg m2']:.4f}, {of[setting.OURS]:.4f}"),
        Claim("popular", "Top-Popular has the share of one file", f"{of['top_popular']:.4f}"),
        Claim("users", "spread of the accuracy over users", words),
        Claim("energy_free", "no energy depends on upsilon", "the same energies in Tables II, III and IV", "check"),
    )


ENERGY_CLAIMS = (
    Claim(
        "joules",
        "total energy of every method",
        ", ".join(f"{setting.TITLES[e]} {a:.0f}±{b:.0f}" for e, (a, b) in JOULE.items()) + " J",
    ),
    Claim("order", "energy: " + " < ".join(setting.TITLES[entry] for entry in ORDER), "as above"),
    Claim("ends", "M1 spends nearly nothing, M2 most of what H-FedAvg-UB does", "3.5 % and 81 % of H-FedAvg-UB"),
    Claim("times", "H-FedAvg-UB spends E = 4 times as much as FedAvg-UB", "13836.46 / 3455.56 = 4.004", "check"),
    Claim("slots", "the energy of RawHFL is about proportional to Z", "754, 712, 690 J per client of a cell"),
)


# ---------------------------------------------------------------- accuracies


def check(rows: Sequence[Row], stay: str, printed: Printed, gap: float, margin: float) -> list[Finding]:
    """All findings of a table; `margin` is how near to the printed ones accuracies have to be."""
    found = [_energy_free(rows, stay)]
    if setting.lasted(rows, stay, tuple(setting.TITLES)):
        found += [_values(rows, stay, printed, margin), _level(rows, stay), _similar(rows, stay), _central(rows, stay)]
        found += [_gap(rows, stay, gap), _bayes(rows, stay), _weak(rows, stay), _popular(rows, stay)]
        found += [_users(rows, stay, printed)]
    return found


def _values(rows: Sequence[Row], stay: str, printed: Printed, margin: float) -> Finding:
    parts = [
        near(rows, setting.key(stay, entry), paper, margin, setting.final, setting.TITLES[entry])
        for entry, (paper, _) in printed.items()
    ]
    words = ", ".join(f"{setting.TITLES[entry]} {spread(setting.values(rows, stay, entry))}" for entry in printed)
    return finding(
        "values", parts, f"{words}; {setting.told_ceiling(rows, stay)}", f"within {margin} of the printed one"
    )


def _level(rows: Sequence[Row], stay: str) -> Finding:
    parts = [setting.level(rows, stay, entry, "h_fedavg ub") for entry in setting.LEVEL if entry != "h_fedavg ub"]
    return finding("level", parts, "", f"within {setting.NEAR} of H-FedAvg-UB")


def _similar(rows: Sequence[Row], stay: str) -> Finding:
    off = {entry: setting.values(rows, stay, entry, setting.over("similar_on_test", stay)) for entry in setting.LEVEL}
    parts = [inside(setting.TITLES[entry], value, -RULE_NEAR, RULE_NEAR, "points") for entry, value in off.items()]
    ours = "minus most similar: " + ", ".join(
        f"{setting.TITLES[entry]} {spread(value)}" for entry, value in off.items()
    )
    rule = f"within {RULE_NEAR} of always naming the most similar file, on the same test sets"
    return finding("similar", parts, f"{ours}; {setting.told_ceiling(rows, stay)}", rule)


def _central(rows: Sequence[Row], stay: str) -> Finding:
    parts = [setting.not_behind(rows, stay, "central", entry) for entry in setting.SIZES]
    return finding("central", parts, "", f"at most {setting.NEAR} behind")


def _gap(rows: Sequence[Row], stay: str, printed: float) -> Finding:
    every = setting.ceilings(rows, stay)
    room = np.array([one.bayes_on_test - one.similar_on_test for one in every])
    if printed:
        part, rule = setting.gain(rows, stay, "central", setting.OURS, printed), "the printed lead"
    else:
        part, rule = setting.level(rows, stay, "central", setting.OURS, GAP_NEAR), f"no lead within {GAP_NEAR}"
    return finding("gap", part, f"{part}; Bayes minus most similar on the same test sets {spread(room)}", rule)


def _bayes(rows: Sequence[Row], stay: str) -> Finding:
    off = {e: setting.values(rows, stay, e, setting.over("bayes_on_test", stay)) for e in setting.TITLES}
    parts = [
        inside(f"{setting.TITLES[entry]} not above", value, high=ABOVE, unit="points") for entry, value in off.items()
    ]
    parts.append(inside("Central-SGD near", off["central"], low=-BELOW, unit="points"))
    ours = f"Central-SGD minus Bayes on the test sets {spread(off['central'])}; {setting.told_ceiling(rows, stay)}"
    return finding("bayes", parts, ours, f"at most {BELOW} below it; nobody more than {ABOVE} above it")


def _weak(rows: Sequence[Row], stay: str) -> Finding:
    parts = [
        setting.ahead(rows, stay, "h_fedavg m2", "h_fedavg m1"),
        setting.far(rows, stay, setting.OURS, "h_fedavg m2"),
    ]
    names = ("h_fedavg m1", "h_fedavg m2", setting.OURS)
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(setting.values(rows, stay, entry))}" for entry in names)
    return finding("weak", parts, ours, f">>: {setting.FAR} times")


def _popular(rows: Sequence[Row], stay: str) -> Finding:
    off = setting.values(rows, stay, "top_popular", setting.over("one_file", stay))
    found = setting.values(rows, stay, "top_popular")
    ours = f"{spread(found)}; minus the commonest file of the test set {spread(off)}"
    return finding(
        "popular", inside("share of one file", off, -ONE_FILE, ONE_FILE, "points"), ours, f"within {ONE_FILE}"
    )


def _users(rows: Sequence[Row], stay: str, printed: Printed) -> Finding:
    parts = [
        near(rows, setting.key(stay, e), paper, USERS_NEAR, setting.at_end("accuracy_std"), setting.TITLES[e])
        for e, (_, paper) in printed.items()
    ]
    noise = np.sqrt(np.mean([c.similar * (1 - c.similar) for c in setting.ceilings(rows, stay)]) / 100)
    rule = f"within {USERS_NEAR}; 100 test samples of a user alone give {noise:.3f} at the level of most similar"
    return finding("users", parts, "", rule)


# ---------------------------------------------------------------- energies


def _energy_free(rows: Sequence[Row], stay: str) -> Finding:
    """The runs with this upsilon spend what the drops say without knowing it."""
    parts, worst = [], 0.0
    for entry in JOULE:
        drops = {row["seed"]: row["total_joule"] for row in rows if row["case"] == ledger.name(entry)}
        for seed, row in setting.of_case(rows, stay, entry).items():
            if row.get("diverged") or seed not in drops or row["rounds"][-1] != ledger.ROUNDS:
                continue
            off = abs(row["joules"] - drops[seed]) / max(drops[seed], 1.0)
            parts.append(exact(f"{setting.TITLES[entry]} seed {seed}", off <= SAME))
            worst = max(worst, off)
    ours = f"joules of {len(parts)} runs against those computed without data: largest relative difference {worst:.1g}"
    return finding("energy_free", parts, ours, f"at most {SAME:g}")


def check_energies(rows: Sequence[Row]) -> list[Finding]:
    """Judged on the ten drops."""
    joule = {entry: ledger.total_joule(rows, entry) for entry in JOULE}
    if not all(len(value) for value in joule.values()):
        return []
    return [_joules(rows, joule), _order(joule), _ends(joule), _times(joule), _slots(joule)]


def told_joules(rows: Sequence[Row], joule: Mapping[str, Floats]) -> str:
    """Energies in words, with two variants beside them."""
    words = ", ".join(f"{setting.TITLES[entry]} {spread(value, 0)}" for entry, value in joule.items())
    free = ", ".join(f"Z={z} {spread(ledger.total_joule(rows, f'rawhfl Z={z} no limit'), 0)}" for z in ledger.SIZES)
    cell = spread(ledger.total_joule(rows, "h_fedavg m2 per cell"), 0)
    return f"{words} J; RawHFL without an overlap limit (psi=z) {free}; M2 with the least of each cell {cell}"


def _joules(rows: Sequence[Row], joule: Mapping[str, Floats]) -> Finding:
    parts = [
        within(setting.TITLES[entry], joule[entry], paper, deviation if entry == "h_fedavg m1" else CLOSE * paper)
        for entry, (paper, deviation) in JOULE.items()
    ]
    return finding("joules", parts, told_joules(rows, joule), f"within {CLOSE:.0%}, M1 within its printed spread")


def _order(joule: Mapping[str, Floats]) -> Finding:
    parts = [
        inside(f"{setting.TITLES[low]} < {setting.TITLES[high]}", joule[high] - joule[low], low=0.0)
        for low, high in pairwise(ORDER)
    ]
    return finding("order", parts, " < ".join(f"{joule[entry].mean():.0f}" for entry in ORDER) + " J", "each step")


def _ends(joule: Mapping[str, Floats]) -> Finding:
    m1, m2 = (joule[entry] / joule["h_fedavg ub"] for entry in ("h_fedavg m1", "h_fedavg m2"))
    parts = [inside("M1", m1, high=NOTHING), inside("M2", m2, low=MOST)]
    return finding("ends", parts, "", f"of H-FedAvg-UB: M1 at most {NOTHING}, M2 at least {MOST}")


def _times(joule: Mapping[str, Floats]) -> Finding:
    return finding(
        "times", within("4", joule["h_fedavg ub"] / joule["h_fedavg relay"], 4.0, 0.12), "", "within 3 % of 4"
    )


def _slots(joule: Mapping[str, Floats]) -> Finding:
    per = {z: joule[f"rawhfl Z={z}"] / z for z in ledger.SIZES}
    parts = [inside(f"Z={z} over Z=4", per[z] / per[4], 1 - SLOT, 1 + SLOT) for z in (2, 6)]
    ours = ", ".join(f"Z={z} {spread(value, 0)}" for z, value in per.items()) + " J per client of a cell"
    return finding("slots", parts, ours, f"energy over Z within {SLOT:.0%} of that of Z = 4")


# ---------------------------------------------------------------- table and figure


def side_by_side(rows: Sequence[Row], stay: str, printed: Printed) -> SideBySide:
    """The table of the paper with the measured one beside it."""

    def told(values: Floats, factor: float, digits: int, unit: str) -> str:
        return f"{spread(factor * values, digits)} {unit}" if len(values) else ""

    accuracies = {
        entry: (percent(paper), told(setting.values(rows, stay, entry), 100, 1, "%"))
        for entry, (paper, _) in printed.items()
    }
    joules = {
        entry: (f"{paper / 1e3:.2f} kJ", told(ledger.total_joule(rows, entry), 1e-3, 2, "kJ"))
        for entry, (paper, _) in JOULE.items()
    }
    columns = {"final accuracy": accuracies, "energy": joules}
    return beside("method", {name: {setting.TITLES[e]: c for e, c in own.items()} for name, own in columns.items()})


def plot(rows: Sequence[Row], stay: str, printed: Printed) -> Figure:
    """Accuracies and energies beside the printed ones."""
    figure, (left, right) = panels(2, height=4.4)
    for place, (entry, (paper, users)) in enumerate(printed.items()):
        left.errorbar(
            place + 0.15, paper, users, fmt="x", color="#888888", capsize=2, label=None if place else "printed"
        )
        found = setting.values(rows, stay, entry)
        if len(found):
            users = setting.values(rows, stay, entry, setting.at_end("accuracy_std")).mean()
            label = None if place else "here, spread over users"
            left.errorbar(place - 0.15, found.mean(), users, fmt="o", color=COLOURS[0], capsize=2, label=label)
    for one, line in (("bayes_on_test", ":"), ("similar_on_test", "--")):
        every = [getattr(limit, one) for limit in setting.ceilings(rows, stay)]
        if every:
            label = {"bayes_on_test": "Bayes (here)", "similar_on_test": "most similar (here)"}[one]
            left.axhline(float(np.mean(every)), color="#888888", linewidth=1, linestyle=line, label=label)
    for place, (entry, (paper, trials)) in enumerate(JOULE.items()):
        joule = ledger.total_joule(rows, entry) / 1e3
        right.errorbar(place + 0.15, paper / 1e3, trials / 1e3, fmt="x", color="#888888", capsize=2)
        if len(joule) > 1:
            right.errorbar(place - 0.15, joule.mean(), joule.std(ddof=1), fmt="o", color=COLOURS[0], capsize=2)
    dress(left, "", "final test accuracy", f"upsilon {setting.STAY[stay]}")
    dress(right, "", "energy (kJ)", "spread over drops; crosses: printed")
    for axes, entries in ((left, list(printed)), (right, list(JOULE))):
        axes.set_xticks(range(len(entries)), [setting.TITLES[e] for e in entries], rotation=90, fontsize=7)
    return figure


def accuracy_table(title: str, stay: str, printed: Printed, gap: float, margin: float) -> Experiment:
    """A table of one upsilon: its accuracies, and energies beside them in the figure."""
    return Experiment(
        title=title,
        claims=claims(printed, stay, gap),
        cases=lambda quick: [*setting.cases([stay], list(setting.TITLES), quick), *ledger.cases(list(JOULE))],
        plot=lambda rows: plot(rows, stay, printed),
        check=lambda rows: check(rows, stay, printed, gap, margin),
        store=setting.STORE,
        table=lambda rows: side_by_side(rows, stay, printed),
    )
