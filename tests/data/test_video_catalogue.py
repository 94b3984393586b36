"""Video catalogue and users: popularity, similarity, content features, profiles, settings that cannot be."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from fedcell.data.video import (
    OSAFL,
    PRESETS,
    RAWHFL,
    VideoConfig,
    build_catalogue,
    draw_profiles,
    leave_law,
    similarity,
    zipf_mandelbrot,
)
from fedcell.data.video.catalogue import most_similar, read_images, synthetic_images
from fedcell.errors import BadInput
from fedcell.options import Law, check, from_dict, override, to_dict


def test_popularity_is_a_law():
    assert zipf_mandelbrot(20, 1.2, 2).sum() == pytest.approx(1)
    np.testing.assert_allclose(zipf_mandelbrot(20, 0, 0), 1 / 20)
    tops = [zipf_mandelbrot(20, skew, 2)[0] for skew in (0, 0.6, 1.2, 2)]
    assert tops == sorted(tops)
    assert (np.diff(zipf_mandelbrot(20, 1.2, 2)) < 0).all()
    assert zipf_mandelbrot(3, 1.2, 2)[1] == pytest.approx(4**-1.2 / (3**-1.2 + 4**-1.2 + 5**-1.2))


@pytest.mark.parametrize("name", PRESETS)
def test_catalogue_is_whole(name):
    settings = PRESETS[name]
    catalogue = build_catalogue(settings, 1)
    n_files, n = settings.n_files, settings.files_per_genre
    assert catalogue.content.shape == (n_files, 3072 if name == "osafl" else 64)
    assert sorted(catalogue.popular.ravel()) == list(range(n_files))
    assert (catalogue.popular // n == np.arange(settings.n_genres)[:, None]).all()
    assert (catalogue.similarity == catalogue.similarity.transpose(0, 2, 1)).all()
    assert (catalogue.similarity.diagonal(axis1=1, axis2=2) == 1).all()
    assert (catalogue.similar[:, 0] // n == np.arange(n_files) // n).all()
    assert (catalogue.similar[:, 0] != np.arange(n_files)).all()


def test_similarity_is_the_cosine_and_ties_go_to_the_lower_file():
    content = np.array([[1, 0], [2, 0], [1, 1], [0, 0]], dtype=np.float32)
    cosine = similarity(content, 1)
    np.testing.assert_allclose(cosine[0, 0], [1, 1, np.sqrt(0.5), 0])
    files, share = most_similar(cosine, 2)
    assert files.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]
    weight = np.exp([1, np.sqrt(0.5)])
    np.testing.assert_allclose(share[0], weight / weight.sum())


def test_all_similar_files_are_the_law_over_the_genre():
    catalogue = build_catalogue(replace(OSAFL, similar=19), 3)
    for file in (0, 37, 99):
        genre, place = divmod(file, 20)
        weight = np.exp(catalogue.similarity[genre, place])
        weight[place] = 0
        law = np.zeros(20)
        law[catalogue.similar[file] % 20] = catalogue.similar_share[file]
        np.testing.assert_allclose(law, weight / weight.sum())


def test_nearest_neighbours_end_in_pairs():
    near = build_catalogue(OSAFL, 1).similar[:, 0]
    file = np.arange(100)
    for _ in range(40):
        file = near[file]
    assert (near[near[file]] == file).all()


def test_synthetic_images_look_like_images():
    images = synthetic_images(50, np.random.default_rng(0))
    assert images.shape == (50, 3, 32, 32)
    assert images.dtype == np.float32
    assert images.min() >= 0
    assert images.max() <= 1
    inside = images.reshape(50, 3, 4, 8, 4, 8).std(axis=(3, 5)).mean()  # noise within a patch
    assert inside == pytest.approx(0.08, abs=0.02)
    assert images.std() > 2 * inside


def save_images(path, labels, **extra):
    x = np.arange(len(labels), dtype=np.uint8)[:, None, None, None] * np.ones((1, 32, 32, 3), np.uint8)
    x[..., 1] += 100
    np.savez(path, **({"x": x, "y": np.array(labels), "classes": np.array(["a", "b"])} | extra))
    return str(path)


def test_users_images_one_per_label(tmp_path):
    path = save_images(tmp_path / "images.npz", [3, 0, 1, 0, 2])
    rows = read_images(path, 4)
    assert rows.shape == (4, 3, 32, 32)
    rows = rows.reshape(4, -1)
    np.testing.assert_allclose(rows[:, 0] * 255, [1, 2, 4, 0])  # the first of each label
    np.testing.assert_allclose(rows[:, 1024] * 255, [101, 102, 104, 100], rtol=1e-6)  # channels first
    settings = VideoConfig(n_genres=2, files_per_genre=2, content=path)
    assert (build_catalogue(settings, 1).content == rows).all()


def test_bad_images_are_refused(tmp_path):
    with pytest.raises(BadInput, match="is no file"):
        read_images(str(tmp_path / "none.npz"), 4)
    with pytest.raises(BadInput, match="one of each label 0"):
        read_images(save_images(tmp_path / "few.npz", [0, 1, 2, 3]), 5)
    with pytest.raises(BadInput, match="5 images but 4 labels"):
        read_images(save_images(tmp_path / "odd.npz", [0, 1, 2, 3, 4], y=np.arange(4)), 4)
    np.savez(tmp_path / "empty.npz", a=np.zeros(3))
    with pytest.raises(BadInput, match=r"has no array 'x' but a: save .*np\.savez\(path, x=\.\.\., y=\.\.\.\)"):
        read_images(str(tmp_path / "empty.npz"), 4)
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(BadInput, match="begins with b'hello' and is no NumPy archive"):
        read_images(str(tmp_path / "text.npz"), 4)
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    with pytest.raises(BadInput, match="one array without a name"):
        read_images(str(tmp_path / "x.npy"), 4)
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(BadInput, match="cannot be read"):
        read_images(str(tmp_path / "cut.npz"), 4)


@pytest.mark.parametrize("name", PRESETS)
def test_profiles_follow_the_table(name):
    settings = PRESETS[name]
    profiles = draw_profiles(settings, 4000, 1)
    np.testing.assert_allclose(profiles.preference.sum(axis=1), 1)
    for drawn, law in ((profiles.stay, settings.stay), (profiles.activity, settings.activity)):
        low, high = law.values
        assert low <= drawn.min() < drawn.max() <= high
        assert drawn.mean() == pytest.approx((low + high) / 2, abs=0.02)
    if name == "osafl":
        assert (profiles.slots == np.ceil(32 * profiles.activity)).all()
        assert (profiles.slots.min(), profiles.slots.max()) == (10, 26)
        assert (profiles.capacity.min(), profiles.capacity.max()) == (320, 640)
        assert (profiles.capacity % 1 == 0).all()
    else:
        assert (profiles.slots == 1).all()
        assert (profiles.capacity == inf).all()


@pytest.mark.parametrize("alpha", [0.3, 5.0])
def test_preferences_are_dirichlet(alpha):
    share = draw_profiles(replace(OSAFL, alpha=alpha), 20_000, 2).preference
    np.testing.assert_allclose(share.mean(axis=0), 0.2, atol=0.01)
    np.testing.assert_allclose(share.var(axis=0), 0.2 * 0.8 / (5 * alpha + 1), rtol=0.04)


def test_tiny_alpha_leaves_one_genre():
    share = draw_profiles(replace(OSAFL, alpha=1e-6), 50, 2).preference
    assert np.isfinite(share).all()
    np.testing.assert_allclose(share.max(axis=1), 1)
    assert len(np.unique(share.argmax(axis=1))) == 5


def test_leaving_a_genre_survives_underflow():
    tiny = np.array([[1.0, 0, 0], [1.0, 1e-300, 0], [0.2, 0.3, 0.5]])
    law = leave_law(tiny)
    np.testing.assert_allclose(law.sum(axis=2), 1)
    assert (law.diagonal(axis1=1, axis2=2) == 0).all()
    np.testing.assert_allclose(law[0, 0], [0, 0.5, 0.5])
    np.testing.assert_allclose(law[1, 0], [0, 1, 0])


def test_settings_are_options():
    for settings in PRESETS.values():
        check(settings)
        assert from_dict(VideoConfig(), to_dict(settings)) == settings
    assert override(OSAFL, {"similar": "2", "stay": "0.7"}).stay == Law((0.7,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"similar": "20"}, "video.similar = 20 but a file has 19 others"),
        ({"capacity": "30"}, "video.capacity = 30 does not exceed video.slots = 32"),
        ({"capacity": "inf"}, "needs a finite video.initial"),
        ({"stay": "0.5..1.5"}, "video.stay = 0.5..1.5 is out of range"),
        ({"features": "pixels"}, "video.features = 'pixels' is unknown"),
    ],
)
def test_settings_that_cannot_be(changes, message):
    with pytest.raises(BadInput, match=message):
        override(OSAFL, changes, where="video.")


def test_same_seed_same_catalogue_and_users():
    for settings in (OSAFL, RAWHFL):
        for part in (
            lambda *given: build_catalogue(*given)[:-1],
            lambda settings, seed: draw_profiles(settings, 9, seed),
        ):
            once, again, other = part(settings, 4), part(settings, 4), part(settings, 5)
            assert all((a == b).all() for a, b in zip(once, again, strict=True))
            assert any((a != b).any() for a, b in zip(once, other, strict=True))


def test_more_users_leave_the_earlier_ones_alone():
    settings = replace(OSAFL, stay=Law((0.2, 0.5, 0.9), "choice"), activity=Law((0.1, 0.8), "log"))
    few, many = draw_profiles(settings, 7, 1), draw_profiles(settings, 40, 1)
    assert all((a == b[:7]).all() for a, b in zip(few, many, strict=True))
