"""What does not go with devices that send at once: one sentence each, that names both pieces."""

import numpy as np
import pytest
from sent_at_once import AIR, fedavg
from small_config import SMALL
from torch import nn

from fedcell.deploy.remote import federated_problem
from fedcell.errors import BadInput
from fedcell.options import override
from fedcell.plan.cell import LEARNT, plan
from fedcell.plan.drawing import LENGTHS
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin, simulate

ROWS = ["robust", "scaffold", "feddyn", "qfedavg", "fedkd", "cafe:scheme=agu,quorum=2"]
MORE_ROWS = ["knowledge:scheduler=random", "recycling", "pruning", "representativity"]
PLANNED = ["osafl", "m_fedavg", "rawhfl"]


@pytest.mark.parametrize("text", ROWS + MORE_ROWS)
def test_methods_of_single_updates_are_refused_before_anything_is_simulated(small, text):
    method = fedavg(text)
    with pytest.raises(BadInput, match=rf"^{method.name} does not go with world.access = 'air': it needs the update"):
        begin(small(AIR), method)


@pytest.mark.parametrize("text", ROWS)
def test_they_do_look_at_single_updates(small, text):
    """The flag is not there for nothing: without it, the first round refuses."""
    with pytest.raises(BadInput, match=r"does not go with world.access = 'air': it needs the update"):
        list(simulate(small(AIR), fedavg(text)._replace(needs_rows=False)))


@pytest.mark.parametrize("text", PLANNED)
def test_planners_of_single_uploads_are_refused(small, text):
    with pytest.raises(BadInput, match=r"does not go with world.access = 'air': it plans how long"):
        begin(small(AIR), fedavg(text))


def test_devices_that_send_whenever_they_are_done_are_refused(small):
    with pytest.raises(BadInput, match=r"^fedbuff does not go with world.access = 'air': all devices send at once"):
        begin(small(AIR), fedavg("fedbuff"))


def test_codings_are_refused(small):
    with pytest.raises(BadInput, match=r"^topk does not go with world.access = 'air': it makes bits of each update"):
        begin(small(AIR), fedavg("fedavg+topk"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"link": "nr"}, "world.link = 'nr' sends bits and with world.access = 'air'.*set link=shannon"),
        ({"response": "exponential"}, "world.response = 'exponential' draws when each device answers.*'air'"),
        ({"outage_threshold_db": "3"}, "world.outage_threshold_db = 3.0 loses single uploads.*'air'.*=none"),
        (
            {"interference": "others", "topology": "cells", "n_cells": "2"},
            "world.interference = 'others' needs .* not world.n_cells = 2 with world.access = 'air'",
        ),
        ({"antennas": "0"}, "world.antennas = 0 is out of range: it must be at least 1"),
        ({"air_threshold": "-1"}, "world.air_threshold = -1 is out of range"),
        ({"air_step": "0"}, "world.air_step = 0 is out of range"),
        ({"air_rule": "cotap"}, "air_rule = 'cotap' is unknown: did you mean 'cotaf'"),
    ],
)
def test_settings_about_single_uploads_are_refused(changes, said):
    with pytest.raises(BadInput, match=said):
        override(SMALL, AIR | {f"world.{key}": value for key, value in changes.items()})


def with_norm(buffers):
    config = override(SMALL, AIR | {"model.buffers": buffers})
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10))
    return build_problem(config, model=model)


def test_running_statistics_that_are_sent_are_refused():
    with pytest.raises(BadInput, match=r"world.access = 'air' does not go with model.buffers = 'average'"):
        begin(with_norm("average"), fedavg())


@pytest.mark.parametrize("buffers", ["local", "frozen"])
def test_running_statistics_that_stay_are_not(buffers):
    rows = [row for row, _ in simulate(with_norm(buffers), fedavg())]
    assert rows[-1].n_delivered == 6


def test_a_federation_is_refused():
    with pytest.raises(BadInput, match=r"world.access = 'air' is simulated and cannot be deployed"):
        federated_problem(override(SMALL, AIR))


def test_a_plan_is_the_run_and_says_that_joules_are_a_guess_without_training():
    settings = {"world.access": "air", "world.n_devices": 6, "world.fading": "exponential", "world.air_threshold": 0.5}
    (exact,) = plan("fedavg", settings=settings, seeds=[1], rounds=5)
    (found,) = plan("fedavg", settings=settings, seeds=[1], rounds=5, train=False)
    config = override(get("cell").config, {**settings, "rounds": 5, "seed": 1})
    rows = [row for row, _ in simulate(build_problem(config), fedavg())]
    assert found.notes == (LENGTHS,)
    assert found.round_s.mean == pytest.approx(np.mean([row.round_s for row in rows]))
    assert found.delivered_share == np.mean([row.n_delivered / 6 for row in rows]) < 1
    assert found.able == 6
    assert found.round_bit.mean == 0
    assert exact.notes == (LEARNT,)
    assert exact.round_s == found.round_s
    assert exact.round_joule.mean == np.mean([row.joule for row in rows])
    assert found.round_joule.mean > 0
    assert found.round_joule != exact.round_joule


def test_a_plan_says_who_can_never_be_heard():
    settings = {"world.access": "air", "world.n_devices": 6, "world.air_snr_db": 300.0}
    (found,) = plan("fedavg", settings=settings, seeds=[1], rounds=2)
    assert found.able == found.delivered_share == 0
    assert found.unable == {"outage": 6}
    (found,) = plan("fedavg", settings={**settings, "world.deadline_s": 1e-9}, seeds=[1], rounds=2)
    assert found.unable == {"deadline": 6}
    (found,) = plan("fedavg", settings={**settings, "world.energy_per_round_joule": 1e-12}, seeds=[1], rounds=2)
    assert found.unable == {"energy": 6}
