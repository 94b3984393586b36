"""Labels that wander: the Markov chains of the devices, and what is drawn from them.

Every device has a few label laws (states). One is active in a round; the next is the more probable the smaller its
KL divergence from the present one. The label shares of a round wander, while their mean under the chain's stationary
law, the long-term distribution, is constant and unknown to the device.

Reference: streaming, section VI; section 3.1 of the method's page
"""

from typing import NamedTuple

import numpy as np

from .. import rng
from ..errors import BadInput
from ..types import Floats, Ints
from .caches import largest_remainder
from .settings import StreamConfig

STUCK = 1e-9  # a chain whose second eigenvalue is nearer to 1 than this has no usable stationary law
TRIES = 1000  # draws of random classes before giving up covering all of them


class LabelLaw(NamedTuple):
    """The Markov chains of all devices."""

    states: Floats  # [n_devices, n_states, n_classes], label shares of each state
    transition: Floats  # [n_devices, n_states, n_states], rows sum to one
    stationary: Floats  # [n_devices, n_states]
    long_term: Floats  # [n_devices, n_classes], the stationary mean of the states
    second_eigenvalue: Floats  # [n_devices], modulus: the correlation of successive rounds


def draw_law(settings: StreamConfig, present: Ints, n_classes: int, n_devices: int, seed: int) -> LabelLaw:
    """Draw the states of every device from a Dirichlet law over its classes, and make chains of them.

    Args:
        settings: the chain.
        present: the classes that have training samples.
        n_classes: number of classes.
        n_devices: devices to serve.
        seed: of the run.
    """
    each = settings.classes_per_device
    if each > len(present):
        raise BadInput(
            f"stream.classes_per_device = {each} but the training data has {len(present)} classes: "
            f"lower it to at most {len(present)}"
        )
    classes = _classes(settings, present, n_devices, seed)
    draw = rng.stream(seed, rng.SETUP, "stream.states")
    share = draw.dirichlet(np.full(each, settings.alpha), (n_devices, settings.n_states))
    states = np.zeros((n_devices, settings.n_states, n_classes))
    np.put_along_axis(states, np.broadcast_to(classes[:, None], share.shape), share, axis=2)
    return make_law(states, settings.beta, settings.smoothing)


def make_law(states: Floats, beta: float, smoothing: float) -> LabelLaw:
    """Chains over given states: `P_ij = exp(-beta KL(p_i || p_j)) / sum_j' exp(-beta KL(p_i || p_j'))`.

    Args:
        states: label shares, `[n_devices, n_states, n_classes]`.
        beta: at 0 all states follow each other equally; large values stay near.
        smoothing: added to the shares of a device's classes before the divergence is taken; above 0 if a state lacks
            one of them.
    """
    from scipy.special import rel_entr  # slow to import, and few runs need it

    known = states.any(axis=1, keepdims=True)  # the classes of a device
    smooth = np.where(known, states + smoothing, 0.0)
    smooth /= smooth.sum(axis=2, keepdims=True)
    divergence = np.maximum(rel_entr(smooth[:, :, None], smooth[:, None, :]).sum(axis=3), 0.0)  # < 0 by rounding
    weight = np.exp(-beta * divergence)
    transition = weight / weight.sum(axis=2, keepdims=True)
    modulus = np.sort(np.abs(np.linalg.eigvals(transition)), axis=1)
    second = modulus[:, -2] if modulus.shape[1] > 1 else np.zeros(len(states))
    if (second > 1 - STUCK).any():
        raise BadInput(f"stream.beta = {beta:g} leaves states that are never left: lower it")
    stationary = _stationary(transition)
    return LabelLaw(states, transition, stationary, (stationary[:, None] @ states)[:, 0], second)


def first_state(law: LabelLaw, seed: int) -> Ints:
    """The state of every device in the first round, from the stationary law, `[n_devices]`."""
    return _pick(law.stationary, seed, rng.SETUP, "stream.state", 1)[:, 0]


def next_state(law: LabelLaw, state: Ints, seed: int, round: int) -> Ints:
    """The state of every device in the round after `round`, `[n_devices]`."""
    return _pick(law.transition[np.arange(len(state)), state], seed, round, "stream.state", 1)[:, 0]


def draw_labels(law: LabelLaw, state: Ints, n: int, seed: int, round: int) -> Ints:
    """Labels of `n` samples of every device in a round (`SETUP`: of the first cache), `[n_devices, n]`."""
    return _pick(law.states[np.arange(len(state)), state], seed, round, "stream.labels", n)


def ideal_labels(law: LabelLaw, capacity: Ints) -> Ints:
    """The labels of the ideal cache, `[n_devices, widest]`: long-term shares, classes evenly spread along the row."""
    counts = largest_remainder(law.long_term * capacity[:, None], capacity)
    rows = np.zeros((len(capacity), int(capacity.max())), dtype=np.int64)
    for row, n_each in zip(rows, counts, strict=True):
        label = np.repeat(np.arange(len(n_each)), n_each)
        place = np.concatenate([(np.arange(n) + 0.5) / n for n in n_each if n])
        row[: len(label)] = label[np.argsort(place, kind="stable")]
    return rows


def _classes(settings: StreamConfig, present: Ints, n_devices: int, seed: int) -> Ints:
    """The classes of every device, `[n_devices, classes_per_device]`."""
    each = settings.classes_per_device
    if settings.classes == "cyclic":
        return present[(np.arange(n_devices)[:, None] + np.arange(each)) % len(present)]
    draw = rng.stream(seed, rng.SETUP, "stream.classes")
    for _ in range(TRIES):
        chosen = np.stack([draw.permutation(present)[:each] for _ in range(n_devices)])
        if len(np.unique(chosen)) == min(len(present), n_devices * each):
            return chosen
    raise BadInput(
        f"stream.classes = 'random' left a class out in {TRIES} draws of {each} for {n_devices} devices: use cyclic"
    )


def _stationary(transition: Floats) -> Floats:
    """`rho P = rho`, `sum rho = 1` for every device: one equation of the first is replaced by the second."""
    n_states = transition.shape[1]
    system = np.swapaxes(transition, 1, 2) - np.eye(n_states)
    system[:, -1] = 1.0
    right = np.zeros((len(transition), n_states, 1))
    right[:, -1] = 1.0
    rho = np.maximum(np.linalg.solve(system, right)[:, :, 0], 0.0)
    return rho / rho.sum(axis=1, keepdims=True)


def _pick(share: Floats, seed: int, round: int, purpose: str, n: int) -> Ints:
    """`n` draws from the law of each row, `[n_rows, n]`; entries of share zero are never drawn."""
    edge = np.cumsum(share, axis=1)
    edge /= edge[:, -1:]
    u = rng.uniforms(seed, round, purpose, np.arange(len(share))[:, None], np.arange(n))
    return np.sum(u[:, :, None] >= edge[:, None, :-1], axis=2, dtype=np.int64)
