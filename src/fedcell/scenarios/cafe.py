"""CAFe's setting: 100 devices that answer after Exp(1) seconds, deadline 0.5 s, MNIST, 3 digits per device."""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="cafe",
    rounds=1000,
    eval_every=10,
    world=WorldConfig(
        n_devices=100, access="own_band", bandwidth_hz=1e6, response="exponential", deadline_s=0.5, clock="deadline"
    ),
    data=DataConfig(name="mnist", scaling="unit", partition="classes", classes_per_device=3),
    model=ModelConfig(name="mlp", hidden=(256, 128, 64)),
    train=TrainConfig(lr=0.1, steps=1, batch_size=32),
)
COMPARE = ("cafe", "cafe:scheme=awu", "cafe:quorum=40", "cafe:scheme=agu,quorum=40,lr=0.05")
