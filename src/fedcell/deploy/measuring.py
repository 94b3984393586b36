"""What is measured in a round of real devices: seconds, bits, and joules. Needs no Flower."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..radio import cost, forecast
from ..types import Decision, Floats, Method, Observation, Outcome, Problem, Uplink, World
from .tasks import Answer


def told_again(
    problem: Problem,
    method: Method,
    state: Any,
    observation: Observation,
    decision: Decision,
    answers: Sequence[Answer],
    uplink: Uplink,
) -> Mapping[str, float]:
    """The columns of a method that predicts answers, from the answers that came; of other methods, as decided."""
    if observation.response_s is None:
        return decision.info
    place = problem.world
    lasted = place._replace(settings=replace(place.settings, deadline_s=max(uplink.round_s, 1e-9)))
    came = observation._replace(response_s=came_s(place.n_devices, answers))
    return method.decide(problem._replace(world=lasted), state, came).info


def came_s(n_devices: int, answers: Sequence[Answer]) -> Floats:
    """Seconds to answer `[n_devices]`; inf for devices asked and not heard, 0 for devices not asked."""
    seconds = np.zeros(n_devices)
    for one in answers:
        seconds[one.device] = one.response_s if one.outcome == Outcome.DELIVERED else np.inf
    return seconds


def columns(answers: Sequence[Answer]) -> dict[str, float]:
    """Measured columns of a row: bits of messages, refusals, mean times of the devices heard."""
    heard = [one for one in answers if one.outcome == Outcome.DELIVERED]
    found = {
        "downlink_bit": float(sum(one.down_bit for one in answers)),
        "downlink_message_bit": float(sum(one.down_message_bit for one in answers)),
        "uplink_message_bit": float(sum(one.up_message_bit for one in answers)),
        "n_refused": float(sum(one.strike for one in answers)),
    }
    if heard:
        found["compute_s"] = float(np.mean([one.compute_s for one in heard]))
        found["transfer_s"] = float(np.mean([one.response_s - one.compute_s for one in heard]))
    return found


def joules(world: World, observation: Observation, decision: Decision, answers: Sequence[Answer]) -> dict[str, float]:
    """Joules of the devices heard, separated by how they are known.

    `measured_joule`: computing of the `n_metered` devices that have a meter. `estimated_joule`: by the model of the
    settings, computing of the `n_estimated` others, and sending of all (the bits of their answers at the rate of their
    channels; nothing if a channel has no rate).
    """
    heard = [one for one in answers if one.outcome == Outcome.DELIVERED]
    if not heard:
        return {}
    device, metered = np.array([one.device for one in heard]), np.array([bool(one.meter) for one in heard])
    bit = np.zeros(world.n_devices)
    bit[device] = [one.up_bit for one in heard]
    _, upload_s = forecast.times(world, observation, decision._replace(payload_bit=bit))
    sending = cost.upload_joule(decision.power_watt, np.where(np.isfinite(upload_s), upload_s, 0.0))[device]
    computing = forecast.compute_joule(observation, decision)[device]
    found = {
        "estimated_joule": float(sending.sum() + computing[~metered].sum()),
        "n_estimated": float((~metered).sum()),
    }
    if metered.any():
        found["measured_joule"], found["n_metered"] = sum(one.joule for one in heard), float(metered.sum())
    return found
