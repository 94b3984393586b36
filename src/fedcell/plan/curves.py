"""Where a learning curve goes: rounds to a target with an interval, from the first evaluations of a run.

A metric `y` is stretched to a line: `z = log(y / (A - y))` for shares that rise to `A <= 1`, and `z = -log(y - A)` for
losses that fall to `A >= 0`. After `r` rounds

    z(r) = c0 + c1 log(1 + r / tau) / log(1 + n / tau) + noise

with `n` the rounds seen. It rises with the logarithm of the rounds if `tau` is small, and with the rounds themselves if
it is large. Every `tau` of a grid counts with its marginal likelihood; `A` is perfection, or with a small chance less.
`c0`, `c1 >= 0` and the deviation of the noise are drawn from their posterior (linear regression with the
usual flat prior). No curve keeps to such a line: beyond the rounds seen it rises at a pace that differs by a drawn
factor. Each drawn curve, with noise, has a first evaluation that reaches the target.
"""

from typing import NamedTuple

import numpy as np

from ..types import Floats, Ints

LEAST = 5  # evaluations that a curve needs
PERFECT = 0.95  # prior weight of curves towards perfection, against those that end earlier
N_LIMITS = 8  # other values of `A`
TAUS = np.geomspace(0.05, 20.0, 14)  # as shares of the rounds seen
MARGIN = 1e-3  # shares are kept at least this far from 0 and from 1
ALIKE = 0.5  # evaluations in a row are alike: each counts as so many independent ones
PACE = 0.4  # deviation of the logarithm of a curve's pace after the pilot over that in it


class Crossing(NamedTuple):
    """When drawn curves reach a target."""

    rounds: Floats  # [n_drawn], inf for those that do not within the horizon
    horizon: int


class _Lines(NamedTuple):
    """The posterior: one line for every `A` and `tau`, `[n_models, ...]`."""

    limit: Floats
    tau: Floats
    weight: Floats  # adds up to 1
    mean: Floats  # [n_models, 2], of c0 and c1
    root: Floats  # [n_models, 2, 2], of the covariance for a deviation of 1
    squares: Floats  # of the residuals
    freedom: float


def crossing(
    rounds: Ints, values: Floats, target: float, falling: bool, evaluated: Ints, rng: np.random.Generator, n: int = 4000
) -> Crossing:
    """Draw when a metric reaches a target.

    Args:
        rounds: after which it was evaluated, from 1, `[n_seen]`.
        values: of the metric there.
        target: to reach.
        falling: whether less is better; else the metric is a share of at most 1.
        evaluated: rounds after which it will be evaluated, ascending, all after those seen.
        rng: the stream of the draws.
        n: curves to draw.
    """
    found = _posterior(rounds.astype(np.float64), values, falling)
    at = rng.choice(len(found.weight), size=n, p=found.weight)
    deviation = np.sqrt(found.squares[at] / rng.chisquare(found.freedom, n))
    normal = rng.standard_normal((n, 2))
    line = found.mean[at] + deviation[:, None] * np.einsum("nij,nj->ni", found.root[at], normal)
    line[:, 1] = np.maximum(line[:, 1], 0.0)
    noise = np.sqrt(found.squares / (ALIKE * (len(rounds) - 2)))  # the usual one: a large one would cross at once
    pace = np.exp(PACE * rng.standard_normal(n))
    wanted = _stretched(np.full(n, target), found.limit[at], falling)
    first = np.full(n, np.inf)
    for block in np.array_split(np.arange(n), max(n * len(evaluated) // 4_000_000, 1)):
        x = _risen(evaluated[None], found.tau[at[block]][:, None], rounds[-1])
        risen = line[block, 1:] * (1.0 + pace[block, None] * (x - 1.0))
        z = line[block, :1] + risen + noise[at[block], None] * rng.standard_normal(x.shape)
        there = z >= wanted[block, None]
        first[block] = np.where(there.any(axis=1), evaluated[there.argmax(axis=1)], np.inf)
    return Crossing(first, int(evaluated[-1]))


def _risen(rounds: Floats | Ints, tau: Floats, seen: float) -> Floats:
    """How far a curve has risen after some rounds: 1 after those seen."""
    return np.asarray(np.log1p(rounds / tau) / np.log1p(seen / tau))


def _stretched(values: Floats, limit: Floats, falling: bool) -> Floats:
    """`z` of values for a limit each; infinite at the limit and beyond."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = -np.log(values - limit) if falling else np.log(values / (limit - values))
    return np.where(np.isnan(z), np.inf, z)


def _limits(values: Floats, falling: bool) -> tuple[Floats, Floats]:
    """Values of `A`, perfection first, and their prior weights."""
    perfect = 0.0 if falling else 1.0 + MARGIN
    best = values.min() if falling else values.max()
    nearer = best + (perfect - best) * np.linspace(0.25, 0.9, N_LIMITS)
    return np.array([perfect, *nearer]), np.array([PERFECT, *np.full(N_LIMITS, (1 - PERFECT) / N_LIMITS)])


def _posterior(r: Floats, values: Floats, falling: bool) -> _Lines:
    y = values if falling else np.clip(values, MARGIN, 1.0 - MARGIN)
    limits, prior = _limits(y, falling)
    limit, tau = (part.ravel() for part in np.meshgrid(limits, TAUS * r[-1], indexing="ij"))
    z = _stretched(y[None], limit[:, None], falling)  # [n_models, n_seen]
    x = np.stack([np.ones((len(tau), len(r))), _risen(r[None], tau[:, None], r[-1])], axis=2)
    gram = np.einsum("nri,nrj->nij", x, x)
    covariance = np.linalg.inv(gram)
    mean = np.einsum("nij,nrj,nr->ni", covariance, x, z)
    squares = np.square(z - np.einsum("nri,ni->nr", x, mean)).sum(axis=1) + 1e-9
    freedom = max(ALIKE * len(r) - 2, 1.0)
    fit = -0.5 * freedom * np.log(squares) - 0.5 * np.linalg.slogdet(gram)[1]
    fit = np.where(mean[:, 1] > 0, fit, fit.min() - 10.0).reshape(len(limits), -1)  # a curve that falls learns nothing
    weight = np.exp(fit - fit.max(axis=1, keepdims=True))
    weight = (prior[:, None] * weight / weight.sum(axis=1, keepdims=True)).ravel()
    return _Lines(limit, tau, weight, mean, np.linalg.cholesky(covariance), squares * ALIKE, freedom)
