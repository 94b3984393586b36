"""The settings of the link: how SINR becomes bits, and how strongly devices send."""

from dataclasses import dataclass

from ..options import Law, option


@dataclass(frozen=True)
class LinkConfig:
    """Keys of the `world` section that say how bits cross the channel."""

    link: str = option(
        "shannon",
        "bits per second: B log2(1 + SINR), or 5G New Radio with modulation, coding, block errors and retransmissions",
        choices=("shannon", "nr"),
    )
    bler_target: float = option(
        0.1, "highest block error rate of a first attempt (nr)", above=0, most=0.9, needs="link=nr"
    )
    harq_attempts: int = option(
        4, "attempts after which a block, and the upload with it, is lost (nr)", least=1, most=16, needs="link=nr"
    )
    downlink: str = option(
        "none",
        "the way down: free; broadcast: once per cell, as slowly as its weakest selected device needs; unicast: to "
        "each its own, on equal shares",
        choices=("none", "broadcast", "unicast"),
    )
    downlink_bandwidth_hz: float = option(
        20e6, "band of a base station's way down", above=0, most=1e15, needs="downlink!=none"
    )
    station_power_dbm: float = option(
        43.0, "transmit power of a base station", least=-200, most=200, needs="downlink!=none"
    )
    downlink_interference_watt: float = option(
        0.0, "interference on the band of the way down", least=0, most=1e12, needs="downlink!=none"
    )
    receive_watt: Law = option(
        Law((0.0,)), "power of a device that listens", least=0, most=1e9, needs="downlink!=none device_class="
    )
    power_control: str = option(
        "full",
        "highest power of a device: power_dbm; or open_loop: what brings p0_dbm per 180 kHz to the station, if less",
        choices=("full", "open_loop"),
    )
    p0_dbm: float = option(
        -90.0, "received power per 180 kHz (open_loop)", least=-300, most=100, needs="power_control=open_loop"
    )
    pathloss_share: float = option(
        1.0, "share of the path loss that is made up for (open_loop)", least=0, most=1, needs="power_control=open_loop"
    )
