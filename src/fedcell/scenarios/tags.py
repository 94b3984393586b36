"""Multi-label on twenty devices: which of eight topics a document is about, from counts of its words.

The metric that leads is F1 over all labels together; a constant set of labels reaches what its share of the documents
allows.
"""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="tags",
    rounds=60,
    world=WorldConfig(n_devices=20, cycles_per_sample=Law((2e6, 8e6), "uniform"), deadline_s=2.0),
    data=DataConfig(name="tags", scaling="standard", partition="iid"),
    model=ModelConfig(name="mlp", hidden=(32,)),
    train=TrainConfig(lr=1.0, steps=10, batch_size=16),
)
COMPARE = ("fedavg", "fedprox", "scaffold", "fedavg:scheduler=fastest,n_selected=5", "central")
