"""How runs are compared: by the same statistics for every claim.

A comparison is a number per seed, usually the difference of two cases on the seeds that both have, with the mean and
the 95 % Student interval of `report.paired`. What is asked of it:

| function | holds if |
|---|---|
| `ahead`, `more`, `below`, `rising`, `wider`, `sooner`, `steadier` | the interval of the paired difference is above 0 |
| `above`, `under` | the interval of a case's own number lies above (below) a bound |
| `gain`: a printed margin m | the interval lies above 0 and the mean in [m/2, 2m] |
| `level`, `not_behind` | the interval lies inside ±margin, above -slack: "no improvement" is not "a small one" |
| `near`: a printed number | the mean lies within a tolerance of it |
| `on_every_seed` | every single value lies inside the bounds |
| `exact` | it does: nothing random is behind it |

A `gain` whose interval lies above 2m is `far larger`; one with the sign but not the size is `partly`. With one or two
seeds the least and largest value stand for the interval, and the claim is `indicated`. If both cases end at chance (no
more than `LEARNED` above it; `steadier`: one of them), or none reaches the target (`sooner`), the comparison cannot
decide. `verdicts.finding` turns parts into the verdict of a claim.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..report.paired import estimate
from ..types import Floats
from .measures import (
    Measure,
    accuracies,
    area,
    early,
    final,
    first_hit,
    is_accuracy,
    last_tenth,
    of_accuracy,
    stays,
    wobble,
)
from .over_seeds import (
    LEARNED,
    LEARNS,
    TEN_CLASSES,
    Chance,
    by_seed,
    gap,
    learned,
    mean,
    missing,
    ratio,
    spread,
    told,
    told_all,
    values_of,
)
from .plots import curve
from .stores import Row
from .verdicts import LEAST_SEEDS, Part, finding

__all__ = [
    "LEARNED",
    "LEARNS",
    "TEN_CLASSES",
    "Chance",
    "Measure",
    "Part",
    "above",
    "accuracies",
    "ahead",
    "area",
    "below",
    "by_seed",
    "curve",
    "early",
    "exact",
    "final",
    "finding",
    "first_hit",
    "gain",
    "gap",
    "inside",
    "last_tenth",
    "learned",
    "level",
    "mean",
    "missing",
    "more",
    "near",
    "not_behind",
    "of_accuracy",
    "on_every_seed",
    "printed_margin",
    "ratio",
    "rising",
    "saved",
    "sooner",
    "spread",
    "stays",
    "steadier",
    "told",
    "told_all",
    "under",
    "values_of",
    "wider",
    "within",
    "wobble",
]

SMALLEST, LARGEST = 0.5, 2.0  # times a printed margin, between which a gain reproduces it


# ---------------------------------------------------------------- what is asked of numbers


def inside(name: str, values: Floats, low: float = -np.inf, high: float = np.inf, unit: str = "") -> Part:
    """The interval of the values lies inside (low, high)."""
    part = _measured(name, values, unit)
    return _decided(part, "reproduced" if low < part.low and part.high < high else "not reproduced")


def printed_margin(name: str, values: Floats, printed: float, unit: str = "difference") -> Part:
    """The values, differences or shares, are as large as a printed margin."""
    if printed <= 0:
        raise ValueError(f"a printed margin of {printed:g} has no sign to hold: swap the sides")
    part = _measured(name, values, unit)
    if part.low <= 0:
        return _decided(part, "not reproduced")
    if part.low > LARGEST * printed:
        return _decided(part, "far larger")
    fits = SMALLEST * printed <= part.mean <= LARGEST * printed
    return _decided(part, "reproduced" if fits else "partly")


def within(name: str, values: Floats, printed: float, tolerance: float, unit: str = "") -> Part:
    """The mean of the values is a printed number, up to a tolerance."""
    part = _measured(name, values, unit)
    return _decided(part, "reproduced" if abs(part.mean - printed) <= tolerance else "not reproduced")


def on_every_seed(name: str, values: Floats, low: float = -np.inf, high: float = np.inf) -> Part:
    """Every single value lies inside (low, high): for claims about each run, not of their mean."""
    part = _measured(name, values)
    holds = bool(((values > low) & (values < high)).all())
    return _decided(part, "reproduced" if holds else "not reproduced")


def exact(name: str, holds: bool) -> Part:
    """A part that nothing random is behind: a formula, a setting, a count."""
    return Part(name, "reproduced" if holds else "not reproduced", None)


def _measured(name: str, values: Floats, unit: str = "") -> Part:
    values = values[np.isfinite(values)]
    found = estimate(values)
    ends = (found.low, found.high) if found.n >= LEAST_SEEDS else (values.min(), values.max()) if found.n else (0, 0)
    return Part(name, "not run", found.n, found.mean if found.n else 0.0, float(ends[0]), float(ends[1]), unit)


def _apart(value: Measure) -> str:
    """The unit of a difference of a measure."""
    return "points" if is_accuracy(value) else "difference"


def _itself(value: Measure) -> str:
    """The unit of a measure."""
    return "%" if is_accuracy(value) else ""


def _decided(part: Part, verdict: str) -> Part:
    return part._replace(verdict=verdict) if part.n else part


# ---------------------------------------------------------------- comparisons of cases


def ahead(
    rows: Sequence[Row],
    high: str,
    low: str,
    value: Measure = final,
    chance: Chance = TEN_CLASSES,
    name: str = "",
    by: float = 0.0,
) -> Part:
    """One case is more accurate than another, by more than `by`; `more` and `below` are for other numbers."""
    part = inside(name or f"{high} > {low}", gap(rows, high, low, value), low=by, unit=_apart(value))
    return _guarded(part, learned(rows, high, chance) or learned(rows, low, chance))


def more(rows: Sequence[Row], high: str, low: str, value: Measure, name: str = "") -> Part:
    """One case has more of something than another that is no accuracy, so that chance does not count."""
    return ahead(rows, high, low, value, None, name)


def times(rows: Sequence[Row], high: str, low: str, factor: float, value: Measure, name: str = "") -> Part:
    """One case has more than `factor` times as much of something as another, which may have none."""
    apart = gap(rows, high, low, value, lambda row: factor * value(row))
    return inside(name or f"{high} > {factor:g} x {low}", apart, low=0.0, unit=_apart(value))


def below(rows: Sequence[Row], low: str, high: str, value: Measure, name: str = "") -> Part:
    """One case has less of something than another: staleness, age, loss, cost."""
    return ahead(rows, high, low, value, None, name or f"{low} < {high}")


def rising(
    rows: Sequence[Row], keys: Sequence[str], value: Measure = final, chance: Chance = TEN_CLASSES
) -> list[Part]:
    """Every case ahead of the one before it."""
    return [ahead(rows, later, earlier, value, chance) for earlier, later in pairwise(keys)]


def wider(
    rows: Sequence[Row],
    lead: tuple[str, str],
    other: tuple[str, str],
    value: Measure = final,
    name: str = "",
) -> Part:
    """The lead of one pair of cases is larger than that of another, seed by seed."""
    leads = []
    for high, low in (lead, other):
        left, right = by_seed(rows, high, value), by_seed(rows, low, value)
        leads.append({seed: left[seed] - right[seed] for seed in left.keys() & right.keys()})
    common = sorted(leads[0].keys() & leads[1].keys())
    return inside(
        name or f"lead {' over '.join(lead)} > {' over '.join(other)}",
        np.array([leads[0][seed] - leads[1][seed] for seed in common]),
        low=0.0,
        unit=_apart(value),
    )


def gain(
    rows: Sequence[Row],
    high: str,
    low: str,
    printed: float,
    value: Measure = final,
    chance: Chance = TEN_CLASSES,
    name: str = "",
) -> Part:
    """One case is ahead of another by a printed margin."""
    part = printed_margin(name or f"{high} over {low}", gap(rows, high, low, value), printed, _apart(value))
    return _guarded(part, learned(rows, high, chance) or learned(rows, low, chance))


def level(
    rows: Sequence[Row],
    one: str,
    other: str,
    margin: float,
    value: Measure = final,
    chance: Chance = TEN_CLASSES,
    name: str = "",
) -> Part:
    """Two cases are equal up to a margin."""
    part = inside(name or f"{one} ~ {other}", gap(rows, one, other, value), -margin, margin, _apart(value))
    return _guarded(part, learned(rows, one, chance) or learned(rows, other, chance))


def not_behind(
    rows: Sequence[Row],
    high: str,
    low: str,
    slack: float,
    value: Measure = final,
    chance: Chance = TEN_CLASSES,
    name: str = "",
) -> Part:
    """One case is at most `slack` behind another."""
    return ahead(rows, high, low, value, chance, name or f"{high} >= {low}", by=-slack)


def above(rows: Sequence[Row], key: str, bound: float, value: Measure = final, name: str = "") -> Part:
    """The number of a case is above a bound."""
    return inside(name or f"{key} > {bound:g}", values_of(rows, key, value), low=bound, unit=_itself(value))


def under(rows: Sequence[Row], key: str, bound: float, value: Measure = final, name: str = "") -> Part:
    """The number of a case is below a bound."""
    return inside(name or f"{key} < {bound:g}", values_of(rows, key, value), high=bound, unit=_itself(value))


def near(
    rows: Sequence[Row], key: str, printed: float, tolerance: float, value: Measure = final, name: str = ""
) -> Part:
    """The number of a case is a printed one, up to a tolerance."""
    return within(name or key, values_of(rows, key, value), printed, tolerance, _itself(value))


def steadier(rows: Sequence[Row], calm: str, other: str, chance: Chance = TEN_CLASSES, name: str = "") -> Part:
    """One case swings less than another between evaluations; a run dead at chance is not steady."""
    part = below(rows, calm, other, wobble, name or f"{calm} steadier than {other}")
    return _guarded(part, learned(rows, calm, chance) and learned(rows, other, chance))


def sooner(
    rows: Sequence[Row],
    first: str,
    other: str,
    when: Measure,
    by: str = "rounds",
    printed_share: float | None = None,
    name: str = "",
) -> Part:
    """One case reaches something before another does.

    Args:
        when: `first_hit(...)` or `stays(...)`, infinite if never.
        by: the column that `when` reads; a run that never gets there counts with its last entry, and not as sooner.
        printed_share: the share of the other's time that is saved, judged as a printed margin; None: any.
    """
    share = saved(rows, first, other, when, by)
    name = name or f"{first} before {other}"
    part = inside(name, share, low=0.0) if printed_share is None else printed_margin(name, share, printed_share)
    part = part._replace(unit="% saved")
    reached = [value for key in (first, other) for value in by_seed(rows, key, when).values()]
    arrives = bool(np.isfinite(reached).any())
    return _guarded(part if arrives else part._replace(name=f"{name} (neither gets there)"), arrives)


def saved(rows: Sequence[Row], first: str, other: str, when: Measure, by: str = "rounds") -> Floats:
    """Share of the other's time that is saved, seed by seed: 1 - t / t_other, never flattering who does not arrive."""
    mine, theirs = by_seed(rows, first, when), by_seed(rows, other, when)
    ends = [by_seed(rows, key, lambda row: float(row[by][-1])) for key in (first, other)]
    out = []
    for seed in sorted(mine.keys() & theirs.keys()):
        one, two = min(mine[seed], ends[0][seed]), min(theirs[seed], ends[1][seed])
        if np.isinf(mine[seed]):
            one = max(one, two)
        elif np.isinf(theirs[seed]):
            two = max(one, two)
        out.append(1 - one / two)
    return np.array(out)


def _guarded(part: Part, decides: bool) -> Part:
    return part if decides or not part.n else part._replace(verdict="cannot decide")
