"""Settings of a run that takes milliseconds."""

from fedcell.data.settings import DataConfig
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.scenarios import Config
from fedcell.world.settings import WorldConfig

SMALL = Config(
    rounds=4,
    seed=11,
    world=WorldConfig(n_devices=6, bandwidth_hz=1e6),
    data=DataConfig(partition="iid"),
    model=ModelConfig(name="logistic"),
    train=TrainConfig(steps=2, batch_size=8, device="cpu"),
)
