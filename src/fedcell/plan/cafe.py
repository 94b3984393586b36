"""How long to wait, and for how many: CAFe's deadline T and quorum M from answer times alone.

Minimises `J(T) = alpha_w E[C_w] + alpha_b E[C_b] + E[age]` over the deadline, for a given quorum or
for `M = 1`, which is best at every deadline. `J` has more than one minimum in general, so it is
searched on a whole interval that provably holds the best one.

Reference: cafe, sections 3.2 and 4.4
"""

from collections.abc import Callable
from functools import partial
from math import inf, log, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from ..errors import BadInput
from ..methods.cafe import theory
from ..types import Floats, Ints

GRID = 20_001  # points of the logarithmic search grid
MOST = 1e6  # of weights and rates; far beyond it, what decides lies below the rounding of a probability near one
RIPPLE = 1e-12  # relative height of a rise that may be rounding
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # quorums of the table, of all clients
MULTIPLES = (0.25, 0.5, 1.0, 2.0)  # deadlines of the table, of the best one; the next minima stand beside them

Answered = Callable[[ArrayLike], Floats]  # deadline_s -> probability that a client has answered


class Minimum(NamedTuple):
    """A deadline that beats its neighbours."""

    deadline_s: float
    objective: float
    best: bool  # of all


class Curve(NamedTuple):
    """J over the deadlines that were searched, ascending."""

    deadline_s: Floats
    objective: Floats


class Table(NamedTuple):
    """J and the success probability for quorums (rows) against deadlines (columns)."""

    quorum: Ints  # [n_rows]
    deadline_s: Floats  # [n_columns]
    objective: Floats  # [n_rows, n_columns]
    success: Floats  # [n_rows, n_columns]


class CafePlan(NamedTuple):
    """The recommended quorum and deadline, and what they cost on average."""

    quorum: int
    deadline_s: float
    success: float  # probability that a round counts
    wastage_s: float  # client seconds discarded per update of the model
    communication: float  # broadcasts per update of the model
    age_s: float  # mean age of a client's contribution
    objective: float
    noise_quorum: int  # quorum to try instead if gradient noise dominates: argmax of g at this deadline
    minima: tuple[Minimum, ...]  # best first
    curve: Curve
    table: Table


class Tradeoff(NamedTuple):
    """What is minimised: `J` for these clients, quorum, weights and law of answer times."""

    clients: int
    quorum: int
    waste_weight: float
    comm_weight: float
    answered: Answered


def plan(
    clients: int,
    *,
    rate: float | None = None,
    response_s: ArrayLike | None = None,
    waste_weight: float,
    comm_weight: float,
    quorum: int | None = None,
) -> CafePlan:
    """The best deadline for clients that answer after `Exp(rate)` seconds or after measured times.

    Args:
        clients: `N`.
        rate: answers per second of one client; leave out if times were measured.
        response_s: measured seconds, taken as the whole law of the answer time.
        waste_weight: `alpha_w`, weight of a discarded client second against a second of age; at least 0.
        comm_weight: `alpha_b`, weight of one broadcast against a second of age; above 0.
        quorum: `M`; without it 1, which no other quorum beats at any deadline.

    Raises BadInput if there is nothing to minimise.

    >>> best = plan(50, rate=1.0, waste_weight=20, comm_weight=100)
    >>> best.quorum, round(best.deadline_s, 3), [round(one.deadline_s, 3) for one in best.minima]
    (1, 8.521, [8.521, 0.043])
    """
    _check(clients, quorum, waste_weight, comm_weight)
    if (rate is None) == (response_s is None):
        raise BadInput("answer times are given twice or not at all: give either a rate or measured response times")
    if rate is not None:
        _check_rate(rate)
        task = Tradeoff(clients, quorum or 1, waste_weight, comm_weight, partial(theory.answer_probability, rate=rate))
        return _report(task, *_search_exponential(task, rate))
    times = np.sort(_times(response_s))
    task = Tradeoff(clients, quorum or 1, waste_weight, comm_weight, partial(_empirical, times))
    return _report(task, *_search_observed(task, np.unique(times)))


# ---------------------------------------------------------------- the objective and its minima


def excess(task: Tradeoff, deadline_s: ArrayLike, quorum: ArrayLike | None = None) -> Floats:
    """`J(T) - alpha_b`: the objective without the one broadcast that nothing saves.

    `alpha_w E[C_w] + alpha_b q / (1 - q) + E[age]`; the constant would drown what decides.

    Reference: cafe, Eq. (17)
    """
    quorum = task.quorum if quorum is None else quorum
    p = task.answered(deadline_s)
    cost = theory.metrics(task.clients, quorum, deadline_s, p)
    failed = binom.cdf(np.asarray(quorum) - 1, task.clients, p)
    with np.errstate(invalid="ignore", over="ignore"):
        total = task.waste_weight * cost.wastage_s + task.comm_weight * failed * cost.communication + cost.age_s
    return np.where(np.isnan(total), inf, total)  # 0 * inf: a weight of nothing on a round that never succeeds


def search_box(task: Tradeoff, rate: float) -> tuple[float, float]:
    """Deadlines between which every minimiser lies.

    Any `J_ref = J(T_ref)` bounds the minimum; `J >= 3/2 T` gives the upper end, and
    `J >= alpha_b / (1 - exp(-N rate T))` the lower one. Both hold for every quorum.

    Reference: cafe, section 3.2
    """
    n = task.clients
    at = [1 / n, 1.0, 5.0]
    if task.quorum > 1:  # these three may all fail nearly always
        at += [-log1p(-task.quorum / (n + 1)), log(n) + 1]
    rest = min(float(value) for value in excess(task, np.array(at) / rate))
    return log1p(task.comm_weight / rest) / (n * rate), 2 / 3 * (rest + task.comm_weight)


def _search_exponential(task: Tradeoff, rate: float) -> tuple[Curve, list[float]]:
    low, high = search_box(task, rate)
    grid = np.geomspace(low, high, GRID)
    value = excess(task, grid)
    found = []
    for index in _dips(value):
        sides = np.log([grid[max(index - 1, 0)], grid[min(index + 1, GRID - 1)]])
        best = minimize_scalar(lambda x: float(excess(task, np.exp(x))), bounds=sides, options={"xatol": 1e-10})
        found.append(float(np.exp(best.x)))
    return Curve(grid, value + task.comm_weight), found


def _search_observed(task: Tradeoff, times: Floats) -> tuple[Curve, list[float]]:
    """Between two observed times nobody answers and all costs rise, so only observed times can be best."""
    value = excess(task, times)
    return Curve(times, value + task.comm_weight), [float(times[index]) for index in _dips(value)]


def _dips(value: Floats) -> Ints:
    """Where a sequence is lower than both its neighbours; ripples that are only rounding do not count."""
    left = np.concatenate([[inf], value[:-1]])
    right = np.concatenate([value[1:], [inf]])
    kept: list[int] = []
    for index in map(int, np.flatnonzero((value < left) & (value <= right) & np.isfinite(value))):
        if kept and value[kept[-1] : index + 1].max() <= max(value[kept[-1]], value[index]) * (1 + RIPPLE):
            index = min(kept.pop(), index, key=lambda at: float(value[at]))
        kept.append(index)
    return np.array(kept, dtype=np.int64)


def _empirical(times: Floats, deadline_s: ArrayLike) -> Floats:
    """The share of measured times (ascending) that are not above the deadline."""
    return np.asarray(np.searchsorted(times, deadline_s, side="right") / len(times))


# ---------------------------------------------------------------- the answer


def _report(task: Tradeoff, curve: Curve, found: list[float]) -> CafePlan:
    values = excess(task, found)
    order = np.argsort(values, kind="stable")
    minima = tuple(Minimum(found[at], float(values[at]) + task.comm_weight, bool(at == order[0])) for at in order)
    best = minima[0].deadline_s
    p = task.answered(best)
    quorums = np.arange(1, task.clients + 1)
    noise_quorum = int(quorums[np.argmax(theory.noise_gain(task.clients, quorums, p))])
    cost = theory.metrics(task.clients, task.quorum, best, p)
    return CafePlan(
        quorum=task.quorum,
        deadline_s=best,
        success=float(cost.success),
        wastage_s=float(cost.wastage_s),
        communication=float(cost.communication),
        age_s=float(cost.age_s),
        objective=minima[0].objective,
        noise_quorum=noise_quorum,
        minima=minima,
        curve=curve,
        table=_table(task, [*best * np.array(MULTIPLES), *(one.deadline_s for one in minima[1:3])], noise_quorum),
    )


def _table(task: Tradeoff, deadlines_s: list[float], noise_quorum: int) -> Table:
    shares = (max(round(share * task.clients), 1) for share in SHARES)
    quorum = np.array(sorted({1, task.quorum, noise_quorum, *shares}), dtype=np.int64)
    deadline_s = np.unique(deadlines_s)
    objective = excess(task, deadline_s, quorum[:, None]) + task.comm_weight
    return Table(
        quorum, deadline_s, objective, theory.success(task.clients, quorum[:, None], task.answered(deadline_s))
    )


# ---------------------------------------------------------------- what cannot be planned


def _check(clients: int, quorum: int | None, waste_weight: float, comm_weight: float) -> None:
    if not 1 <= clients <= MOST:
        raise BadInput(f"clients = {clients} is out of range: give 1 to {MOST:g}")
    if quorum is not None and not 1 <= quorum <= clients:
        raise BadInput(f"quorum = {quorum} of {clients} clients can never be met: give 1 to {clients}")
    if not 0 <= waste_weight <= MOST:
        raise BadInput(f"waste_weight = {waste_weight:g} is out of range: give 0 to {MOST:g}")
    if not 1 / MOST <= comm_weight <= MOST:
        raise BadInput(
            f"comm_weight = {comm_weight:g} is out of range: give {1 / MOST:g} to {MOST:g} "
            "(when broadcasts are free, ever shorter deadlines win and there is no best one)"
        )


def _check_rate(rate: float) -> None:
    if not 1 / MOST <= rate <= MOST:
        raise BadInput(f"rate = {rate:g} is out of range: give {1 / MOST:g} to {MOST:g} answers per second")


def _times(response_s: ArrayLike | None) -> Floats:
    try:
        times = np.asarray(response_s, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise BadInput("response times are not all numbers: give seconds") from None
    if not len(times):
        raise BadInput("there are no response times: measure at least one, in seconds")
    wrong = times[~(np.isfinite(times) & (times > 0))]
    if len(wrong):
        raise BadInput(f"response time {wrong[0]:g} s is no time to answer in: give finite seconds above 0")
    return times
