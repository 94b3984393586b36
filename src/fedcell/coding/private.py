"""Differential privacy: devices clip their updates, and noise hides each of them in the sum (DP-FedAvg).

With `S` the clipping norm, `u_k` the update of a device, `m` the devices that a round draws on average and `z` the
noise multiplier, the method gets in the place of all updates

    central   (sum_k min(1, S / |u_k|) u_k + N(0, (z S)^2 I)) / m                 the server adds noise, once
    local     mean_k (min(1, S / |u_k|) u_k + N(0, (z S)^2 I))                    each device does, before it sends

over the devices heard. A device has at most `S` in the sum, however many are heard: noise is scaled to that and `m` is
not what was heard, so neither lost uploads nor those that screening turns away (both count as zeros) change what is
promised. All devices weigh the same, whatever they hold. `epsilon` of every row is what all rounds so far have spent at
`delta` (see `accounting`). Noise comes from the seed of the run: this studies privacy, and protects nobody's data.

`adaptive`: `S` follows a quantile of the lengths. Each device also sends `b_k = 1/2` if `|u_k| <= S`, else `-1/2`, and

    S <- S exp(-clip_lr (1/2 + (sum_k b_k + N(0, sigma_b^2)) / m - quantile)),   sigma_b = max(m / 20, z) unless set

Updates get `(z^-2 - (2 sigma_b)^-2)^(-1/2)` instead of `z`, so that both sums together are as private as `z` says.

Bits: all numbers of the update, one for `b_k`, and what `secure` aggregation adds, which keeps single updates from a
server that devices do not trust.

Reference: McMahan, Ramage, Talwar, Zhang, Learning Differentially Private Recurrent Language Models, 2018; Andrew,
Thakkar, McMahan, Ramaswamy, Differentially Private Learning with Adaptive Clipping, 2021.
"""

from collections.abc import Mapping
from functools import partial
from math import exp
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..errors import BadInput
from ..types import Bools, Floats, Ints, Problem
from . import AtSum, Coding, Sampling
from .accounting import epsilon, noise_for
from .clipping import bits, decode, encode, gaussian, most_bit, numbers
from .private_settings import Config
from .secure import secure_cost

ACCOUNTED = ("all", "random", "poisson")  # schedulers


class Memory(NamedTuple):
    """What the server of a private method remembers."""

    clip_norm: float
    noise: float  # z
    count_noise: float  # sigma_b; 0 unless clipping is adaptive
    rule: str  # by which devices are drawn
    rates: Floats  # [n_rounds], chances of the rounds so far
    counts: Ints  # [n_devices], rounds that each was drawn in


def build(config: Config) -> Coding:
    at_sum = AtSum(
        start=partial(start, config),
        now=partial(coding, config),
        n_summed=lambda n: n + (config.clipping == "adaptive"),
        numbers=numbers,
        noted=noted,
        columns=partial(columns, config),
        mean=partial(mean, config),
        extra=partial(secure_cost, config.secure, config.degree, config.mask_cycles),
    )
    return coding(config, None)._replace(at_sum=at_sum)


def start(config: Config, problem: Problem, sampling: Sampling) -> Memory:
    if config.dp == "central" and sampling.rule not in ACCOUNTED:
        raise BadInput(
            f"scheduler = {sampling.rule!r} does not go with private, whose accountant needs devices that are drawn at "
            "random, or all: use poisson, random or all, or dp=local"
        )
    rule, rate = ("local", 1.0) if config.dp == "local" else (sampling.rule, sampling.rate)
    if rule == "random" and config.accountant == "pld":
        raise BadInput("accountant = 'pld' does not go with scheduler = 'random': use rdp, or scheduler=poisson")
    noise, count_noise = config.noise_multiplier, 0.0
    if config.target_epsilon is not None:
        noise = noise_for(config.accountant, rule, rate, problem.n_rounds, config.target_epsilon, config.delta)
    if config.clipping == "adaptive":
        count_noise = config.quantile_noise or max(sampling.n_expected / 20, noise)
        if noise and noise >= 2 * count_noise:
            raise BadInput(
                f"quantile_noise = {count_noise:g} leaves nothing of a noise of {noise:g}: raise it above {noise / 2:g}"
            )
    return Memory(config.clip_norm, noise, count_noise, rule, np.zeros(0), np.zeros(problem.world.n_devices, np.int64))


def coding(config: Config, memory: Memory | None) -> Coding:
    """The coding of the devices, with clipping norm and noise of a memory, or of the settings before there is one."""
    norm, noise = (config.clip_norm, config.noise_multiplier) if memory is None else (memory.clip_norm, memory.noise)
    local_noise, counts = noise * norm if config.dp == "local" else 0.0, config.clipping == "adaptive"
    return Coding("private", partial(encode, norm, local_noise, counts), decode, bits, partial(most_bit, counts))


def noted(memory: Memory, sampling: Sampling, selected: Bools) -> Memory:
    """The memory with one more round; its rate is 0, so that it costs nothing, if there is nobody to draw from."""
    rates = np.append(memory.rates, sampling.rate if sampling.n_expected else 0.0)
    return memory._replace(rates=rates, counts=memory.counts + selected)


def columns(config: Config, memory: Memory) -> Mapping[str, float]:
    found = {"clip_norm": memory.clip_norm, "noise_multiplier": memory.noise}
    if not memory.noise:
        return found
    rates = np.ones(int(memory.counts.max(initial=0))) if memory.rule == "local" else memory.rates
    return found | {"epsilon": epsilon(config.accountant, memory.rule, rates, memory.noise, config.delta)}


def mean(
    config: Config, memory: Memory, total: Tensor, sampling: Sampling, n_heard: int, rng: np.random.Generator
) -> tuple[Tensor | None, Memory]:
    """The mean that a method gets, and the memory with the clipping norm of the next round."""
    if config.dp == "local":
        return (total / n_heard if n_heard else None), memory
    m, z, sigma_b = sampling.n_expected, memory.noise, memory.count_noise
    if not m:
        return None, memory
    if not sigma_b:
        return (total + gaussian(rng, z * memory.clip_norm, total)) / m, memory
    total, count = total[:-1], float(total[-1]) + rng.normal(0.0, sigma_b if z else 0.0)
    z = (z**-2 - (2 * sigma_b) ** -2) ** -0.5 if z else 0.0
    step = exp(-config.clip_lr * (0.5 + count / m - config.quantile))
    return (total + gaussian(rng, z * memory.clip_norm, total)) / m, memory._replace(clip_norm=memory.clip_norm * step)
