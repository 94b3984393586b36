"""Four cells with twelve battery devices each, every cell with its own 1 MHz; digits, two classes per device."""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="cells",
    rounds=80,
    world=WorldConfig(
        n_devices=48,
        topology="cells",
        n_cells=4,
        radius_m=300.0,
        bandwidth_hz=1e6,
        cycles_per_sample=Law((2e6, 6e6), "uniform"),
        battery_joule=Law((3.0, 30.0), "uniform"),
        deadline_s=2.5,
    ),
    data=DataConfig(name="digits", scaling="unit", partition="classes", classes_per_device=2),
    model=ModelConfig(name="mlp", hidden=(64,)),
    train=TrainConfig(lr=0.1, steps=10, batch_size=16),
)
COMPARE = (
    "fedavg:scheduler=random,n_selected=4",
    "fedavg:scheduler=fastest,n_selected=4",
    "fedavg:effort=fit",
    "central",
)
