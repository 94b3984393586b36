"""Scaled inputs: statistics of the training samples, applied to all, refused in a sentence if the data have none."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from small_config import SMALL

from fedcell.data import from_arrays, load, scaled
from fedcell.data import scaling as module
from fedcell.data.scaling import SCALINGS, UNIT, apply, fit
from fedcell.data.settings import DataConfig
from fedcell.data.video import OSAFL, RAWHFL, VideoConfig
from fedcell.errors import BadInput
from fedcell.experiment.runs import data_of
from fedcell.options import override
from fedcell.scenarios import Config, build_problem, get, names

RNG = np.random.default_rng(0)
LABELS = {"y_train": np.arange(40) % 4, "y_test": np.arange(8) % 4}
SHAPES = {"vectors": (5,), "images": (3, 6, 4), "volumes": (2, 3, 2, 2), "sequences": (7, 3)}
AXES = {"vectors": (0,), "images": (0, 2, 3), "volumes": (0, 2, 3, 4), "sequences": (0, 1, 2)}


def samples(kind="images", low=0.0, high=1.0):
    """A data set whose test samples have other statistics than the training samples."""
    shape = SHAPES[kind]
    train = RNG.uniform(low, high, (40, *shape)) * np.linspace(0.2, 1, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    test = RNG.uniform(low, high, (8, *shape)) ** 3
    return from_arrays(x_train=train.astype(np.float32), x_test=test.astype(np.float32), **LABELS)


def under(changes):
    return override(SMALL, changes)


# ---------------------------------------------------------------- statistics


@pytest.mark.parametrize("kind", SHAPES)
def test_standard_is_what_numpy_says_of_the_training_samples(kind, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 70)  # several blocks, the last of them smaller
    data, axes = samples(kind, -3, 7), AXES[kind]
    x = data.x_train.astype(np.float64)
    mean, deviation = x.mean(axis=axes, keepdims=True), x.std(axis=axes, keepdims=True)
    found = scaled(data, "standard")
    np.testing.assert_allclose(found.scaling.shift, mean.ravel(), rtol=1e-12)
    np.testing.assert_allclose(found.scaling.scale, deviation.ravel(), rtol=1e-12)
    np.testing.assert_allclose(found.x_train, (x - mean) / deviation, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.x_test, (data.x_test - mean) / deviation, rtol=1e-6, atol=1e-12)
    assert found.x_train.dtype == found.x_test.dtype == np.float32


def test_half_takes_0_to_1_to_minus_1_to_1():
    x = np.arange(160, dtype=np.uint8).reshape(40, 2, 2)
    data = from_arrays(x_train=x, x_test=np.full((8, 2, 2), 255, np.uint8), **LABELS)
    found = scaled(data, "half")
    np.testing.assert_allclose(found.x_train, np.arange(160).reshape(40, 1, 2, 2) / 127.5 - 1, atol=1e-6)
    assert (found.x_test == 1).all()


def test_unit_leaves_everything_as_it_is():
    data = samples(low=-3, high=7)
    assert scaled(data, "unit") is data
    assert data.scaling is UNIT
    assert DataConfig().scaling == VideoConfig().scaling == "unit"  # what records without the key mean


numbers = arrays(
    np.float32,
    st.tuples(st.integers(2, 6), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)),
    elements=st.floats(-1e6, 1e6, width=32),
)


@settings(max_examples=60)
@given(x=numbers)
def test_standard_gives_mean_0_and_deviation_1_or_a_sentence(x):
    constant = np.flatnonzero((x == x[:1, :, :1, :1]).all(axis=(0, 2, 3)))
    if constant.size:
        with pytest.raises(BadInput, match=f"^channel {constant[0]} of x is .* in every sample"):
            fit("standard", x, "x")
        return
    found = apply(fit("standard", x, "x"), x, "x").astype(np.float64)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=(0, 2, 3)), 1, atol=1e-5)


def test_known_statistics_of_the_embedded_digits():
    data = load("digits")
    found = scaled(data, "standard")
    assert found.scaling.shift == pytest.approx(data.x_train.mean(dtype=np.float64), rel=1e-9)
    assert abs(found.x_train.mean(dtype=np.float64)) < 1e-6
    assert abs(found.x_test.mean(dtype=np.float64)) > 1e-4  # the training set's mean, not its own


# ---------------------------------------------------------------- bad input


def with_constant(shape, place):
    x = RNG.random((40, *shape)).astype(np.float32)
    x[:, place] = 0.1  # no float64 number is 0.1, nor is the mean of forty
    return x


@pytest.mark.parametrize(
    ("shape", "place", "words"),
    [
        ((3, 4, 4), 2, ["channel 2 of x_train of 'arrays' is 0.1", "leave out every constant channel", "unit or half"]),
        ((6,), [1, 4], ["feature 1 of x_train", "(as are 1 others of 6)", "give images as [n, channels"]),
        ((5, 2), slice(None), ["x_train of 'arrays' is 0.1 in every sample", "divide by: use data.scaling = unit"]),
    ],
)
def test_a_constant_channel_gets_a_sentence(shape, place, words):
    x = with_constant(shape, place)
    with pytest.raises(BadInput) as caught:
        scaled(from_arrays(x_train=x, x_test=x[:8], **LABELS), "standard")
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_other_bad_scalings_get_a_sentence():
    data = samples(low=-3, high=7)
    with pytest.raises(BadInput, match=r"x_train of 'arrays' goes from -.* but data.scaling = 'half' takes numbers in"):
        scaled(data, "half")
    with pytest.raises(BadInput, match=r"data.scaling = 'standrad' is unknown: did you mean 'standard'"):
        scaled(data, "standrad")
    with pytest.raises(BadInput, match=r"data.scaling = 'zscore' is unknown: choose one of unit, half, standard"):
        under({"data.scaling": "zscore"})
    with pytest.raises(BadInput, match="scaled already"):
        scaled(scaled(data, "standard"), "unit")
    tiny = from_arrays(x_train=np.eye(40, 2, dtype=np.float32) * 1e-38, x_test=np.full((8, 2), 1e30), **LABELS)
    with pytest.raises(BadInput, match="x_test of 'arrays' holds numbers too far from the training samples"):
        scaled(tiny, "standard")
    with pytest.raises(BadInput, match=r"shape \(3, 6, 4\), which data.scaling = 'standard' with 5 means does not fit"):
        apply(fit("standard", samples("vectors").x_train, "x"), data.x_train, "mine")


# ---------------------------------------------------------------- nobody's samples are scaled twice, or changed


def test_the_callers_arrays_stay_as_they_are():
    x = RNG.random((40, 3)).astype(np.float32)
    before = x.copy()
    data = from_arrays(x_train=x, x_test=x[:8], **LABELS)
    config = under({"data.scaling": "standard"})
    first, second = build_problem(config, data), build_problem(config, data)
    assert (x == before).all()
    once, again = (problem.learner.train_samples.take(np.arange(40))[0] for problem in (first, second))
    assert torch.equal(once, again)


def test_what_is_loaded_is_scaled_where_it_lies():
    data = load("digits")
    found = scaled(data, "standard", reuse=True)
    assert found.x_train is data.x_train
    np.testing.assert_array_equal(found.x_train, scaled(load("digits"), "standard").x_train)


def test_an_experiment_scales_a_data_set_once():
    config = under({"data.scaling": "standard"})
    kept = data_of(config)
    assert data_of(config) is kept
    before = kept.x_train.copy()
    for _ in range(2):
        problem = build_problem(config, kept)
        assert problem.learner.train_samples._rows.data_ptr() == kept.x_train.ctypes.data
    np.testing.assert_array_equal(kept.x_train, before)
    assert data_of(under({})).scaling is UNIT


@pytest.mark.parametrize("kind", SCALINGS)
def test_names_files_and_arrays_are_scaled_alike(kind, tmp_path):
    data = load("digits")
    parts = {"x_train": data.x_train, "y_train": data.y_train, "x_test": data.x_test, "y_test": data.y_test}
    np.savez(tmp_path / "digits.npz", **parts)
    expected = scaled(data, kind)
    changes = {"data.scaling": kind}
    for problem in (
        build_problem(under(changes)),
        build_problem(under({**changes, "data.name": str(tmp_path / "digits.npz")})),
        build_problem(under(changes), from_arrays(**parts)),
    ):
        learner = problem.learner
        pairs = ((learner.train_samples, expected.x_train), (learner.test_samples, expected.x_test))
        for found, wanted in pairs:
            np.testing.assert_array_equal(found.take(np.arange(len(wanted)))[0].numpy(), wanted)
        assert problem.scaling.record() == expected.scaling.record()


def test_streams_that_draw_labels_have_scaled_inputs_too():
    config = under({"stream.kind": "markov", "data.scaling": "standard", "data.partition": "dirichlet"})
    assert build_problem(config).scaling.kind == "standard"
    with pytest.raises(BadInput, match=r"data.scaling = half changes nothing with data.name = video"):
        build_problem(override(get("video").config, {"data.scaling": "half"}))


# ---------------------------------------------------------------- scenarios


def test_every_scenario_states_its_scaling():
    unit = {"blocks", "cafe", "cell", "cells", "characters", "city", "knowledge_stress"}  # tokens are not scaled at all
    video = {name for name in names() if get(name).config.data.name == "video"}
    for name in names():
        config = get(name).config
        if name in video:
            assert config.video.scaling == ("unit" if name == "rawhfl" else "half")
        else:
            assert config.data.scaling == ("unit" if name in unit else "standard"), name
    assert (OSAFL.scaling, RAWHFL.scaling, Config().video.scaling) == ("half", "unit", "unit")
