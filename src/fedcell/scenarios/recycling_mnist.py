"""FL-GR's learning rules without a radio: 10 random ones of 100 devices with two MNIST shards each are always heard."""

from dataclasses import replace

from ..learn.settings import ModelConfig
from ..options import Law
from ..world.settings import WorldConfig
from .recycling import CONFIG as CNN

CONFIG = replace(
    CNN,
    scenario="recycling_mnist",
    rounds=300,
    eval_every=1,
    world=WorldConfig(
        n_devices=100,
        access="own_band",
        bandwidth_hz=1e6,
        cpu_hz=CNN.world.cpu_hz,
        cycles_per_sample=Law((25_442.5,)),
        capacitance=5e-27,
        bits_per_parameter=16.0,
    ),
    data=replace(CNN.data, name="mnist"),
    model=ModelConfig(name="mlp", hidden=(128,)),
)
METHODS = {"recycling": {"scheduler": "random"}}
COMPARE = (
    "recycling",
    "recycling:rule=received",
    "recycling:rule=models",
    "recycling:rule=zero",
    "recycling:rule=received,prox=0.01",
)
