"""One urban cell: 20 unequal devices share 1 MHz under a 2 s deadline; digits with skewed labels."""

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
        deadline_s=2.0,
    ),
    data=DataConfig(name="digits", scaling="unit", partition="dirichlet", alpha=0.3),
    model=ModelConfig(name="mlp", hidden=(64,)),
    train=TrainConfig(lr=0.1, steps=10, batch_size=32),
)
COMPARE = ("fedavg", "fedavg:scheduler=fastest,n_selected=10", "fedprox", "fednova", "central")
