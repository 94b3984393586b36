"""KFL's setting with convolutional networks of five widths on CIFAR-10: 0.5 J per round, 2 s to compute and send."""

from dataclasses import replace

from ..learn.settings import ModelConfig
from .knowledge import COMPARE as COMPARE
from .knowledge import CONFIG as MLP

CONFIG = replace(
    MLP,
    scenario="knowledge_cifar",
    rounds=300,
    eval_every=3,
    world=replace(MLP.world, deadline_s=2.0),
    data=replace(MLP.data, name="cifar10"),
    model=ModelConfig(name="cnn", hidden=(128, 64), widths=(128, 192, 256, 320, 384), flops="parameters"),
)
METHODS = {"knowledge": {"mean_energy_joule": 0.5}}
