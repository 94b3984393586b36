"""AMP-FL's larger setting: as `pruning`, with a VGG-11 of 9.3 million parameters on CIFAR-10 and a deadline of 20 s."""

from dataclasses import replace

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig
from ..options import Law
from . import pruning

FLOPS = 362_285_568
CONFIG = replace(
    pruning.CONFIG,
    scenario="pruning_vgg",
    rounds=1500,
    eval_every=25,
    world=replace(pruning.CONFIG.world, cycles_per_sample=Law((FLOPS / pruning.FLOPS_PER_CYCLE,))),
    data=DataConfig(name="cifar10", scaling="standard", partition="shards", shards_per_device=2),
    model=ModelConfig(name="vgg11", hidden=(128,), norm="batch"),
)
METHODS = pruning.METHODS | {"pruning": {"deadline_s": 20.0}}
COMPARE = pruning.COMPARE
