"""How Tables II to IV are judged: accuracies from the runs, energies from ten drops without training."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import rawhfl_ledger as ledger
import rawhfl_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Claim, Experiment, Finding, Row
from fedcell.experiment.judging import beyond, judged, spread
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
GAP_NEAR = 0.03  # of the printed lead of Central-SGD
ABOVE, BELOW = 0.01, 0.04  # the Bayes ceiling on the test set
ONE_FILE = 0.02
USERS_NEAR = 0.03
CLOSE = 0.2  # relative, of energies
NOTHING, MOST = 0.05, 0.6  # of the energy of H-FedAvg-UB
SLOT = 0.15  # relative
SAME = 1e-6


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
        Claim("energy_free", "no energy depends on upsilon", "the same energies in Tables II, III and IV"),
    )


ENERGY_CLAIMS = (
    Claim(
        "joules",
        "total energy of every method",
        ", ".join(f"{setting.TITLES[e]} {a:.0f}±{b:.0f}" for e, (a, b) in JOULE.items()) + " J",
    ),
    Claim("order", "energy: " + " < ".join(setting.TITLES[entry] for entry in ORDER), "as above"),
    Claim("ends", "M1 spends nearly nothing, M2 most of what H-FedAvg-UB does", "3.5 % and 81 % of H-FedAvg-UB"),
    Claim("times", "H-FedAvg-UB spends E = 4 times as much as FedAvg-UB", "13836.46 / 3455.56 = 4.004"),
    Claim("slots", "the energy of RawHFL is about proportional to Z", "754, 712, 690 J per client of a cell"),
)


# ---------------------------------------------------------------- accuracies


def check(rows: Sequence[Row], stay: str, printed: Printed, gap: float, margin: float) -> list[Finding]:
    """All findings of a table; `margin` is how near to the printed ones accuracies have to be."""
    ready = setting.lasted(rows, stay, tuple(setting.TITLES))
    found = [_energy_free(rows, stay)]
    if ready:
        found += [_values(rows, stay, printed, margin), _level(rows, stay), _similar(rows, stay), _central(rows, stay)]
        found += [_gap(rows, stay, gap), _bayes(rows, stay), _weak(rows, stay), _popular(rows, stay)]
        found += [_users(rows, stay, printed)]
    return found


def _values(rows: Sequence[Row], stay: str, printed: Printed, margin: float) -> Finding:
    held, words = {}, []
    for entry, (paper, _) in printed.items():
        found = setting.values(rows, stay, entry)
        held[setting.TITLES[entry]] = bool(abs(found.mean() - paper) <= margin)
        words.append(f"{setting.TITLES[entry]} {spread(found)}")
    seeds = len(setting.ceilings(rows, stay))
    ours = f"{', '.join(words)} ({seeds} seeds); {setting.told_ceiling(rows, stay)}"
    return judged("values", ours, held, f"within {margin} of the printed one")


def _level(rows: Sequence[Row], stay: str) -> Finding:
    gap = {e: setting.gaps(rows, stay, e, "h_fedavg ub") for e in setting.LEVEL if e != "h_fedavg ub"}
    held = {setting.TITLES[entry]: bool(abs(value.mean()) <= setting.NEAR) for entry, value in gap.items()}
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(value)}" for entry, value in gap.items())
    return judged("level", f"minus H-FedAvg-UB: {ours}", held, f"within {setting.NEAR}")


def _similar(rows: Sequence[Row], stay: str) -> Finding:
    off = {e: setting.values(rows, stay, e, setting.over("similar_on_test", stay)) for e in setting.LEVEL}
    held = {setting.TITLES[entry]: bool(abs(value.mean()) <= RULE_NEAR) for entry, value in off.items()}
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(value)}" for entry, value in off.items())
    rule = f"within {RULE_NEAR} of always naming the most similar file, on the same test sets"
    return judged("similar", f"minus most similar: {ours}; {setting.told_ceiling(rows, stay)}", held, rule)


def _central(rows: Sequence[Row], stay: str) -> Finding:
    lead = {entry: setting.gaps(rows, stay, "central", entry) for entry in setting.SIZES}
    held = {setting.TITLES[entry]: bool(value.mean() >= -setting.TIE) for entry, value in lead.items()}
    ours = ", ".join(f"{setting.TITLES[entry]} {spread(value)}" for entry, value in lead.items())
    return judged("central", f"Central-SGD minus {ours}", held, f"at least {-setting.TIE}")


def _gap(rows: Sequence[Row], stay: str, printed: float) -> Finding:
    lead = setting.gaps(rows, stay, "central", setting.OURS)
    every = setting.ceilings(rows, stay)
    room = np.array([one.bayes_on_test - one.similar_on_test for one in every])
    full = abs(lead.mean() - printed) <= GAP_NEAR
    ours = f"{spread(lead)}; Bayes minus most similar on the same test sets {spread(room)}"
    rule = f"within {GAP_NEAR} of the printed lead; partly: at least half of it"
    return setting.graded("gap", ours, bool(full), bool(lead.mean() >= printed / 2 > 0), rule)


def _bayes(rows: Sequence[Row], stay: str) -> Finding:
    off = {e: setting.values(rows, stay, e, setting.over("bayes_on_test", stay)) for e in setting.TITLES}
    held = {f"{setting.TITLES[entry]} not above": bool(value.mean() <= ABOVE) for entry, value in off.items()}
    held["Central-SGD near"] = bool(off["central"].mean() >= -BELOW)
    ours = f"Central-SGD minus Bayes on the test sets {spread(off['central'])}, highest of all "
    ours += f"{max(value.mean() for value in off.values()):+.4f}; {setting.told_ceiling(rows, stay)}"
    return judged("bayes", ours, held, f"at most {BELOW} below it; nobody more than {ABOVE} above it")


def _weak(rows: Sequence[Row], stay: str) -> Finding:
    m1, m2, ours = (setting.values(rows, stay, entry) for entry in ("h_fedavg m1", "h_fedavg m2", setting.OURS))
    held = {
        "M1 < M2": beyond(setting.gaps(rows, stay, "h_fedavg m2", "h_fedavg m1")),
        "M2 << RawHFL": bool(ours.mean() >= setting.FAR * m2.mean()),
    }
    words = f"M1 {spread(m1)}, M2 {spread(m2)}, RawHFL Z=4 {spread(ours)}"
    return judged("weak", words, held, f"<: above its standard error; <<: {setting.FAR} times")


def _popular(rows: Sequence[Row], stay: str) -> Finding:
    found = setting.values(rows, stay, "top_popular")
    share = np.array([one.one_file for one in setting.ceilings(rows, stay)])
    ours = f"{spread(found)}; commonest file of the test sets {spread(share)}"
    held = {"share": bool(abs(found.mean() - share.mean()) <= ONE_FILE)}
    return judged("popular", ours, held, f"within {ONE_FILE} of the share of the commonest file")


def _users(rows: Sequence[Row], stay: str, printed: Printed) -> Finding:
    held, words = {}, []
    for entry, (_, paper) in printed.items():
        found = setting.values(rows, stay, entry, setting.at_end("accuracy_std"))
        held[setting.TITLES[entry]] = bool(abs(found.mean() - paper) <= USERS_NEAR)
        words.append(f"{setting.TITLES[entry]} {found.mean():.4f}")
    noise = np.sqrt(np.mean([c.similar * (1 - c.similar) for c in setting.ceilings(rows, stay)]) / 100)
    ours = f"{', '.join(words)}; 100 test samples of a user alone give {noise:.3f} at the level of most similar"
    return judged("users", ours, held, f"within {USERS_NEAR} of the printed one")


# ---------------------------------------------------------------- energies


def _energy_free(rows: Sequence[Row], stay: str) -> Finding:
    """The runs with this upsilon spend what the ledger says without knowing it."""
    held: dict[str, bool] = {}
    worst = 0.0
    for entry in JOULE:
        for seed, row in setting.of_case(rows, stay, entry).items():
            if row.get("diverged"):
                continue
            spent = float(ledger.book(entry, (seed,), row["rounds"][-1]).total_joule()[0])
            off = abs(row["joules"] - spent) / max(spent, 1.0)
            held[f"{setting.TITLES[entry]} seed {seed}"] = off <= SAME
            worst = max(worst, off)
    ours = f"joules of {len(held)} runs against those computed without data: largest relative difference {worst:.1g}"
    return judged("energy_free", ours, held, f"at most {SAME:g}")


def check_energies() -> list[Finding]:
    """Judged on the ten drops."""
    joule = {entry: setting.total_joule(entry) for entry in JOULE}
    return [_joules(joule), _order(joule), _ends(joule), _times(joule), _slots(joule)]


def told_joules(joule: Mapping[str, Floats]) -> str:
    """Energies in words, with two variants beside them."""
    words = ", ".join(f"{setting.TITLES[entry]} {spread(value, 0)}" for entry, value in joule.items())
    free = ", ".join(f"Z={z} {spread(setting.total_joule(f'rawhfl Z={z} no limit'), 0)}" for z in ledger.SIZES)
    cell = spread(setting.total_joule("h_fedavg m2 per cell"), 0)
    return f"{words} J; RawHFL without an overlap limit (psi=z) {free}; M2 with the least of each cell {cell}"


def _joules(joule: Mapping[str, Floats]) -> Finding:
    held = {}
    for entry, (paper, deviation) in JOULE.items():
        margin = deviation if entry == "h_fedavg m1" else CLOSE * paper
        held[setting.TITLES[entry]] = bool(abs(joule[entry].mean() - paper) <= margin)
    rule = f"within {CLOSE:.0%}, M1 within its printed spread; {len(ledger.SEEDS)} drops"
    return judged("joules", told_joules(joule), held, rule)


def _order(joule: Mapping[str, Floats]) -> Finding:
    held = {
        f"{setting.TITLES[low]} < {setting.TITLES[high]}": bool(joule[low].mean() < joule[high].mean())
        for low, high in pairwise(ORDER)
    }
    every = np.mean(
        [[joule[low][i] < joule[high][i] for low, high in pairwise(ORDER)] for i in range(len(ledger.SEEDS))]
    )
    ours = " < ".join(f"{joule[entry].mean():.0f}" for entry in ORDER)
    return judged("order", f"{ours} J; {every:.0%} of the steps hold drop by drop", held, "mean over the drops")


def _ends(joule: Mapping[str, Floats]) -> Finding:
    m1, m2 = (joule[entry] / joule["h_fedavg ub"] for entry in ("h_fedavg m1", "h_fedavg m2"))
    held = {"M1": bool(m1.mean() <= NOTHING), "M2": bool(m2.mean() >= MOST)}
    ours = f"M1 {spread(m1, 3)}, M2 {spread(m2, 3)} of H-FedAvg-UB"
    return judged("ends", ours, held, f"M1 at most {NOTHING}, M2 at least {MOST}")


def _times(joule: Mapping[str, Floats]) -> Finding:
    ratio = joule["h_fedavg ub"] / joule["h_fedavg relay"]
    return judged("times", spread(ratio, 3), {"4": bool(abs(ratio.mean() / 4 - 1) <= 0.03)}, "within 3 % of 4")


def _slots(joule: Mapping[str, Floats]) -> Finding:
    per = {z: joule[f"rawhfl Z={z}"] / z for z in ledger.SIZES}
    off = max(abs(per[z].mean() / per[4].mean() - 1) for z in ledger.SIZES)
    grows = all(bool((joule[low] < joule[high]).all()) for low, high in pairwise(setting.SIZES))
    ours = ", ".join(f"Z={z} {spread(value, 0)}" for z, value in per.items()) + " J per client of a cell"
    rule = f"energy over Z within {SLOT:.0%} of that of Z = 4; partly: energy grows with Z on every drop"
    return setting.graded("slots", ours, off <= SLOT, grows, rule)


# ---------------------------------------------------------------- figure


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
        joule = setting.total_joule(entry) / 1e3
        right.errorbar(place + 0.15, paper / 1e3, trials / 1e3, fmt="x", color="#888888", capsize=2)
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
        cases=lambda quick: setting.cases([stay], list(setting.TITLES), quick),
        plot=lambda rows: plot(rows, stay, printed),
        check=lambda rows: check(rows, stay, printed, gap, margin),
        store=setting.STORE,
    )
