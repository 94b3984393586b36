"""Rounds over the air whose updates, gains and powers a test sets."""

import numpy as np
import torch

from fedcell import methods, radio
from fedcell.methods.parts.resources import plan
from fedcell.simulate import SIMULATED, begin
from fedcell.types import Round, Updates

AIR = {"world.access": "air"}


def silent(problem):
    """The problem without noise."""
    return problem._replace(world=problem.world._replace(noise_watt_per_hz=0.0))


def fedavg(text="fedavg"):
    return methods.parse(text).build()


def sent(problem, rows, gain=None, power_watt=None):
    """A round in which every device has sent a row."""
    observation, _ = SIMULATED.observe(problem, begin(problem, fedavg()))
    if gain is not None:
        observation = observation._replace(gain=gain, mean_gain=gain)
    if power_watt is not None:
        observation = observation._replace(devices=observation.devices._replace(power_watt=power_watt))
    everyone = np.ones(problem.world.n_devices, dtype=bool)
    decision = plan(problem, observation, everyone, 1, 8.0)
    decision = decision._replace(payload_bit=np.full(len(everyone), rows.shape[1] * 32.0))
    uplink = radio.transmit(problem.world, observation, decision, problem.seed)
    return Round(observation, decision, Updates(np.arange(len(rows)), rows), uplink)


def asks(weights):
    """An `aggregate` that returns the sum with these weights over the devices heard."""

    def aggregate(played):
        return played.add_up(weights[played.heard()])

    return aggregate


def some_rows(n_devices, n_entries, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n_devices, n_entries)).astype(np.float32))
