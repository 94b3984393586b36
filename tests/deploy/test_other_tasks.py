"""Federations that learn something other than classes: numbers, several labels, the next token."""

import numpy as np
import pytest
from inside import InsideGrid, notices, play

from fedcell import record
from fedcell.deploy import flower, server_data, settings
from fedcell.deploy.client import CacheSettings, client_app, share_of
from fedcell.errors import BadInput, FedcellError
from fedcell.metrics import TASKS
from fedcell.resolve import choose
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate

SCENARIOS = {"diabetes": "regression", "tags": "multi-label"}


def run_config(scenario, out, method="fedavg", **more):
    own = {
        "world.n_devices": 3,
        "rounds": 2,
        "train.device": "cpu",
        "train.steps": 4,
        "world.deadline_s": 60,
        "world.cycles_per_sample": 1e4,
        "world.bandwidth_hz": 1e9,
        **more,
    }
    text = " ".join(f"{key}={value}" for key, value in own.items())
    return {"method": method, "scenario": scenario, "settings": text, "out": str(out), "poll-s": 0.002, "join-s": 5.0}


def grid(config, app=None):
    return InsideGrid(app or client_app(share_of), {100 + k: {"partition-id": k} for k in range(3)}, config)


def simulated(config):
    found = settings.read(config)
    method = choose(found.method, found.preset, found.settings).build()
    return [row.metrics for row, _ in simulate(build_problem(found.config), method)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_federation_of_a_task_without_labels_ends_where_its_simulation_ends(scenario, tmp_path):
    config = run_config(scenario, tmp_path / "run")
    found = play(config, grid(config))
    expected = simulated(config)
    assert found.task == SCENARIOS[scenario]
    assert found.columns["outcome"] == ["DDD"] * 2
    for metric in TASKS[found.task]:
        assert np.allclose(found.columns[metric.name], [row[metric.name] for row in expected], rtol=1e-3, atol=1e-3)
    assert "accuracy" not in found.columns


def tokens(seed, n=40):
    """Texts in which a token is followed by the next one of five, and sometimes by any."""
    rng = np.random.default_rng(seed)
    found = (rng.integers(5, size=(n, 1)) + np.arange(33)) % 5
    return np.where(rng.random(found.shape) < 0.1, rng.integers(5, size=found.shape), found)


def test_devices_with_texts_of_their_own_learn_the_next_token(tmp_path):
    def data(context, round):
        mine = tokens(context.node_config["partition-id"])
        return mine[:, :-1], mine[:, 1:]

    config = run_config("characters", tmp_path / "run", **{"train.steps": 10, "rounds": 3})
    asked = settings.read(config)
    with pytest.raises(BadInput, match=r"'characters' makes up samples.*server_app\(dataset=...\)"):
        flower.run(grid(config), asked)
    test = tokens(99)
    flower.run(grid(config, client_app(data)), asked, dataset=server_data(test[:, :-1], test[:, 1:]))
    found = record.read(tmp_path / "run")
    assert found.task == "next-token"
    assert found.columns["perplexity"][-1] < 4.5, "guessing has 5"


def test_what_needs_labels_is_refused_by_name(tmp_path):
    with pytest.raises(BadInput, match="method 'm_feddisco' needs class labels, which the task 'regression' does not"):
        play(run_config("diabetes", tmp_path / "run", "m_feddisco"))
    assert not (tmp_path / "run").exists()
    config = run_config("diabetes", tmp_path / "run", rounds=1)
    app = client_app(share_of, cache=CacheSettings(capacity=10))
    config["join-s"] = 0.5
    with pytest.raises(FedcellError, match="0 of 3 devices"):
        play(config, grid(config, app))
    assert "a cache needs class labels" in notices(config)


def test_a_wrong_target_is_refused_on_the_device(tmp_path):
    config = run_config("tags", tmp_path / "run", rounds=1)
    config["join-s"] = 0.5
    with pytest.raises(FedcellError, match="0 of 3 devices"):
        play(config, grid(config, client_app(lambda *_: (np.zeros((3, 40)), np.full((3, 8), 2.0)))))
    assert "a label of the task 'multi-label' is 0 or 1" in notices(config)


def test_a_device_breaks_no_regression(tmp_path):
    """The loss of guessing is the variance of the targets, about 6000, not that of classes."""
    problem = flower.deployable(settings.read(run_config("diabetes", tmp_path / "run")))[0]
    assert 4000 < problem.learner.guessing < 8000
    assert problem.hopeless_loss > 1e9
    assert problem.learner.n_counted == 1
