"""AMP-FL's setting: 100 devices, 10 interfered resource blocks, MNIST shards, a CNN whose parts must fit 0.1 s.

The deadline is that of the pruned methods. Rounds of the full model last as long as their slowest device, so the
devices with the strongest channels train it. Computing is charged as printed, 782,816 FLOPs a sample. Devices stay
where they are; `world.geometry=redraw_hardware` draws places and clocks anew in every round.
"""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

FLOPS, FLOPS_PER_CYCLE = 782_816, 4
CONFIG = Config(
    scenario="pruning",
    rounds=500,
    eval_every=5,
    world=WorldConfig(
        n_devices=100,
        radius_m=500.0,
        min_distance_m=1.0,
        pathloss="power_law",
        reference_gain_db=-30.0,
        exponent=2.0,
        fading="exponential",
        access="block",
        n_blocks=10,
        bandwidth_hz=1e6,
        interference_over_noise=Law((1e2, 1e5), "uniform"),
        cpu_hz=Law((0.85e9, 1.12e9, 1.2e9, 1.3e9), "choice"),
        cycles_per_sample=Law((FLOPS / FLOPS_PER_CYCLE,)),
        power_dbm=Law((30.0,)),
        bits_per_parameter=32.0,
    ),
    data=DataConfig(name="mnist", scaling="standard", partition="shards", shards_per_device=2),
    model=ModelConfig(name="cnn", channels=(6, 16), kernel=5, hidden=(128,)),
    train=TrainConfig(lr=0.05, steps=8, batch_size=64),
)
STRONGEST = {"scheduler": "best-channel", "n_selected": 10, "blocks": "time"}
METHODS = {
    "pruning": {"deadline_s": 0.1},
    "fedavg": {**STRONGEST, "weights": "equal"},
    "fedprox": {**STRONGEST, "weights": "equal", "effort": "fixed", "mu": 0.01},
    "apfl": STRONGEST,
}
COMPARE = (
    "pruning",
    "pruning:scheduler=pr",
    "pruning:scheduler=channel",
    "pruning:scheduler=random",
    "fedavg",
    "fedprox",
    "apfl",
)
