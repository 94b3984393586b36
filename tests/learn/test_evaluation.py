"""Top-M accuracy and the spread of accuracy over devices."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import nn

from fedcell.deploy.client import right_of
from fedcell.errors import BadInput
from fedcell.learn.evaluation import places, samples_at_once, top_columns
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.options import override
from fedcell.scenarios import build_problem, get


@given(
    scores=arrays.arrays(np.float32, (6, 5), elements=st.integers(-3, 3).map(float)),
    labels=arrays.arrays(np.int64, 6, elements=st.integers(0, 4)),
)
def test_places_are_those_of_a_stable_sort(scores, labels):
    order = np.argsort(-scores, axis=1, kind="stable")
    expected = [order[k].tolist().index(labels[k]) for k in range(6)]
    place = places(torch.from_numpy(scores), torch.from_numpy(labels)).numpy()
    assert place.tolist() == expected
    share = list(top_columns(place, (1, 2, 3, 4, 5)).values())
    assert share == sorted(share), "never less with more guesses"
    assert share[-1] == 1
    assert share[0] == np.mean(scores.argmax(1) == labels)


def test_columns_of_a_model(small):
    problem = small({"train.top": "1,3,10", "train.spread": "true"})
    found = problem.learner.evaluate(problem.learner.initial())
    assert set(found) == {"accuracy", "loss", "top1", "top3", "top10"}, "digits belong to nobody"
    assert found["top1"] == found["accuracy"] <= found["top3"] <= found["top10"] == 1
    assert set(small().learner.evaluate(problem.learner.initial())) == {"accuracy", "loss"}


def test_no_samples_are_refused_rather_than_replaced_by_all(small):
    learner = small().learner
    none = Samples(np.zeros((0, *learner.test_samples.shape), np.float32), np.zeros(0, np.int64), learner.device)
    with pytest.raises(BadInput, match=r"evaluate\(\) got 0 samples: give it at least one, or leave them out"):
        learner.evaluate(learner.initial(), none)
    assert right_of(learner, learner.initial().numpy(), none) == 0


def test_spread_is_over_the_test_sets_of_the_devices():
    problem = build_problem(override(get("rawhfl").config, {"rounds": 1, "train.device": "cpu"}))
    learner, test = problem.learner, problem.learner.test_samples
    params = learner.initial() * 3
    found = learner.evaluate(params)
    own = [learner.evaluate(params, test.of_user(user))["accuracy"] for user in range(48)]
    assert found["accuracy"] == pytest.approx(np.mean(own))
    assert found["accuracy_std"] == pytest.approx(np.std(own))


def test_a_place_before_the_first_is_refused():
    with pytest.raises(BadInput, match=r"top = 0,2 is out of range: each must be at least 1"):
        override(TrainConfig(), {"top": "0,2"})


class Wide(nn.Module):
    """A layer whose output is so many times its input."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, x):
        return x.repeat(1, self.times), x  # as recurrent layers do


@pytest.mark.parametrize(("times", "size"), [(1, 512), (3, 256), (48, 16), (1000, 1), (20_000, 1)])
def test_outputs_of_layers_are_never_very_large(times, size):
    module = Wide(times)
    assert samples_at_once(module, torch.zeros(1, 1024)) == size
    assert not module._forward_hooks


def test_columns_do_not_depend_on_how_many_samples_are_asked_about_together(small, monkeypatch):
    learner = small({"train.top": "2"}).learner
    params, found = learner.initial(), []
    for most in (7, 64, 2048):
        monkeypatch.setattr(learner._scoring, "_at_once", most)
        found.append(learner.evaluate(params))
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[1] == pytest.approx(found[2], rel=1e-6)
