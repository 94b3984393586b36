"""OSAFL's setting with a three-layer LSTM on the last ten requests (Dataset-2).

Published rates; `central` and M-FedNova are retuned as in `osafl`, the published rates of the latter are `PRINTED`.
"""

from dataclasses import replace

from ..learn.settings import ModelConfig
from ..options import Law
from .osafl import COMPARE as COMPARE
from .osafl import CONFIG as OSAFL

SAMPLE_BIT = 70  # 10 requests of ceil(log2 100) bit
CONFIG = replace(
    OSAFL,
    scenario="osafl_lstm",
    world=replace(OSAFL.world, cycles_per_sample=Law((25.0 * SAMPLE_BIT, 40.0 * SAMPLE_BIT), "uniform")),
    video=replace(OSAFL.video, features="history"),
    model=ModelConfig(name="lstm"),
)
METHODS = {
    "osafl": {"lr": 0.2, "server_lr": 35.0},
    "m_fedavg": {"lr": 0.6},
    "m_fedprox": {"lr": 0.5, "mu": 0.1},
    "m_fednova": {"lr": 0.5, "server_lr": 6.0},
    "m_afa_cd": {"lr": 0.5, "server_lr": 1.0},
    "m_feddisco": {"lr": 0.5, "a": 0.2, "b": 0.1},
    "central": {"lr": 10.0, "batch_size": 16000},
}
PRINTED = {"m_fednova": {"lr": 0.5, "server_lr": 0.12}}
