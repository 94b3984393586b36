"""How the curves of Figures 4 to 6 are read: when they saturate, who leads, and where they are after a round."""

from collections.abc import Mapping, Sequence

import numpy as np
import osafl_setting as setting

from fedcell.experiment import Finding, Row
from fedcell.experiment.judging import judged
from fedcell.types import Floats

FULL = 0.98  # of its own best is where an accuracy has saturated
FLAT = 1.02  # times its own least is where a loss has
POINTS = 0.08  # a printed point of a curve is met within so much
EARLY = 20  # rounds
FEDERATED = ("osafl", *setting.BASELINES)


def saturation(at: Floats, values: Floats, level: float | None = None) -> float:
    """The first round with `FULL` of the best value, or of `level`; infinite if never.

    >>> saturation(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.6, 0.606]))
    2.0
    """
    there = values >= FULL * (values.max() if level is None else level)
    return float(at[there][0]) if there.any() else np.inf


def settled(at: Floats, losses: Floats) -> float:
    """The first round with a loss within 2 % of its least."""
    return float(at[losses <= FLAT * losses.min()][0])


def long_enough(rows: Sequence[Row], name: str, rounds: int) -> bool:
    """Whether a case was run for so many rounds."""
    return bool(setting.of_case(rows, name)) and bool(setting.curve(rows, name)[0][-1] >= rounds)


def when(claim: str, found: Mapping[str, float], printed: Mapping[str, float], margin: float, what: str) -> Finding:
    """Rounds at which something happens, against printed ones."""
    held = {name: bool(abs(value - printed[name]) <= margin) for name, value in found.items()}
    ours = ", ".join(f"{name} {value:.0f}" for name, value in found.items())
    return judged(claim, f"{what}: {ours}" if ours else "", held, f"within {margin:g} rounds of the printed one")


def points(
    rows: Sequence[Row], claim: str, model: str, k: int, number: int, printed: Mapping[str, float], nova: str
) -> Finding:
    """The accuracies after a round, against printed ones."""
    entries = {entry: nova if entry == "m_fednova" else entry for entry in printed}
    if not all(long_enough(rows, setting.key(model, k, entry), number) for entry in entries.values()):
        return setting.not_run(claim)[0]
    found = {entry: setting.at_round(rows, setting.key(model, k, other), number) for entry, other in entries.items()}
    if None in found.values():
        return setting.not_run(claim, why=f"round {number} was not evaluated")[0]
    close = [abs(value - printed[entry]) <= POINTS for entry, value in found.items() if value is not None]
    leads = max(found, key=lambda entry: found[entry] or 0.0) == "osafl"
    ours = ", ".join(f"{setting.TITLES[entries[entry]]} {value:.3f}" for entry, value in found.items())
    ours += f"; {setting.told_ceiling([row for row in rows if row['case'].startswith(f'{model} ')], k)}"
    return Finding(
        claim,
        ours,
        "reproduced" if leads and all(close) else "partly" if leads else "not reproduced",
        f"OSAFL first and all within {POINTS} of the printed ones ({sum(close)} of {len(close)}); partly: OSAFL first",
    )


def early_lead(rows: Sequence[Row], models: Sequence[str], claim: str, what: str = "accuracy") -> Finding:
    """OSAFL is ahead of every baseline in the mean of the first rounds."""
    held, words = {}, []
    for model in models:
        for k in (1, 2):
            if not setting.ran(rows, model, k, FEDERATED):
                continue
            means = {}
            for entry in FEDERATED:
                at, mean = setting.mean_curve(rows, setting.key(model, k, entry), what)
                means[entry] = float(mean[at <= EARLY].mean())
            place = f"{setting.MODELS[model].title} K={k}"
            for entry in setting.BASELINES:
                first, other = means["osafl"], means[entry]
                held[f"{place} {setting.TITLES[entry]}"] = first > other if what == "accuracy" else first < other
            words.append(
                f"{place}: " + ", ".join(f"{setting.TITLES[entry]} {value:.3f}" for entry, value in means.items())
            )
    rule = f"mean {what} over the first {EARLY} rounds, OSAFL against each baseline"
    return judged(claim, "; ".join(words), held, rule)
