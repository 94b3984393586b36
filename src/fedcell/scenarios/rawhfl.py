"""RawHFL's setting: 4 cells of 12 devices with edge models, video requests that pile up, 150 s and 0.8 to 1.5 J.

A round is an edge round; four make a global round. One local step of `rawhfl` and `h_fedavg` is ten updates, one for
each of 10 mini-batches of 32 samples, drawn with replacement because stores begin with 49, and `rawhfl` chooses the
best clients at full clock and power: the readings whose pace and energies are the paper's. `inner=average` takes one
step by the mean of the ten gradients, `allocation=exact` solves the paper's problem to the optimum. `central` makes as
many updates of as many samples as one client, on the union.
"""

from ..data.settings import DataConfig
from ..data.video import RAWHFL
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

SAMPLE_BIT = 1376  # 43 features of 32 bit
CONFIG = Config(
    scenario="rawhfl",
    rounds=400,
    eval_every=4,
    world=WorldConfig(
        n_devices=48,
        topology="cells",
        n_cells=4,
        radius_m=400.0,
        edge_rounds=4,
        access="own_band",
        bandwidth_hz=540e3,
        cpu_hz=Law((1.2e9, 2.0e9), "uniform"),
        cycles_per_sample=Law((25.0 * SAMPLE_BIT, 40.0 * SAMPLE_BIT), "uniform"),
        capacitance=1e-28,
        energy_per_round_joule=Law((0.8, 1.5), "uniform"),
        bits_per_parameter=33.0,
        deadline_s=150.0,
        clock="deadline",
    ),
    data=DataConfig(name="video"),
    video=RAWHFL,
    model=ModelConfig(name="mlp", hidden=(512, 256)),
    train=TrainConfig(
        lr=0.01, steps=50, batch_size=32, sampling="replace", engine="batched", top=(2, 4, 8), spread=True
    ),
)
METHODS = {
    "rawhfl": {"allocation": "max", "inner": "sequential"},
    "h_fedavg": {"inner": "sequential"},
    "central": {"batch_size": 32, "steps": 500},
}
COMPARE = (
    "rawhfl",
    "rawhfl:allocation=exact",
    "h_fedavg:mode=m1",
    "h_fedavg:mode=m2",
    "h_fedavg:mode=ub",
    "h_fedavg:mode=relay",
    "central",
    "top_popular",
)
