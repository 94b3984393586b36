"""KFL's setting: 100 devices with networks of five widths, two MNIST shards each, 0.1 J per round, a 5 MHz band.

Computing costs 1.3 to 4.0 J each time and sending next to nothing: about 4 devices per round can be afforded.
"""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="knowledge",
    rounds=100,
    world=WorldConfig(
        n_devices=100,
        radius_m=500.0,
        min_distance_m=1.0,
        pathloss="power_law",
        fading="exponential",
        bandwidth_hz=5e6,
        cpu_hz=Law((0.85e9, 1.12e9, 1.2e9, 1.3e9), "choice"),
        flops_per_cycle=4.0,
        capacitance=5e-27,
        power_dbm=Law((30.0,)),
        deadline_s=1.0,
        clock="deadline",
    ),
    data=DataConfig(name="mnist", scaling="standard", partition="shards", shards_per_device=2),
    model=ModelConfig(name="mlp", hidden=(512, 256, 64), widths=(128, 192, 256, 320, 384), flops="parameters"),
    train=TrainConfig(lr=0.05, steps=5, batch_size=0, momentum=0.9),
)
METHODS = {"knowledge": {"mean_energy_joule": 0.1}}
COMPARE = (
    "knowledge:trade=0.01",
    "knowledge:trade=0.1",
    "knowledge:scheduler=rotation,n_selected=5",
    "knowledge:scheduler=myopic",
)
