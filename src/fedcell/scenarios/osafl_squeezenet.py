"""OSAFL's setting with SqueezeNet: the features as 3 x 32 x 33 images.

Published rates; `central` and M-FedNova are retuned as in `osafl`, the published rates of the latter are `PRINTED`.
"""

from dataclasses import replace

from ..learn.settings import ModelConfig
from .osafl import COMPARE as COMPARE
from .osafl import CONFIG as OSAFL

CONFIG = replace(
    OSAFL,
    scenario="osafl_squeezenet",
    video=replace(OSAFL.video, layout="image"),
    model=ModelConfig(name="squeezenet"),
)
METHODS = {
    "osafl": {"lr": 0.01, "server_lr": 20.0},
    "m_fedavg": {"lr": 0.01},
    "m_fedprox": {"lr": 0.01, "mu": 0.9},
    "m_fednova": {"lr": 0.03, "server_lr": 1.5},
    "m_afa_cd": {"lr": 0.02, "server_lr": 0.01},
    "m_feddisco": {"lr": 0.01, "a": 0.2, "b": 0.1},
    "central": {"lr": 0.03, "batch_size": 16000},
}
PRINTED = {"m_fednova": {"lr": 0.03, "server_lr": 0.05}}
