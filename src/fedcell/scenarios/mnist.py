"""MNIST on 100 devices with two label shards each in one urban cell (needs `fedcell data get mnist`)."""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="mnist",
    rounds=100,
    eval_every=5,
    world=WorldConfig(n_devices=100, bandwidth_hz=10e6, flops_per_cycle=4.0, capacitance=1e-27),
    data=DataConfig(name="mnist", scaling="standard", partition="shards", shards_per_device=2),
    model=ModelConfig(name="cnn", channels=(6, 16), hidden=(128,)),
    train=TrainConfig(lr=0.05, steps=5, batch_size=32),
)
COMPARE = ("fedavg:scheduler=random,n_selected=10", "fedavg:scheduler=fastest,n_selected=10", "fedavg", "central")
