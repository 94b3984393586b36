"""The settings of the world: places, channels, hardware, budgets, and how samples reach devices."""

from dataclasses import dataclass
from math import inf

from ..errors import BadInput
from ..options import Law, option
from ..tables import File
from .air_settings import AirConfig
from .attack import AttackConfig
from .link_settings import LinkConfig
from .motion_settings import MotionConfig


@dataclass(frozen=True)
class CellConfig:
    """Keys of the `world` section about places, channels, hardware and budgets."""

    n_devices: int = option(20, "devices in all cells together", least=1, most=10_000_000)

    device_table: File = option(
        File(""),
        "CSV file with one line per device: a column stands for the key of its name, x_m and y_m for its place, cell "
        "for its base station, class for its device class; empty: none",
    )
    device_class: tuple[str, ...] = option(
        (),
        "classes that devices are drawn from, such as phone_mid,raspberry_pi_4 (fedcell list devices); they set "
        "cpu_hz, capacitance, flops_per_cycle, step_cycles, power_dbm, battery_joule, idle_watt and receive_watt; "
        "empty: the laws of these keys",
    )

    topology: str = option("disc", "where devices stand", choices=("disc", "square", "cells"))
    radius_m: float = option(
        400.0, "radius of the disc, or of each cell", above=0, most=1e9, needs="topology=disc|cells"
    )
    side_m: float = option(500.0, "side of the square", above=0, most=1e9, needs="topology=square")
    n_cells: int = option(1, "base stations; more than one needs topology=cells", least=1, most=1_000_000)
    devices_per_cell: tuple[int, ...] = option((), "devices of each cell, 0 for an empty one; empty: as even as can be")
    edge_rounds: int = option(
        0,
        "every base station keeps an edge model; they are averaged each so many rounds; 0: one server, stations relay",
        least=0,
    )
    edge_weights: str = option(
        "equal",
        "weight of a cell in that average: the same, by its devices, or by the samples they hold",
        choices=("equal", "devices", "samples"),
        needs="edge_rounds!=0",
    )
    min_distance_m: float = option(10.0, "no device stands nearer to its base station", above=0)
    geometry: str = option(
        "static",
        "places are drawn once, or anew each round; or devices move with the clock, between waypoints or on tracks",
        choices=("static", "redraw", "redraw_hardware", "waypoints", "tracks"),
    )

    pathloss: str = option(
        "uma", "3GPP TR 38.901 urban macro, or a power law of the distance", choices=("uma", "power_law")
    )
    carrier_hz: float = option(2.4e9, "carrier frequency (uma)", above=0, most=1e15, needs="pathloss=uma")
    station_height_m: float = option(
        25.0, "height of the base station's antenna (uma)", above=1, most=1e6, needs="pathloss=uma"
    )
    device_height_m: float = option(1.5, "height of the device's antenna (uma)", above=1, most=13, needs="pathloss=uma")
    los: str = option(
        "redraw",
        "line of sight and shadowing drawn each round, or once (uma)",
        choices=("redraw", "static"),
        needs="pathloss=uma shadowing=drawn",
    )
    reference_gain_db: float = option(
        -30.0, "gain at 1 m (power_law)", least=-300, most=300, needs="pathloss=power_law"
    )
    exponent: float = option(2.0, "path-loss exponent (power_law)", above=0, most=30, needs="pathloss=power_law")
    fading: str = option(
        "none",
        "small-scale fading of the power gain: Exp(1) anew each round; ar1: with memory from round to round; jakes: "
        "with the clock",
        choices=("none", "exponential", "ar1", "jakes"),
    )

    access: str = option(
        "fdma",
        "fdma: devices share bandwidth_hz per cell; own_band: each has bandwidth_hz; block: n_blocks of bandwidth_hz; "
        "tdma: devices of a cell send in turn, each on bandwidth_hz; air: all send at once on bandwidth_hz, and the "
        "base station hears their sum",
        choices=("fdma", "own_band", "block", "tdma", "air"),
    )
    bandwidth_hz: float = option(10e6, "bandwidth, see access", above=0, most=1e15)
    n_blocks: int = option(10, "resource blocks per cell (access=block)", least=1, most=1_000_000, needs="access=block")
    noise_dbm_per_hz: float = option(
        -174.0, "noise power spectral density", least=-400, most=200, needs="noise_watt=none"
    )
    noise_watt: float | None = option(
        None, "noise power that does not grow with bandwidth; none: use the density", above=0, most=1e12
    )
    interference_over_noise: Law = option(
        Law((0.0,)),
        "interference on each resource block as a multiple of its noise power",
        least=0,
        most=1e12,
        needs="access=block",
    )
    interference: str = option(
        "static",
        "interference drawn once, or anew each round (access=block); others: what devices of other cells make, beside "
        "the drawn one",
        choices=("static", "redraw", "others"),
    )
    forecast: str = option(
        "full",
        "what schedulers know of interference that others make: nothing; what stations measured in the last round; or "
        "all available devices at full power",
        choices=("none", "last", "full"),
        needs="interference=others",
    )
    outage_threshold_db: float | None = option(
        None, "an upload is lost when its SINR falls below this; none: never", least=-300, most=300
    )
    outage: str = option(
        "bernoulli",
        "what decides it: a draw with the probability over all fading, apart from the fading that sets the rate; or "
        "that same fading",
        choices=("bernoulli", "same_fading"),
        needs="outage_threshold_db!=none",
    )

    cpu_hz: Law = option(
        Law((1e9, 1.8e9), "uniform"), "highest CPU clock", least=1000, most=1e15, needs="device_class="
    )
    cycles_per_sample: Law = option(
        Law((0.0,)),
        "CPU cycles to train on one sample; 0: forward FLOPs of the model / flops_per_cycle",
        least=0,
        most=1e18,
    )
    backward: float | None = option(
        None,
        "work of a backward pass in forward passes, if cycles follow from FLOPs; none: 2 for device classes, else 0",
        least=0,
        most=1e3,
    )
    step_cycles: Law = option(
        Law((0.0,)), "CPU cycles of a local step beside those of its samples", least=0, most=1e18, needs="device_class="
    )
    flops_per_cycle: float = option(
        1.0, "floating-point operations per CPU cycle", least=1e-9, most=1e12, needs="device_class="
    )
    capacitance: float = option(
        1e-28, "effective: joules = capacitance * cycles * hertz^2", least=0, most=1, needs="device_class="
    )
    power_dbm: Law = option(
        Law((20.0, 30.0), "uniform"), "highest transmit power", least=-200, most=200, needs="device_class="
    )
    energy_per_round_joule: Law = option(Law((inf,)), "energy budget of a device in one round", above=0, infinite=True)
    battery_joule: Law = option(
        Law((inf,)),
        "energy of a full battery: what a device has for the whole run, and what charging fills up to",
        above=0,
        infinite=True,
        needs="device_class=",
    )
    availability: Law = option(Law((1.0,)), "probability that a device is switched on in a round", least=0, most=1)

    bits_per_parameter: float = option(32.0, "bits of one model parameter on the air", above=0, most=1e6)
    deadline_s: float = option(inf, "uploads that end later in the round are lost", above=0, infinite=True)
    clock: str = option(
        "slowest",
        "a round lasts until its slowest selected device ends, or always deadline_s",
        choices=("slowest", "deadline"),
    )
    response: str = option(
        "computed",
        "time to answer: computed from work and channel, drawn as Exp(response_rate), or from response_trace",
        choices=("computed", "exponential", "trace"),
    )
    response_rate: Law = option(
        Law((1.0,)), "answers per second (response=exponential)", above=0, needs="response=exponential"
    )
    response_trace: str = option(
        "", "CSV file of measured seconds to draw from (response=trace)", needs="response=trace"
    )
    n_fast: int = option(
        0,
        "the first devices, so many, answer at once (response=exponential or trace)",
        least=0,
        needs="response!=computed",
    )


@dataclass(frozen=True)
class WorldConfig(AirConfig, AttackConfig, MotionConfig, LinkConfig, CellConfig):
    """Radio cells and the devices in them. A number or range such as `1e9..2e9` is drawn per device."""

    def __post_init__(self) -> None:
        if self.n_cells > 1 and self.topology != "cells":
            raise BadInput(f"world.n_cells = {self.n_cells} needs world.topology = 'cells', not {self.topology!r}")
        if self.devices_per_cell:
            _check_cells(self.devices_per_cell, self.n_cells, self.n_devices)
        if self.clock == "deadline" and self.deadline_s == inf:
            raise BadInput("world.clock = 'deadline' needs a finite world.deadline_s: set it in seconds")
        if self.response == "trace" and not self.response_trace:
            raise BadInput("world.response = 'trace' needs world.response_trace: name a CSV file of seconds")
        if self.n_fast > self.n_devices:
            n = self.n_devices
            raise BadInput(f"world.n_fast = {self.n_fast} but there are {n} devices: lower it to at most {n}")
        if self.interference == "others" and (self.n_cells == 1 or self.access in ("own_band", "air")):
            raise BadInput(
                f"world.interference = 'others' needs several cells that share a band, not world.n_cells = "
                f"{self.n_cells} with world.access = {self.access!r}: use topology=cells with fdma, block or tdma"
            )
        if self.geometry in ("waypoints", "tracks") and self.edge_rounds and self.n_cells > 1:
            raise BadInput(
                f"world.geometry = {self.geometry!r} lets devices change cells and world.edge_rounds = "
                f"{self.edge_rounds} ties them to an edge model: set edge_rounds=0, or geometry=static"
            )
        if self.geometry in ("waypoints", "tracks") and self.devices_per_cell:
            raise BadInput(
                f"world.geometry = {self.geometry!r} lets devices change cells and world.devices_per_cell = "
                f"{','.join(map(str, self.devices_per_cell))} ties them to one: drop it, or set geometry=static"
            )
        if self.shadowing == "correlated" and self.geometry in ("redraw", "redraw_hardware"):
            raise BadInput(
                f"world.shadowing = 'correlated' needs places that last, not world.geometry = {self.geometry!r}: use "
                "static, waypoints or tracks"
            )
        if self.power_control == "open_loop" and self.access == "fdma":
            raise BadInput(
                "world.power_control = 'open_loop' needs a band that is known beforehand, and world.access = 'fdma' "
                "shares one: use own_band, block or tdma"
            )
        if self.access == "air":
            _check_air(self)


def _check_air(settings: WorldConfig) -> None:
    """Refuse settings about single uploads: over the air, the base station receives only their sum."""
    for key, needed, why in (
        ("link", "shannon", "sends bits"),
        ("response", "computed", "draws when each device answers"),
        ("outage_threshold_db", None, "loses single uploads"),
    ):
        value = getattr(settings, key)
        if value != needed:
            raise BadInput(
                f"world.{key} = {value!r} {why} and with world.access = 'air' all devices send symbols at once: set "
                f"{key}={'none' if needed is None else needed}, or another access"
            )


def _check_cells(per_cell: tuple[int, ...], n_cells: int, n_devices: int) -> None:
    """Refuse counts that are not one per cell, negative, or do not add up."""
    written = ",".join(map(str, per_cell))
    if len(per_cell) != n_cells:
        raise BadInput(
            f"world.devices_per_cell = {written} names {len(per_cell)} cells but world.n_cells = {n_cells}: "
            "give one number per cell"
        )
    if min(per_cell) < 0:
        raise BadInput(f"world.devices_per_cell = {written} has a negative number: 0 makes a cell empty")
    if sum(per_cell) != n_devices:
        raise BadInput(
            f"world.devices_per_cell = {written} adds up to {sum(per_cell)} but world.n_devices = {n_devices}: "
            "change one of them"
        )


@dataclass(frozen=True)
class StreamConfig:
    """How samples reach a device during the run, and which of them it keeps."""

    kind: str = option(
        "static",
        "static: the split of the data, ever; markov: labels wander between states; binomial: a device walks through "
        "its part of the split",
        choices=("static", "markov", "binomial"),
    )
    cache: str = option(
        "drsr", "what a full cache keeps (markov, binomial)", choices=("fifo", "srsr", "drsr", "lazy", "full")
    )
    capacity: Law = option(Law((300.0,)), "samples a device can keep", least=1, most=1e7)
    batch: Law = option(Law((150.0,)), "samples that arrive in a round; at most so many (binomial)", least=0, most=1e7)
    activity: Law = option(
        Law((1.0,)), "probability that each of the batch arrives (binomial)", least=0, most=1, needs="kind=binomial"
    )
    theta: float = option(2 / 3, "weight of new label shares (srsr)", least=0, most=1, needs="cache=srsr")
    initial: str = option("prefill", "caches start empty, or filled", choices=("cold", "prefill"))
    fill: float = option(
        1.0, "share of the capacity that is filled at the start (prefill)", above=0, most=1, needs="initial=prefill"
    )

    n_states: int = option(10, "label laws a device wanders between (markov)", least=1, needs="kind=markov")
    classes_per_device: int = option(3, "labels a device ever meets (markov)", least=1, needs="kind=markov")
    classes: str = option(
        "cyclic",
        "device k meets labels k, k+1, ..., or any that together cover all",
        choices=("cyclic", "random"),
        needs="kind=markov",
    )
    alpha: float = option(
        1.0, "concentration of the label laws: small is more skewed (markov)", above=0, needs="kind=markov"
    )
    beta: float = option(
        2.0, "a step costs exp(-beta * KL divergence): large wanders slowly (markov)", least=0, needs="kind=markov"
    )
    smoothing: float = option(
        1e-3, "added to label shares before their divergence is taken (markov)", above=0, needs="kind=markov"
    )
    full_refresh: str = option(
        "stream",
        "instances that change each round (full): as many as arrive, all, none",
        choices=("stream", "all", "none"),
        needs="cache=full",
    )

    def __post_init__(self) -> None:
        most, least = max(self.batch.values, default=0), min(self.capacity.values, default=inf)  # lost tables have none
        if self.kind != "static" and most > least:
            raise BadInput(
                f"stream.batch = {self.batch} can exceed stream.capacity = {self.capacity}: "
                "let no more samples arrive in a round than a cache holds"
            )
        if self.kind == "binomial" and self.cache == "full":
            raise BadInput(
                "stream.cache = 'full' needs a long-term label law, which stream.kind = 'binomial' has not: use markov"
            )
