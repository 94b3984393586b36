"""A day in a city: 60 devices walk through three cells, live on batteries and the sun, and share one band over 5G."""

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig, TrainConfig
from ..options import Law
from ..world.settings import WorldConfig
from . import Config

CONFIG = Config(
    scenario="city",
    rounds=144,
    eval_every=6,
    world=WorldConfig(
        n_devices=60,
        topology="cells",
        n_cells=3,
        radius_m=300.0,
        geometry="waypoints",
        speed_m_per_s=Law((0.5, 2.0), "uniform"),
        shadowing="correlated",
        fading="jakes",
        doppler_hz=0.5,
        access="fdma",
        bandwidth_hz=5e6,
        link="nr",
        interference="others",
        downlink="broadcast",
        receive_watt=Law((0.5,)),
        cycles_per_sample=Law((2e6, 8e6), "uniform"),
        cpu_hz=Law((0.5e9, 1.8e9), "uniform"),
        capacitance=1e-27,
        battery_joule=Law((400.0, 1200.0), "uniform"),
        idle_watt=Law((0.02,)),
        harvest_watt=Law((0.04, 0.1), "uniform"),
        harvest="day",
        deadline_s=600.0,
        clock="deadline",
    ),
    data=DataConfig(name="digits", scaling="unit", partition="dirichlet", alpha=0.3),
    model=ModelConfig(name="mlp", hidden=(64,)),
    train=TrainConfig(lr=0.1, steps=10, batch_size=32),
)
COMPARE = ("fedavg:scheduler=random,n_selected=5", "fedavg:scheduler=best-channel,n_selected=5", "fedavg:effort=fit")
