"""Rounds of OSAFL and its baselines on made-up updates: nothing trains, everything else is real."""

import numpy as np
import torch
from kept_rows import matrix

from fedcell import methods, radio, world
from fedcell.simulate import SIMULATED, begin, play_round
from fedcell.types import Round, Updates

NAMES = ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco")
SAME = "n_batches=1"  # a local step of one mini-batch, as other methods have it


def build(text):
    return methods.parse(text).build()


def moved(problem, text):
    """Change of the model in the first round of a run."""
    method = build(text)
    first = begin(problem, method)
    return play_round(SIMULATED, problem, method, first)[1].params - first.params


def rounds(problem, text, params, deltas, heard, steps):
    """Play rounds with `deltas[t, k]` in place of the update of device `k`; yields (params, state) after each."""
    method, place, seed = build(text), problem.world, problem.seed
    params = torch.as_tensor(params, dtype=torch.float32)
    state, seen = method.init(problem, params), world.observe(place, world.start(place, seed), seed, 0)[0]
    for delta, on, work in zip(deltas, heard, steps, strict=True):
        decision = method.decide(problem, state, seen)
        decision = decision._replace(selected=on, steps=np.asarray(work, dtype=np.int64))
        uplink = radio.transmit(place, seen, decision, seed)
        device = np.flatnonzero(on)
        updates = Updates(device, torch.tensor(delta[device], dtype=torch.float32))
        params, state = method.aggregate(problem, params, state, Round(seen, decision, updates, uplink))
        yield params, state


def made_up(seed, n_rounds=5, n_devices=6, n_params=7, chance=0.5):
    """(start, deltas, who is heard, steps) of a few rounds; nobody is heard in the first."""
    rng = np.random.default_rng(seed)
    heard = rng.random((n_rounds, n_devices)) < chance
    heard[0] = False
    return (
        rng.normal(size=n_params),
        rng.normal(size=(n_rounds, n_devices, n_params)) * 0.1,
        heard,
        rng.integers(1, 6, (n_rounds, n_devices)),
    )


def rows_of(kept, n_params=7):
    return matrix(kept, torch.zeros(n_params)).double().numpy()
