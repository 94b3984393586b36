"""Upper bounds of papers: deadline and energy budget stop nobody, everything else holds."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import scene

from fedcell.errors import ContractError
from fedcell.radio import transmit
from fedcell.types import Outcome, WorldState
from fedcell.world import settle


def free(**changes):
    world, observation, decision = scene(3, **changes)
    return world, observation, decision._replace(deadline_s=inf, budget_joule=inf)


@given(
    deadline=st.floats(0.01, 3.0),
    energy=st.floats(1e-3, 1.0),
    gain=st.lists(st.floats(1e-10, 1e-6), min_size=3, max_size=3),
)
def test_costs_are_those_of_a_world_without_limits(deadline, energy, gain):
    bounded = transmit(*free(gain=gain, deadline_s=deadline, energy=energy), 0)
    limitless = transmit(*scene(3, gain=gain), 0)
    for name, value in limitless._asdict().items():
        assert np.array_equal(getattr(bounded, name), value), name
    assert bounded.delivered.all()


def test_a_budget_stops_devices_where_it_ends():
    world, observation, decision = scene(3, energy=inf)
    uplink = transmit(world, observation, decision._replace(budget_joule=0.12), 0)
    assert uplink.outcome.tolist() == [Outcome.ENERGY] * 3
    assert (uplink.compute_joule + uplink.radio_joule).tolist() == pytest.approx([0.12] * 3)
    with pytest.raises(ContractError, match=r"budget_joule is -1\.0: return 0 or more"):
        transmit(world, observation, decision._replace(budget_joule=-1.0), 0)


def test_a_battery_pays_as_far_as_it_goes():
    world, observation, decision = free(battery=[0.05, 0.15, 1.0], energy=0.01)
    uplink = transmit(world, observation, decision, 0)
    assert uplink.delivered.all()
    assert (uplink.compute_joule + uplink.radio_joule).tolist() == pytest.approx([0.15] * 3)
    state = settle(world, WorldState(observation.store, None, observation.battery_joule, 0.0), uplink)
    assert state.battery_joule.tolist() == pytest.approx([0, 0, 0.85])


def test_a_device_without_a_rate_is_lost_and_outage_still_strikes():
    uplink = transmit(*free(gain=[0.0, 3e-8, 3e-8], deadline_s=1.0), 0)
    assert uplink.outcome.tolist() == [Outcome.OUTAGE, Outcome.DELIVERED, Outcome.DELIVERED]
    hopeless = transmit(*free(config={"outage_threshold_db": 300.0}, deadline_s=0.1), 0)
    assert hopeless.outcome.tolist() == [Outcome.OUTAGE] * 3


@pytest.mark.parametrize(("name", "value"), [("power_watt", 1.1), ("cpu_hz", 2.1e9), ("bandwidth_hz", 2e6)])
def test_hardware_and_band_still_limit(name, value):
    with pytest.raises(ContractError, match=f"{name} of device 0"):
        transmit(*free(**{name: value}), 0)
