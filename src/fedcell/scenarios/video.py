"""OSAFL's world in small: 30 devices predict their next video request, FIFO stores, deadline and energy budgets.

About a hundredth of the work of `osafl`: one hidden layer, fewer devices and rounds, a narrower band for the smaller
model; nearly half of the devices are stragglers. Rates are 0.1 for local steps, which was better than 0.15 and more on
seed 1, and the best of two or three server steps for OSAFL and M-AFA-CD.
"""

from dataclasses import replace

from ..learn.settings import ModelConfig
from . import osafl

CONFIG = replace(
    osafl.CONFIG,
    scenario="video",
    rounds=40,
    eval_every=2,
    world=replace(osafl.CONFIG.world, n_devices=30, bandwidth_hz=60e3),
    video=replace(osafl.CONFIG.video, test_samples=50),
    model=ModelConfig(name="mlp", hidden=(64,)),
    train=replace(osafl.CONFIG.train, lr=0.1),
)
METHODS = {
    "osafl": {"server_lr": 20.0},
    "m_fedprox": {"mu": 0.9},
    "m_fednova": {"server_lr": 1.0},
    "m_afa_cd": {"server_lr": 1.0},
    "m_feddisco": {"a": 0.2, "b": 0.1},
}
COMPARE = osafl.COMPARE
