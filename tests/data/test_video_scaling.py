"""Scaled pictures of the video world: before similarities, channel by channel, in the samples."""

from dataclasses import replace

import numpy as np
import pytest

from fedcell.data.scaling import SCALINGS
from fedcell.data.video import VideoConfig, build_catalogue
from fedcell.errors import BadInput
from fedcell.options import override
from fedcell.scenarios import build_problem, get

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("content", ["synthetic", "uniform", "file"])
def test_content_of_files_is_scaled_before_similarities(content, tmp_path):
    path = tmp_path / "pictures.npz"
    np.savez(path, x=RNG.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8), y=np.arange(6))
    given = VideoConfig(n_genres=2, files_per_genre=3, content=str(path) if content == "file" else content)
    unit, half, standard = (build_catalogue(replace(given, scaling=kind), 1) for kind in SCALINGS)
    raw = unit.content.astype(np.float64)
    shape, axes = ((6, -1), 0) if content == "uniform" else ((6, 3, 1024), (0, 2))
    assert 0 <= raw.min() < raw.max() <= 1
    np.testing.assert_allclose(half.content, raw * 2 - 1, atol=1e-6)
    channels = standard.content.astype(np.float64).reshape(shape)
    np.testing.assert_allclose(channels.mean(axis=axes), 0, atol=1e-6)
    np.testing.assert_allclose(channels.std(axis=axes), 1, atol=1e-6)
    rows = half.content.astype(np.float64).reshape(2, 3, -1)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    cosine = rows @ rows.transpose(0, 2, 1)
    np.testing.assert_allclose(half.similarity, cosine, atol=1e-9)
    assert [one.scaling.kind for one in (unit, half, standard)] == list(SCALINGS)


def test_a_constant_channel_of_pictures_gets_a_sentence(tmp_path):
    x = RNG.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    x[..., 1] = 7
    np.savez(tmp_path / "pictures.npz", x=x, y=np.arange(4))
    given = VideoConfig(n_genres=2, files_per_genre=2, content=str(tmp_path / "pictures.npz"), scaling="standard")
    with pytest.raises(BadInput, match=r"channel 1 of video.content = .* use video.scaling = unit or half"):
        build_catalogue(given, 1)


def test_scaled_pictures_reach_the_samples():
    changes = {"rounds": 2, "world.n_devices": 3, "train.device": "cpu"}
    config = override(get("video").config, changes)
    half, unit = build_problem(config), build_problem(override(config, {"video.scaling": "unit"}))
    x = half.learner.train_samples.take(np.arange(50))[0][:, :3072]
    assert -1 <= x.min() < -0.9
    assert 0.9 < x.max() <= 1
    assert unit.learner.train_samples.take(np.arange(50))[0].min() >= 0
    assert (half.scaling.kind, unit.scaling.kind) == ("half", "unit")
