"""One urban cell: 20 devices share 1 MHz, half of them slow, under a deadline; digits, skewed labels."""

from math import inf

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="cell",
    rounds=60,
    world=WorldConfig(
        n_devices=20,
        bandwidth_hz=1e6,
        cycles_per_sample=Law((2e6, 8e6), "uniform"),
        cpu_hz=Law((0.5e9, 1.8e9), "uniform"),
        energy_per_round_joule=Law((inf,)),
        deadline_s=3.0,
    ),
    data=DataConfig(name="digits", partition="dirichlet", alpha=0.3),
    model=ModelConfig(name="mlp", hidden=(64,)),
    train=TrainConfig(lr=0.1, steps=10, batch_size=32),
)
COMPARE = (
    "fedavg",
    "fedavg:scheduler=best-channel,n_selected=5",
    "fedprox",
    "fednova",
    "central",
)
