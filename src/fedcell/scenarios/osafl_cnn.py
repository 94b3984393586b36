"""OSAFL's setting with the convolutional network: the features as 3 x 32 x 33 images.

Published rates; `central` and M-FedNova are retuned as in `osafl`, the published rates of the latter are `PRINTED`.
"""

from dataclasses import replace

from ..learn.settings import ModelConfig
from .osafl import COMPARE as COMPARE
from .osafl import CONFIG as OSAFL

CONFIG = replace(
    OSAFL,
    scenario="osafl_cnn",
    video=replace(OSAFL.video, layout="image"),
    model=ModelConfig(name="cnn", channels=(32, 64), kernel=3, padding=1, hidden=(240,)),
)
METHODS = {
    "osafl": {"lr": 0.08, "server_lr": 22.0},
    "m_fedavg": {"lr": 0.1},
    "m_fedprox": {"lr": 0.05, "mu": 0.9},
    "m_fednova": {"lr": 0.15, "server_lr": 3.333333},
    "m_afa_cd": {"lr": 0.1, "server_lr": 0.05},
    "m_feddisco": {"lr": 0.1, "a": 0.2, "b": 0.1},
    "central": {"lr": 0.15, "batch_size": 16000},
}
PRINTED = {"m_fednova": {"lr": 0.15, "server_lr": 0.35}}
