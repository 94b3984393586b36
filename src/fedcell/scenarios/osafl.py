"""OSAFL's setting: 100 devices predict their next video request, FIFO stores, 200 s deadline, energy budgets.

The fully connected network on 3168 features. Published rates, but for two methods: the paper prints none for `central`,
and with those of M-FedNova (`PRINTED`) it hardly moves. Both are retuned by `experiments/osafl/rates.py`; M-FedNova
keeps its local rate.
"""

from ..data.settings import DataConfig
from ..data.video import OSAFL
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

SAMPLE_BIT = 101_376  # 3168 features of 32 bit
CONFIG = Config(
    scenario="osafl",
    rounds=100,
    eval_every=5,
    world=WorldConfig(
        n_devices=100,
        radius_m=400.0,
        access="own_band",
        bandwidth_hz=540e3,
        cpu_hz=Law((1e9, 1.8e9), "uniform"),
        cycles_per_sample=Law((25.0 * SAMPLE_BIT, 40.0 * SAMPLE_BIT), "uniform"),
        capacitance=1e-28,
        energy_per_round_joule=Law((1.2, 2.5), "uniform"),
        bits_per_parameter=33.0,
        deadline_s=200.0,
    ),
    data=DataConfig(name="video"),
    video=OSAFL,
    model=ModelConfig(name="mlp", hidden=(640, 256)),
    train=TrainConfig(lr=0.2, steps=5, batch_size=32),
)
METHODS = {
    "osafl": {"lr": 0.2, "server_lr": 35.0},
    "m_fedavg": {"lr": 0.15},
    "m_fedprox": {"lr": 0.1, "mu": 0.9},
    "m_fednova": {"lr": 0.01, "server_lr": 10.0},
    "m_afa_cd": {"lr": 0.1, "server_lr": 0.2},
    "m_feddisco": {"lr": 0.15, "a": 0.2, "b": 0.1},
    "central": {"lr": 0.2, "batch_size": 16000},
}
PRINTED = {"m_fednova": {"lr": 0.01, "server_lr": 0.1}}
COMPARE = ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco", "central")
