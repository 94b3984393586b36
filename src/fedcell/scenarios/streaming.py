"""Streaming caches: 10 devices with 3 wandering classes each keep 300 samples; Fashion-MNIST, LeNet.

Compare cache rules by running it with `--set stream.cache=fifo` and so on: the rule belongs to the devices, so
that any method can run on it.
"""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import StreamConfig, WorldConfig
from . import Config

CONFIG = Config(
    scenario="streaming",
    rounds=300,
    eval_every=4,
    world=WorldConfig(n_devices=10, access="own_band", bandwidth_hz=1e6),
    data=DataConfig(name="fashion-mnist", scaling="standard"),
    stream=StreamConfig(
        kind="markov", cache="drsr", capacity=Law((300.0,)), batch=Law((150.0,)), theta=2 / 3, initial="prefill"
    ),
    model=ModelConfig(name="cnn", channels=(6, 16), kernel=5, hidden=(120, 84)),
    train=TrainConfig(lr=0.2, steps=5, batch_size=0),
)
COMPARE = ("streaming", "central")
