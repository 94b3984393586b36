"""KFL when sending is a quarter of the energy: 20 devices with small networks on a 15 kHz band with strong noise."""

from dataclasses import replace

from ..data.settings import DataConfig
from ..learn.settings import ModelConfig
from ..options import Law
from .knowledge import COMPARE as COMPARE
from .knowledge import CONFIG as WIDE

CONFIG = replace(
    WIDE,
    scenario="knowledge_stress",
    rounds=60,
    world=replace(
        WIDE.world,
        n_devices=20,
        radius_m=300.0,
        bandwidth_hz=1.5e4,
        noise_dbm_per_hz=-112.0,
        cycles_per_sample=Law((1e5, 2e5), "uniform"),
    ),
    data=DataConfig(name="digits", scaling="unit", partition="shards", shards_per_device=2),
    model=ModelConfig(name="mlp", hidden=(48, 16), widths=(24, 48, 64), flops="parameters"),
)
METHODS = {"knowledge": {"mean_energy_joule": 0.1}}
