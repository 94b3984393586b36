"""Small problems and random offers for the tests of knowledge-aided learning."""

import numpy as np

from fedcell.data.settings import DataConfig
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.methods.knowledge.energy import Offer
from fedcell.options import Law
from fedcell.solve.energy_bandwidth import least_share
from fedcell.world.settings import WorldConfig

MIXED = ModelConfig(name="mlp", hidden=(12, 8), widths=(6, 9, 12))
EQUAL = ModelConfig(name="mlp", hidden=(12, 8))
SHARDS = DataConfig(partition="shards", shards_per_device=2)
TRAIN = TrainConfig(lr=0.05, steps=2, batch_size=0, momentum=0.9, device="cpu")
CELL = WorldConfig(
    n_devices=6,
    bandwidth_hz=2e4,
    noise_dbm_per_hz=-112.0,
    pathloss="power_law",
    fading="exponential",
    deadline_s=1.0,
    clock="deadline",
    capacitance=5e-27,
    cycles_per_sample=Law((1.5e3, 2.5e3), "uniform"),
)


def random_offer(rng, n=None, limit=np.inf):
    """Devices of one band: some cannot reach the server, and the band may be too small for all."""
    n = n or int(rng.integers(1, 30))
    costly = rng.random() < 0.5  # whether sending costs as much as computing
    load = 10.0 ** (rng.uniform(-1.5, -0.5, n) if costly else rng.uniform(-4, 0, n))
    noise_watt = 10.0 ** (rng.uniform(-2, 0.5, n) if costly else rng.uniform(-6, 0, n))
    power = rng.uniform(0.1, 1.0, n) * (100.0 if costly else 1.0)
    return Offer(
        compute_joule=rng.uniform(0.1, 2.0, n),
        send_s=rng.uniform(0.1, 1.0, n),
        load=load,
        noise_watt=noise_watt,
        power_watt=power,
        least=least_share(load, power / noise_watt),
        limit_joule=np.full(n, limit),
    )
