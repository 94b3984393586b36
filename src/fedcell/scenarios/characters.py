"""Ten authors, ten devices: a small transformer learns to continue their texts, character by character.

Every device holds the texts of one author. The task is `next-token` and the metric that leads is perplexity: guessing
among the 26 characters has 26.
"""

from ..data.characters import CharactersConfig
from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="characters",
    rounds=30,
    world=WorldConfig(n_devices=10, bandwidth_hz=20e6, cycles_per_sample=Law((2e6, 8e6), "uniform"), deadline_s=30.0),
    data=DataConfig(name="characters"),
    characters=CharactersConfig(length=32, samples=60, test_samples=10, alpha=0.5),
    model=ModelConfig(name="transformer", width=96, layers=2, heads=4),
    train=TrainConfig(lr=0.1, momentum=0.9, steps=5, batch_size=16),
)
COMPARE = ("fedavg", "fedprox", "scaffold", "fedavg:scheduler=fastest,n_selected=5")
METHODS = {"scaffold": {"momentum": 0.0, "lr": 0.2}}
