"""Looking ahead: times of a decision, and the most steps that still fit."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scenes import scene

from fedcell.radio import most_steps, times, transmit
from fedcell.radio.forecast import MOST_STEPS
from fedcell.types import Outcome


def test_times_cover_unselected_devices_and_missing_blocks() -> None:
    made = scene(3, config={"access": "block"}, selected=False, block=[0, 1, 99])
    compute_s, upload_s = times(*made)
    assert compute_s.tolist() == [1.0, 1.0, 1.0]
    quality = 0.1 * 3e-8 / (1e-9 + np.array([0.0, 1e-9, 1.75e-9]))  # block 99 does not exist: the mean
    np.testing.assert_allclose(upload_s, 1.0 / np.log2(1 + quality))


def test_nothing_limits_nothing_fits_and_no_rate() -> None:
    assert most_steps(*scene(1)).tolist() == [MOST_STEPS]
    assert most_steps(*scene(1, deadline_s=0.4)).tolist() == [0]  # the upload alone takes 0.5 s
    assert most_steps(*scene(1, energy=0.04)).tolist() == [0]
    assert most_steps(*scene(1, power_watt=0.0)).tolist() == [0]
    assert most_steps(*scene(1, samples=0.0, deadline_s=0.6)).tolist() == [MOST_STEPS]


def test_hand_worked_limits() -> None:
    # a step takes 0.2 s and 0.02 J, the upload 0.5 s and 0.05 J
    assert most_steps(*scene(1, deadline_s=1.5)).tolist() == [5]
    assert most_steps(*scene(1, deadline_s=1.49)).tolist() == [4]
    assert most_steps(*scene(1, energy=0.13, deadline_s=9.0)).tolist() == [4]
    assert most_steps(*scene(1, energy=9.0, battery=0.091)).tolist() == [2]
    assert most_steps(*scene(1, deadline_s=0.1, response_s=9.0, energy=0.13)).tolist() == [4]


@given(
    deadline=st.floats(0.1, 20.0),
    energy=st.floats(0.01, 2.0),
    battery=st.floats(0.01, 2.0),
    power=st.floats(0.0, 1.0),
    samples=st.floats(1.0, 50.0),
)
def test_the_most_steps_arrive_and_one_more_does_not(
    deadline: float, energy: float, battery: float, power: float, samples: float
) -> None:
    made: dict[str, Any] = {
        "deadline_s": deadline,
        "energy": energy,
        "battery": battery,
        "power_watt": power,
        "samples": samples,
    }
    most = int(most_steps(*scene(1, **made))[0])
    if most:
        assert transmit(*scene(1, steps=most, **made), 0).outcome.tolist() == [Outcome.DELIVERED]
    assert transmit(*scene(1, steps=most + 1, **made), 0).outcome.tolist() != [Outcome.DELIVERED]
