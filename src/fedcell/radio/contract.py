"""What a decision must keep to: shapes, limits of the hardware, budgets of the radio.

Limits hold up to a relative 1e-9, which leaves room for rounding in a method's solver and no more.
"""

import numpy as np

from ..errors import ContractError
from ..types import Decision, Observation, Updates, World

TOLERANCE = 1e-9
DTYPES = {
    "selected": np.bool_,
    "steps": np.int64,
    "samples_per_step": np.float64,
    "cpu_hz": np.float64,
    "power_watt": np.float64,
    "bandwidth_hz": np.float64,
    "block": np.int64,
    "payload_bit": np.float64,
}
LEAST = {"steps": 1, "samples_per_step": 0, "cpu_hz": 1, "power_watt": 0, "bandwidth_hz": 0, "payload_bit": 0}
LOWEST = np.array([*LEAST.values()])[:, None]
CAPPED = ("cpu_hz", "power_watt", "bandwidth_hz")  # also have an upper limit; they are neighbours in LEAST
CAPPED_ROWS = slice([*LEAST].index(CAPPED[0]), [*LEAST].index(CAPPED[-1]) + 1)


def as_decision(found: object) -> Decision:
    """Return what decide() returned if it is a Decision; raise ContractError otherwise."""
    if isinstance(found, Decision):
        return found
    raise ContractError(f"decide() returned {str(found)[:50]!r}: return a fedcell.Decision")


def as_sent(decision: Decision, updates: Updates) -> Decision:
    """The decision with the bits that encode() counted; raise ContractError if a device sends more than planned."""
    if updates.bit is None:
        return decision
    device, bit = updates.device, np.asarray(updates.bit, dtype=np.float64)
    if bit.shape != device.shape:
        raise ContractError(
            f"bit of encode() has shape {bit.shape}, not ({len(device)},): one entry per trained device"
        )
    planned = decision.payload_bit[device]
    wrong = ~((bit >= 0) & (bit <= planned * (1 + TOLERANCE)))
    if wrong.any():
        k = int(wrong.argmax())
        what = f"encode() sends {bit[k]:.12g} bit of device {device[k]} and payload_bit is {planned[k]:.12g}"
        raise ContractError(f"{what}: return the most that a payload can take from decide()")
    payload_bit = decision.payload_bit.copy()
    payload_bit[device] = bit
    return decision._replace(payload_bit=payload_bit)


def check_decision(world: World, observation: Observation, decision: Decision) -> None:
    """Raise ContractError, with the fix, for the first thing that a decision breaks."""
    _check_arrays(world, decision)
    _check_times(world, decision)
    if decision.budget_joule is not None and not decision.budget_joule >= 0:
        raise ContractError(f"budget_joule is {decision.budget_joule}: return 0 or more, inf or None from decide()")
    _check_limits(world, observation, decision)
    if world.settings.access == "fdma":
        _check_shared_band(world, observation, decision)
    if world.settings.access == "block":
        _check_blocks(world, observation, decision)


def _check_arrays(world: World, decision: Decision) -> None:
    n_devices = world.n_devices
    for name, dtype in DTYPES.items():
        _check_array(name, getattr(decision, name), dtype, n_devices)
    if (bit := decision.download_bit) is not None:
        _check_array("download_bit", bit, np.float64, n_devices)
        if np.count_nonzero(negative := decision.selected & (bit < 0)):
            k = int(negative.argmax())
            raise ContractError(f"download_bit of device {k} is {bit[k]:.12g} < 0: return 0 or more from decide()")


def _check_array(name: str, value: object, dtype: type, n_devices: int) -> None:
    if not isinstance(value, np.ndarray) or value.dtype != dtype:
        found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise ContractError(f"{name} is {found}, not an array of {dtype.__name__}: convert it in decide()")
    if value.shape != (n_devices,):
        raise ContractError(f"{name} has shape {value.shape}, not ({n_devices},): one entry per device")
    if value.dtype.kind == "f" and np.count_nonzero(np.isfinite(value)) < n_devices:
        k = int(np.argmin(np.isfinite(value)))
        raise ContractError(f"{name} of device {k} is {value[k]}: return finite numbers from decide()")


def _check_times(world: World, decision: Decision) -> None:
    if not decision.deadline_s > 0:
        raise ContractError(f"deadline_s is {decision.deadline_s}: return a time above 0 (or inf) from decide()")
    if decision.round_s is not None and not 0 <= decision.round_s < np.inf:
        raise ContractError(f"round_s is {decision.round_s}: return a finite time or None from decide()")
    if world.settings.clock == "deadline" and decision.round_s is None and decision.deadline_s == np.inf:
        raise ContractError("deadline_s is inf with world.clock = 'deadline': return a finite deadline_s or round_s")


def _check_limits(world: World, observation: Observation, decision: Decision) -> None:
    chosen = np.flatnonzero(decision.selected)
    present = observation.available[chosen]
    if not present.all():
        absent = chosen[~present][0]
        raise ContractError(f"selected device {absent} is not available: mask by observation.available in decide()")
    values = np.array([getattr(decision, name)[chosen] for name in LEAST])
    low = values < LOWEST
    if np.count_nonzero(low):
        n, k = np.argwhere(low)[0]
        what = f"{[*LEAST][n]} of device {chosen[k]} is {values[n, k]:.12g} < {[*LEAST.values()][n]}"
        raise ContractError(f"{what}: raise or deselect it in decide()")
    asked, devices, band = values[CAPPED_ROWS], observation.devices, np.full(len(chosen), world.settings.bandwidth_hz)
    limit = np.array([devices.cpu_hz[chosen], devices.power_watt[chosen], band])
    high = asked > limit * (1 + TOLERANCE)
    if np.count_nonzero(high):
        n, k = np.argwhere(high)[0]
        what = f"{CAPPED[n]} of device {chosen[k]} is {asked[n, k]:.12g} > limit {limit[n, k]:.12g}"
        raise ContractError(f"{what}: clip in decide()")


def _check_shared_band(world: World, observation: Observation, decision: Decision) -> None:
    used = np.where(decision.selected, decision.bandwidth_hz, 0.0)
    total = np.bincount(observation.topology.cell, weights=used, minlength=world.n_cells)
    budget = world.settings.bandwidth_hz
    if total.max() > budget * (1 + TOLERANCE):
        cell = int(total.argmax())
        raise ContractError(
            f"bandwidth_hz sums to {total[cell]:.12g} in cell {cell} > budget {budget:.12g}: normalise in decide()"
        )


def _check_blocks(world: World, observation: Observation, decision: Decision) -> None:
    n_blocks, block = world.settings.n_blocks, decision.block
    outside = np.flatnonzero(decision.selected & ((block < 0) | (block >= n_blocks)))
    if len(outside):
        k = outside[0]
        raise ContractError(f"block of device {k} is {block[k]}, not in 0..{n_blocks - 1}: assign one in decide()")
    slot = (observation.topology.cell * n_blocks + block)[decision.selected]
    count = np.bincount(slot, minlength=1)
    if count.max() > 1:
        cell, shared = divmod(int(count.argmax()), n_blocks)
        raise ContractError(f"block {shared} of cell {cell} goes to {count.max()} devices: assign it once in decide()")
