"""Scheduling by representativity and latency: 100 devices in a square cell share 10 MHz, CIFAR-10 shards, a CNN."""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="representativity",
    rounds=1000,
    eval_every=5,
    world=WorldConfig(
        n_devices=100,
        topology="square",
        side_m=500.0,
        min_distance_m=1.0,
        pathloss="power_law",
        reference_gain_db=-30.0,
        exponent=2.0,
        fading="exponential",
        access="fdma",
        bandwidth_hz=10e6,
        noise_watt=1e-12,
        cpu_hz=Law((0.8e9, 1.0e9, 1.2e9, 1.4e9, 1.6e9), "choice"),
        cycles_per_sample=Law((28_206_904.0,)),
        power_dbm=Law((10.0,)),
        bits_per_parameter=16.0,
    ),
    data=DataConfig(name="cifar10", scaling="standard", partition="shards", shards_per_device=2),
    model=ModelConfig(name="cnn", channels=(64, 64), hidden=(120, 64)),
    train=TrainConfig(lr=0.05, steps=8, batch_size=64, momentum=0.9),
)
METHODS = {"representativity": {"error_weight": 0.03}, "central": {"batch_size": 64}}
COMPARE = (
    "representativity",
    "representativity:policy=latency",
    "representativity:policy=both",
    "representativity:policy=random",
    "representativity:policy=power_of_choice",
    "representativity:policy=gradient_norm",
    "central",
)
