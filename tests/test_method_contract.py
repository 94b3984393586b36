"""What every method must keep to. Methods are discovered, so a new file in methods/ is tested by being there."""

import numpy as np
import pytest
import torch

from fedcell import methods
from fedcell.errors import BadInput, ContractError
from fedcell.lifting import lifted
from fedcell.record import checkpoint, tree
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.tiers.cell_views import each
from fedcell.types import at_once

WORLDS = {
    "shared band": {},
    "own bands": {"world.access": "own_band", "world.pathloss": "power_law", "world.fading": "exponential"},
    "resource blocks with outage": {
        "world.access": "block",
        "world.n_blocks": "3",
        "world.interference_over_noise": "1e2..1e5",
        "world.outage_threshold_db": "20",
        "world.pathloss": "power_law",
    },
    "three uneven cells": {"world.topology": "cells", "world.n_cells": "3", "world.n_devices": "7"},
    "an empty cell": {"world.topology": "cells", "world.n_cells": "3", "world.n_devices": "2"},
    "edge models and an empty cell": {
        "world.topology": "cells",
        "world.n_cells": "3",
        "world.n_devices": "7",
        "world.devices_per_cell": "4,0,3",
        "world.edge_rounds": "3",
        "world.availability": "0.8",
    },
    "answers within a deadline": {
        "world.response": "exponential",
        "world.deadline_s": "0.8",
        "world.clock": "deadline",
    },
    "batteries that run out": {"world.battery_joule": "1e-4..1e-2", "world.cycles_per_sample": "1e6"},
    "tight energy budgets": {"world.energy_per_round_joule": "1e-4..1e-2", "world.cycles_per_sample": "1e6"},
    "devices come and go, places change": {"world.availability": "0.5", "world.geometry": "redraw_hardware"},
    "turns on a 5G link, with a way down": {
        "world.access": "tdma",
        "world.link": "nr",
        "world.downlink": "unicast",
        "world.receive_watt": "0.1",
    },
    "a city": {
        "world.topology": "cells",
        "world.n_cells": "3",
        "world.geometry": "waypoints",
        "world.shadowing": "correlated",
        "world.fading": "jakes",
        "world.interference": "others",
        "world.link": "nr",
        "world.downlink": "broadcast",
        "world.receive_watt": "0.1",
        "world.battery_joule": "0.2..5",
        "world.idle_watt": "0.01",
        "world.harvest_watt": "0.05",
        "world.clock": "deadline",
        "world.deadline_s": "20",
    },
    "blocks that others disturb": {
        "world.topology": "cells",
        "world.n_cells": "2",
        "world.access": "block",
        "world.n_blocks": "2",
        "world.interference": "others",
        "world.downlink": "unicast",
        "world.energy_per_round_joule": "0.01..1",
        "world.receive_watt": "0.1",
        "world.fading": "ar1",
    },
    "all at once over the air": {
        "world.access": "air",
        "world.fading": "exponential",
        "world.air_threshold": "0.3",
        "world.antennas": "2",
        "world.battery_joule": "1e-4..1e-2",
    },
    "votes over the air, edge models": {
        "world.access": "air",
        "world.air_rule": "obda",
        "world.topology": "cells",
        "world.n_cells": "2",
        "world.edge_rounds": "2",
        "world.availability": "0.7",
        "world.air_snr_db": "10",
    },
    "nobody is ever there": {"world.availability": "0"},
    "one device": {"world.n_devices": "1"},
    "a device with no data": {"data.partition": "counts", "data.counts": "40,0,40,40,0,40"},
    "full batches of unequal stores": {"data.partition": "dirichlet", "train.batch_size": "0"},
}


CODED = [
    *("fedavg+topk:fraction=0.3", "scaffold+topk:fraction=0.3,lost=kept", "osafl+topk:fraction=0.3,feedback=false"),
    *("fedavg+qsgd:levels=4", "scaffold+sign:lost=kept", "osafl+stc:fraction=0.3", "fedprox+randk:fraction=0.3"),
    *("osafl+cast:to=int8", "fedavg+private:clip_norm=5,noise_multiplier=0.05,secure=pairwise"),
    "fedopt+private:clipping=adaptive,noise_multiplier=0.01,scheduler=random,n_selected=5,server_lr=0.1",
    *("fedprox+private:dp=local,clip_norm=5,noise_multiplier=0.001", "scaffold+powersgd:rank=4,lost=kept"),
]
VARIED = [
    *("fedavg:scheduler=fedcs", "fedavg:scheduler=poisson,n_selected=4"),  # which may leave everyone out
    *("fedavg:scheduler=latency,n_selected=3,weights=unbiased", "fedprox:scheduler=energy,n_selected=5"),
    *("fedbuff:buffer=2", "fedbuff+topk:fraction=0.3,buffer=2", "fedasync:scheduler=random,n_selected=2"),
]


@pytest.fixture(params=[*methods.names(), *CODED, *VARIED])
def method(request):
    return methods.parse(request.param).build()


def play(problem, method):
    """All rounds, unless the method refuses this world before anything is simulated."""
    refusal = refusal_of(problem, method)
    if refusal:
        pieces = [f"world.{key} = {getattr(problem.world.settings, key)!r}" for key in ("access", "edge_rounds")]
        assert any(piece in refusal for piece in pieces), "a refusal names the two pieces"
        pytest.skip(refusal)
    return list(simulate(problem, method))


def refusal_of(problem, method):
    try:
        first = begin(problem, method)
        if problem.world.settings.access == "air":  # which methods that look at single updates find out in a round
            play_round(SIMULATED, problem, lifted(problem, method), first)
    except BadInput as error:
        return str(error)
    return ""


def same(left, right):
    return left[0] == right[0] and torch.equal(left[1].params, right[1].params)


@pytest.mark.parametrize("world", WORLDS)
def test_runs_within_budgets_and_repeats(small, method, world):
    problem = small(WORLDS[world])
    history = play(problem, method)
    assert len(history) == problem.n_rounds
    for row, after in history:
        assert after.params.shape == (problem.learner.n_params,)
        assert after.params.dtype == torch.float32
        assert len(row.outcome) == problem.world.n_devices
        assert row.outcome.count("D") == row.n_delivered <= row.n_selected <= problem.world.n_devices
        spent = row.compute_joule + row.radio_joule + row.metrics.get("receive_joule", 0.0)
        assert spent <= problem.world.devices.energy_per_round_joule.sum() * (1 + 1e-9)
        assert (after.world.battery_joule >= 0).all()
        assert np.isfinite(
            [row.clock_s, row.round_s, row.compute_joule, row.radio_joule, row.uplink_bit, *row.metrics.values()]
        ).all()
        assert 0 <= row.metrics["accuracy"] <= 1
    assert all(same(left, right) for left, right in zip(history, play(problem, method), strict=True))


def test_learns(small, method, request):
    rounds = 15 if method.collect is at_once else 90  # of one arrival each, maybe
    accuracy = [row.metrics["accuracy"] for row, _ in play(small(rounds=rounds), method)]
    assert accuracy[-1] > 0.6 or "top_popular" in request.node.name


def test_empty_round_changes_nothing_that_was_learned_on_devices(small, method, request):
    problem = small(WORLDS["nobody is ever there"])
    first = begin(problem, method)
    row, after = play_round(SIMULATED, problem, method, first)
    assert row.n_selected == row.n_delivered == 0
    assert row.uplink_bit == row.compute_joule == row.radio_joule == 0
    if "central" not in request.node.name:
        assert torch.equal(first.params, after.params)


def test_bad_update_is_turned_away(small, method):
    problem = small()

    def poisoned(*arguments):
        updates = method.local(*arguments)
        if arguments[3].round == 0:
            updates.delta[:1, 5] = float("nan")
        return updates

    row, after = play_round(SIMULATED, problem, method._replace(local=poisoned), begin(problem, method))
    assert torch.isfinite(after.params).all()
    if method.collect is not at_once:  # it may be on the way for long
        history = list(simulate(small(rounds=20), method._replace(local=poisoned)))
        assert any("X" in row.outcome for row, _ in history)
        assert all(torch.isfinite(after.params).all() for _, after in history)
    elif row.n_selected:
        assert row.outcome.lstrip(".").startswith("X"), "the first that trained"
        assert row.n_delivered == row.n_selected - 1


def test_bad_numbers_that_a_device_keeps_turn_no_upload_away(small, method):
    problem = small(rounds=2)
    spoilt = []

    def poisoned(*arguments):
        updates = method.local(*arguments)
        kept = each(lambda part: part.clone().index_fill_(0, torch.tensor([0]), float("nan")), updates.kept)
        spoilt.append(kept is not None)
        return updates._replace(kept=kept)

    bad = play(problem, method._replace(local=poisoned))
    if not any(spoilt):
        pytest.skip("its devices keep nothing")
    assert "X" not in bad[0][0].outcome
    assert bad[0][0]._replace(metrics={}) == play(problem, method)[0][0]._replace(metrics={})
    assert np.isfinite([value for row, _ in bad for value in row.metrics.values()]).all()


@pytest.mark.parametrize(
    ("kept", "words"),
    [(torch.zeros(4, 2), "has 4 rows and 6 devices trained"), ({"a": 1.5}, "kept holds a float: keep tensors")],
)
def test_what_devices_keep_has_a_row_for_each(small, kept, words):
    problem, plain = small(), methods.parse("fedavg").build()
    method = plain._replace(local=lambda *given: plain.local(*given)._replace(kept=kept))
    with pytest.raises(ContractError, match=words):
        play_round(SIMULATED, problem, method, begin(problem, method))


def test_leaves_the_state_it_was_given_as_it_was(small, method):
    """A snapshot must stay valid while later rounds are played, or a checkpoint could hold a mixture of two rounds."""
    problem = small(rounds=3)
    snapshot = begin(problem, method)
    template = checkpoint.Template.of(snapshot)
    for _ in range(3):
        before = tree.digest(*tree.pack(snapshot, *template))
        _, after = play_round(SIMULATED, problem, method, snapshot)
        assert tree.digest(*tree.pack(snapshot, *template)) == before
        snapshot = after


@pytest.mark.parametrize("world", ["devices come and go, places change", "edge models and an empty cell"])
def test_saved_in_mid_run_ends_alike(small, method, world, tmp_path):
    problem = small(WORLDS[world])
    straight = play(problem, method)
    template = checkpoint.Template.of(begin(problem, method))
    checkpoint.save(tmp_path, straight[1][1], template)
    restored = checkpoint.load(next(tmp_path.iterdir()), template)
    resumed = list(simulate(problem, method, restored))
    assert len(resumed) == 2
    assert all(same(left, right) for left, right in zip(straight[2:], resumed, strict=True))


def test_local_must_return_updates(small):
    problem = small()
    method = methods.parse("fedavg").build()._replace(local=lambda *_: None)
    with pytest.raises(ContractError, match=r"local\(\) returned 'None': return a fedcell\.types\.Updates"):
        play_round(SIMULATED, problem, method, begin(problem, method))
