"""Devices of a cell that send in turn (TDMA)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import scene

import fedcell
from fedcell.errors import BadInput
from fedcell.radio import most_steps, transmit
from fedcell.types import Outcome


def in_turn(ready: list[float], upload: list[float]) -> list[float]:
    """When each ends, one after the other, the first to be ready first: a plain loop."""
    ends, free = [0.0] * len(ready), 0.0
    for k in sorted(range(len(ready)), key=lambda k: ready[k]):
        free = max(free, ready[k]) + upload[k]
        ends[k] = free
    return ends


@given(st.lists(st.tuples(st.floats(0.01, 5), st.floats(1e4, 5e6)), min_size=1, max_size=6))
def test_the_first_to_be_ready_sends_first(work: list[tuple[float, float]]) -> None:
    cycles, bits = (list(part) for part in zip(*work, strict=True))
    world, observation, decision = scene(
        len(work), config={"access": "tdma"}, cycles_per_sample=[1e9 * c for c in cycles], payload_bit=bits
    )
    uplink = transmit(world, observation, decision, seed=1)
    ends = in_turn(uplink.compute_s.tolist(), uplink.upload_s.tolist())
    assert uplink.round_s == pytest.approx(max(ends))
    cut = transmit(world, observation, decision._replace(deadline_s=float(np.median(ends))), seed=1)
    for end, outcome, before, after in zip(ends, cut.outcome, uplink.upload_s, cut.upload_s, strict=True):
        left = before - max(end - np.median(ends), 0.0)  # of its turn, until the deadline
        assert after == pytest.approx(max(left, 0.0), abs=1e-9)
        if abs(end - np.median(ends)) > 1e-9:
            assert (outcome == Outcome.DELIVERED) == (end < np.median(ends))


def test_cells_do_not_wait_for_each_other() -> None:
    config = {"access": "tdma", "topology": "cells", "n_cells": 2}
    world, observation, decision = scene(4, config=config)
    uplink = transmit(world, observation, decision, seed=1)
    assert uplink.round_s == pytest.approx(1.0 + 2 * 0.5)  # computing, then two uploads in each cell


@given(st.floats(1.5, 20))
def test_the_most_steps_end_in_time_although_all_wait(deadline: float) -> None:
    world, observation, decision = scene(3, config={"access": "tdma"}, deadline_s=deadline)
    most = most_steps(world, observation, decision)
    if (most == 0).any():
        return
    uplink = transmit(world, observation, decision._replace(steps=most), seed=1)
    assert uplink.delivered.all()
    more = transmit(world, observation, decision._replace(steps=most + 1), seed=1)
    assert not more.delivered.all()


@pytest.mark.parametrize("method", ["recycling", "pruning"])
def test_rules_that_need_bands_side_by_side_refuse_turns(method: str, tmp_path) -> None:
    with pytest.raises(BadInput, match=r"does not go with world\.access = 'tdma'"):
        fedcell.run(method, "cell", {"world.access": "tdma", "rounds": 1}, out=str(tmp_path / "run"))


def test_open_loop_power_needs_a_known_band() -> None:
    with pytest.raises(BadInput, match="needs a band that is known beforehand"):
        scene(2, config={"access": "fdma", "power_control": "open_loop"})
