"""Scheduling by representativity and latency on MNIST shards: a dense network, so that sending sets the pace."""

from dataclasses import replace

from ..learn.settings import ModelConfig
from ..options import Law
from .representativity import COMPARE as COMPARE
from .representativity import CONFIG as CNN

CONFIG = replace(
    CNN,
    scenario="representativity_mnist",
    rounds=200,
    eval_every=2,
    world=replace(CNN.world, cycles_per_sample=Law((550_346.0,))),
    data=replace(CNN.data, name="mnist"),
    model=ModelConfig(name="mlp", hidden=(512, 256, 64)),
)
METHODS = {"representativity": {"error_weight": 0.3, "error_scale": "mean"}, "central": {"batch_size": 64}}
