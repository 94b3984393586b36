"""Streaming caches on encrypted network traffic (ISCX VPN-nonVPN 2016), from an .npz file of the user.

The file holds byte images `x_train, x_test` and labels `y_train, y_test`. It is looked up under `data.name` as a path,
then in the data folder (`FEDCELL_DATA`).
"""

from dataclasses import replace

from .streaming import CONFIG as FASHION

TRAFFIC = "ntc_iscxvpn_sessionall_12class.npz"
CONFIG = replace(
    FASHION,
    scenario="streaming_traffic",
    data=replace(FASHION.data, name=TRAFFIC),
    train=replace(FASHION.train, lr=0.1),  # 0.2, the rate on Fashion-MNIST, diverges here with ideal caches
)
COMPARE = ("streaming", "central")
