"""Differential privacy of noisy sums over rounds: epsilon at a delta, by `dp-accounting`.

A round adds Gaussian noise of `z` clipping norms to a sum in which a device has at most one norm. By how rounds draw
their devices, the accountant gets

    all       the Gaussian mechanism, one device's data taken away: sensitivity 1
    poisson   the same, each device drawn with a chance `q` by itself: amplified by sampling
    random    `m` of `n` devices without replacement, one device's data replaced: sensitivity 2, so `z / 2`
    local     each message of a device is one Gaussian mechanism, its data replaced: `z / 2`, no amplification

Not a coding itself: it has no `build`.

Reference: Mironov, Renyi Differential Privacy, 2017; Mironov, Talwar, Zhang, Renyi Differential Privacy of the Sampled
Gaussian Mechanism, 2019; Wang, Balle, Kasiviswanathan, Subsampled Renyi Differential Privacy and Analytical Moments
Accountant, 2019; Koskela, Jalko, Honkela, Computing Tight Differential Privacy Guarantees Using FFT, 2020 (pld).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import BadInput
from ..types import Floats

ACCOUNTANTS = ("rdp", "pld")
MOST_NOISE = 1e4  # clipping norms; more than any model survives
TOLERANCE = 1e-4  # of a calibrated noise


def library() -> Any:
    """Import the package; raises BadInput if it is missing or too old to have accountants."""
    try:
        import dp_accounting
        from dp_accounting import pld, rdp  # noqa: F401 (submodules that the package does not import by itself)
    except ImportError:
        raise BadInput("epsilon needs dp-accounting 0.6 or newer: python3 -m pip install 'fedcell[private]'") from None
    return dp_accounting


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the warnings about orders that do not converge: these orders are left out, which is safe."""
    from absl import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def event(rule: str, rate: float, noise: float) -> Any:
    """The event of one round that draws devices by a rule, with `noise` clipping norms of noise."""
    package = library()
    if rule in ("random", "local"):
        noise = noise / 2
    gaussian = package.GaussianDpEvent(noise)
    if rate >= 1 or rule in ("all", "local"):
        return gaussian
    if rule == "poisson":
        return package.PoissonSampledDpEvent(rate, gaussian)
    share = Fraction(rate).limit_denominator(10**7)
    return package.SampledWithoutReplacementDpEvent(share.denominator, share.numerator, gaussian)


def accountant(name: str, rule: str) -> Any:
    """A fresh accountant for the neighbours of a rule; without sampling, the noise of `event` has their distance."""
    package = library()
    relation = package.NeighboringRelation
    made = package.rdp.RdpAccountant if name == "rdp" else package.pld.PLDAccountant
    return made(neighboring_relation=relation.REPLACE_ONE if rule == "random" else relation.ADD_OR_REMOVE_ONE)


def epsilon(name: str, rule: str, rates: Floats, noise: float, delta: float) -> float:
    """Epsilon after rounds with these rates, `[n_rounds]`; 0 for rounds that released nothing.

    >>> round(epsilon("rdp", "poisson", np.full(100, 0.01), 1.0, 1e-5), 3)
    1.214
    """
    found, count = np.unique(rates[rates > 0], return_counts=True)
    return _epsilon(name, rule, tuple(zip(found.tolist(), count.tolist(), strict=True)), noise, delta)


@lru_cache(maxsize=4096)
def _epsilon(name: str, rule: str, rounds: tuple[tuple[float, int], ...], noise: float, delta: float) -> float:
    ledger = accountant(name, rule)
    with quietly():
        for rate, count in rounds:
            if name == "rdp":  # divergences add up: that of one round is computed once
                ledger._rdp = ledger._rdp + count * _divergences(rule, rate, noise)
            else:
                ledger.compose(event(rule, rate, noise), count)
        return float(ledger.get_epsilon(delta))


@lru_cache(maxsize=1024)
def _divergences(rule: str, rate: float, noise: float) -> Floats:
    one = accountant("rdp", rule)
    one.compose(event(rule, rate, noise))
    return np.asarray(one._rdp)


@lru_cache(maxsize=64)
def noise_for(name: str, rule: str, rate: float, n_rounds: int, target: float, delta: float) -> float:
    """The least noise, in clipping norms, with which `n_rounds` rounds stay within a target epsilon."""
    package = library()

    def rounds(noise: float) -> Any:
        return package.SelfComposedDpEvent(event(rule, rate, noise), n_rounds)

    bracket = package.LowerEndpointAndGuess(1e-2, 1.0)
    try:
        with quietly():
            found = package.calibrate_dp_mechanism(
                lambda: accountant(name, rule), rounds, target, delta, bracket, tol=TOLERANCE
            )
    except package.mechanism_calibration.NoBracketIntervalFoundError:
        found = MOST_NOISE
    if found >= MOST_NOISE:
        raise BadInput(f"epsilon = {target:g} at delta = {delta:g} needs more noise than any model survives: raise it")
    return float(found)
