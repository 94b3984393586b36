"""Request chains: against a plain loop, against the exact matrix, and their invariants."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from fedcell.data.video import (
    OSAFL,
    PRESETS,
    RAWHFL,
    Profiles,
    VideoConfig,
    build_catalogue,
    draw_arrivals,
    draw_profiles,
    draw_requests,
    genre_shares,
    stationary_law,
    transition_matrix,
)
from fedcell.options import Law
from fedcell.rng import SETUP, uniforms

SMALL = VideoConfig(n_genres=3, files_per_genre=5, content="uniform", content_width=8, similar=2)


def copies(settings, n_users, preference, stay):
    """Users who are all alike."""
    drawn = draw_profiles(settings, n_users, 1)
    return drawn._replace(preference=np.tile(preference, (n_users, 1)), stay=np.full(n_users, stay))


def plain_requests(settings, catalogue, profiles, user, n, seed, purpose):
    """Algorithm 5 as it is written, one user, one request after another."""
    per_genre, popularity = settings.files_per_genre, catalogue.popularity
    numbers = {
        what: uniforms(seed, SETUP, f"video.{purpose}.{what}", user, np.arange(n)) for what in ("coin", "pick", "rank")
    }

    def draw(law, u):
        return int(np.searchsorted(np.cumsum(law) / np.sum(law), u, side="right"))

    taste, out = profiles.preference[user], []
    for t in range(n):
        rank = draw(popularity, numbers["rank"][t])
        if t == 0:
            genre = draw(taste, numbers["pick"][t])
            file = catalogue.popular[genre][rank]
        elif numbers["coin"][t] < profiles.stay[user]:
            cosine = catalogue.similarity[genre][file % per_genre]
            others = sorted(
                (other for other in range(per_genre) if other != file % per_genre), key=lambda o: -cosine[o]
            )
            top = others[: settings.similar]
            file = genre * per_genre + top[draw(np.exp(cosine[top]), numbers["pick"][t])]
        else:
            law = np.where(np.arange(settings.n_genres) == genre, 0, taste)
            genre = draw(law, numbers["pick"][t])
            file = catalogue.popular[genre][rank]
        out.append(int(file))
    return out


@pytest.mark.parametrize("settings", [SMALL, replace(OSAFL, similar=2), RAWHFL], ids=["small", "osafl", "rawhfl"])
def test_vectorised_equals_plain_loop(settings):
    catalogue, profiles = build_catalogue(settings, 2), draw_profiles(settings, 6, 2)
    log = draw_requests(catalogue, profiles, 300, 2, "train")
    assert log.dtype == np.int32
    for user in (0, 5):
        assert log[user].tolist() == plain_requests(settings, catalogue, profiles, user, 300, 2, "train")


def test_transitions_follow_the_exact_matrix():
    catalogue = build_catalogue(SMALL, 5)
    profiles = copies(SMALL, 200, [0.6, 0.3, 0.1], 0.55)
    log = draw_requests(catalogue, profiles, 1001, 5, "train")
    exact = transition_matrix(catalogue, profiles, 0)
    np.testing.assert_allclose(exact.sum(axis=1), 1)
    seen = np.zeros_like(exact)
    np.add.at(seen, (log[:, :-1], log[:, 1:]), 1)
    assert (seen[exact == 0] == 0).all()
    expected = seen.sum(axis=1, keepdims=True) * exact
    judged = expected >= 5
    statistic = ((seen - expected)[judged] ** 2 / expected[judged]).sum()
    freedom = judged.sum() - judged.any(axis=1).sum()
    assert 1e-3 < chi2.sf(statistic, freedom) < 1 - 1e-3
    np.testing.assert_allclose(seen.sum(axis=1) / seen.sum(), stationary_law(catalogue, profiles)[0], atol=0.005)


def test_genre_shares_are_those_of_the_closed_form():
    catalogue, profiles = build_catalogue(OSAFL, 1), draw_profiles(OSAFL, 40, 1)
    log = draw_requests(catalogue, profiles, 8000, 1, "train")[:, 100:]
    seen = np.stack([(log // 20 == genre).mean(axis=1) for genre in range(5)], axis=1)
    exact = genre_shares(profiles.preference)
    assert exact.max() <= 0.5
    visits = (1 - profiles.stay[:, None]) * log.shape[1]
    assert (np.abs(seen - exact) < 5 * np.sqrt(0.25 / visits)).all()


def test_first_request_is_drawn_by_preference():
    profiles = copies(SMALL, 4000, [0.7, 0.3, 0.0], 0.5)
    first = draw_requests(build_catalogue(SMALL, 1), profiles, 1, 1, "train")[:, 0] // 5
    np.testing.assert_allclose(np.bincount(first, minlength=3) / 4000, [0.7, 0.3, 0], atol=0.03)


@pytest.mark.parametrize("name", PRESETS)
def test_always_stay_and_never_stay(name):
    settings = PRESETS[name]
    catalogue, profiles = build_catalogue(settings, 1), draw_profiles(settings, 20, 1)
    genre = {
        stay: draw_requests(catalogue, profiles._replace(stay=np.full(20, stay)), 200, 1, "train")
        // settings.files_per_genre
        for stay in (0.0, 1.0)
    }
    assert (genre[1.0] == genre[1.0][:, :1]).all()
    assert (genre[0.0][:, 1:] != genre[0.0][:, :-1]).all()


@pytest.mark.parametrize("similar", [1, 2, 19])
def test_staying_never_repeats_the_file(similar):
    settings = replace(OSAFL, similar=similar)
    catalogue, profiles = build_catalogue(settings, 1), draw_profiles(settings, 20, 1)
    log = draw_requests(catalogue, profiles, 400, 1, "train")
    before, after = log[:, :-1], log[:, 1:]
    stayed = before // 20 == after // 20
    assert (before != after).all()
    assert (catalogue.similar[before[stayed]] == after[stayed][:, None]).any(axis=1).all()
    if similar == 1:
        assert (catalogue.similar[before[stayed], 0] == after[stayed]).all()


def test_rawhfl_asks_for_few_files():
    catalogue, profiles = build_catalogue(RAWHFL, 1), draw_profiles(RAWHFL, 48, 1)
    log = draw_requests(catalogue, profiles, 2000, 1, "train")
    assert 8 <= len(np.unique(log)) <= 60
    for user in range(3):
        assert ((transition_matrix(catalogue, profiles, user) > 0).sum(axis=1) <= 8).all()
    assert np.isin(log[:, 0], catalogue.popular[:, 0]).all()


def test_one_genre_numerically_certain():
    profiles = copies(SMALL, 300, [1.0, 0.0, 0.0], 0.5)
    genre = draw_requests(build_catalogue(SMALL, 1), profiles, 200, 1, "train") // 5
    assert (genre[:, 0] == 0).all()
    share = np.bincount(genre[:, 20:].ravel(), minlength=3) / genre[:, 20:].size
    np.testing.assert_allclose(share, genre_shares(profiles.preference)[0], atol=0.02)


def test_streams_of_earlier_users_and_requests_stay():
    """Neither more users, a longer sequence, nor another purpose touch what was drawn."""
    catalogue = build_catalogue(OSAFL, 1)
    few, many = (draw_profiles(OSAFL, n, 1) for n in (5, 30))
    short = draw_requests(catalogue, few, 300, 1, "train")
    assert (draw_requests(catalogue, many, 900, 1, "train")[:5, :300] == short).all()
    assert (draw_arrivals(many, 12, 1)[:8, :5] == draw_arrivals(few, 8, 1)).all()
    assert (draw_requests(catalogue, few, 300, 1, "test") != short).mean() > 0.5
    assert (draw_requests(catalogue, few, 300, 2, "train") != short).mean() > 0.5


@pytest.mark.parametrize("name", PRESETS)
def test_arrivals_are_binomial(name):
    profiles = draw_profiles(PRESETS[name], 60, 1)
    counts = draw_arrivals(profiles, 1500, 1)
    assert (counts <= profiles.slots).all()
    p, n = profiles.activity, profiles.slots
    error = np.sqrt(n * p * (1 - p) / 1500)
    np.testing.assert_array_less(np.abs(counts.mean(axis=0) - n * p), 4.5 * error)
    np.testing.assert_allclose(counts.var(axis=0), n * p * (1 - p), rtol=0.2)


def test_all_slots_reading():
    """`slots=32` for everybody is the other reading of the paper: a mean of `32 p` a round."""
    settings = replace(OSAFL, slots_by_activity=False, capacity=Law((640.0,)))
    assert (draw_profiles(settings, 10, 1).slots == 32).all()


def test_nobody_is_active():
    idle = Profiles(np.full((2, 3), 1 / 3), np.full(2, 0.5), np.zeros(2), np.zeros(2, np.int64), np.full(2, 9.0))
    assert draw_arrivals(idle, 4, 1).tolist() == [[0, 0]] * 4
