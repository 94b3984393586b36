"""From SINR to bits per second, as `world.link` says: Shannon's bound, or a 5G link with errors and retransmissions."""

from math import isfinite

import numpy as np

from ..rng import stream
from ..types import Bools, Floats, Ints, World
from . import nr, rate

HOPELESS = 1e6  # times Shannon's: no plan can pay for it


def rate_bps(world: World, bandwidth_hz: float | Floats, sinr: Floats) -> Floats:
    """Bits per second of a link; with `nr` the mean over retransmissions.

    Args:
        world: which link, and its target and attempts.
        bandwidth_hz: broadcasts with `sinr`.
        sinr: a ratio, in that band.
    """
    if world.settings.link == "shannon":
        return rate.rate_bps(bandwidth_hz, sinr)
    return nr.rate_bps(_blocks(world, bandwidth_hz, sinr), sinr)


def in_vain(world: World, deadline_s: float) -> bool:
    """Whether a device without any rate listens and sends until the deadline; a 5G link gives it no scheme to use."""
    return isfinite(deadline_s) and world.settings.link == "shannon"


def over_shannon(world: World, bandwidth_hz: Floats, sinr: Floats) -> Floats | None:
    """How many times as long as Shannon's bound an upload takes; None on a link that attains it.

    Closed forms plan with the bound. If the payload is multiplied by this factor, it takes as long at the bound as on
    the real link, so closed forms are exact at the given SINR.
    """
    if world.settings.link == "shannon":
        return None
    bound, real = rate.rate_bps(bandwidth_hz, sinr), rate_bps(world, bandwidth_hz, sinr)
    return np.minimum(np.divide(bound, real, out=np.full_like(bound, HOPELESS), where=real > 0), HOPELESS)


def played(
    world: World, bandwidth_hz: Floats, sinr: Floats, payload_bit: Floats, device: Ints, seed: int, round: int
) -> tuple[Floats, Floats, Bools]:
    """Draw the block errors and retransmissions of a round's uploads on a link with errors.

    Args:
        world: target and attempts.
        bandwidth_hz: `[n]`.
        sinr: `[n]`.
        payload_bit: `[n]`.
        device: `[n]`, their numbers; the draws of a device are its own, whoever else sends.
        seed: of the run.
        round: of the draws.

    Returns: `[n]` each: seconds over their mean, how often a bit was sent, and whether everything was decoded.
    """
    found = _blocks(world, bandwidth_hz, sinr)
    uniform = stream(seed, round, "link").random((world.settings.harq_attempts, world.n_devices))[:, device]
    sent, decoded = nr.play(found, payload_bit, uniform)
    return sent / found.attempts * found.decoded, sent, decoded


def _blocks(world: World, bandwidth_hz: float | Floats, sinr: Floats) -> nr.Blocks:
    settings = world.settings
    return nr.blocks(np.asarray(bandwidth_hz), sinr, settings.bler_target, settings.harq_attempts)
