"""FL-GR's setting: 100 devices, 10 interfered resource blocks, CIFAR-10 shards, budgets that every device can meet.

Its energy budget is 1.1 J: the published 1.0 J (scenario `recycling_printed`) is less than the 1.4 GHz devices spend on
computing alone, so that they never train.
"""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="recycling",
    rounds=500,
    eval_every=5,
    world=WorldConfig(
        n_devices=100,
        radius_m=500.0,
        min_distance_m=1.0,
        pathloss="power_law",
        reference_gain_db=0.0,
        fading="exponential",
        access="block",
        n_blocks=10,
        bandwidth_hz=1e6,
        interference_over_noise=Law((1e2, 1e5), "uniform"),
        outage_threshold_db=0.0,
        cpu_hz=Law((0.8e9, 1.0e9, 1.2e9, 1.4e9), "choice"),
        cycles_per_sample=Law((326_338.5,)),
        capacitance=5e-27,
        power_dbm=Law((14.771212547,)),  # 30 mW
        energy_per_round_joule=Law((1.1,)),
        bits_per_parameter=16.0,
        deadline_s=0.3,
        clock="deadline",
    ),
    data=DataConfig(name="cifar10", scaling="standard", partition="shards", shards_per_device=2),
    model=ModelConfig(name="cnn", channels=(6, 16), hidden=(256, 64)),
    train=TrainConfig(lr=0.05, steps=5, batch_size=64, momentum=0.9),
)
COMPARE = (
    "recycling",
    "recycling:scheduler=random",
    "recycling:scheduler=success",
    "recycling:scheduler=gradient",
    "recycling:rule=received,scheduler=random",
)
