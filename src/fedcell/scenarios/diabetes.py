"""Regression on ten clinics: how far diabetes goes in a year, from ten measurements of a patient.

The metric that leads is the RMSE, in the units of the data: answering with the training mean has about 77.
"""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="diabetes",
    rounds=60,
    world=WorldConfig(n_devices=10, cycles_per_sample=Law((2e6, 8e6), "uniform"), deadline_s=2.0),
    data=DataConfig(name="diabetes", scaling="standard", partition="iid"),
    model=ModelConfig(name="mlp", hidden=(16,)),
    train=TrainConfig(lr=0.0005, steps=10, batch_size=16),
)
COMPARE = ("fedavg", "fedprox", "scaffold", "fedavg:scheduler=fastest,n_selected=5", "central")
