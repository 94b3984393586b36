"""A cell with 5 interfered resource blocks for 30 devices and uploads lost to outage; digits by label shards."""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="blocks",
    rounds=80,
    world=WorldConfig(
        n_devices=30,
        radius_m=500.0,
        pathloss="power_law",
        reference_gain_db=0.0,
        fading="exponential",
        access="block",
        n_blocks=5,
        bandwidth_hz=1e6,
        interference_over_noise=Law((1e2, 1e5), "uniform"),
        outage_threshold_db=25.0,
        power_dbm=Law((14.8,)),
        cycles_per_sample=Law((1e6,)),
    ),
    data=DataConfig(name="digits", scaling="unit", partition="shards", shards_per_device=2),
    model=ModelConfig(name="mlp", hidden=(64,)),
    train=TrainConfig(lr=0.1, steps=5, batch_size=16),
)
COMPARE = (
    "fedavg:scheduler=random,n_selected=5",
    "fedavg:scheduler=round-robin,n_selected=5",
    "fedavg:scheduler=best-channel,n_selected=5",
    "central",
)
