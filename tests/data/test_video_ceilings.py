"""Ceilings: against the exact matrix, against what sequences do, and against the numbers of the papers."""

from dataclasses import replace

import numpy as np
import pytest

from fedcell.data.video import (
    OSAFL,
    RAWHFL,
    VideoConfig,
    bayes_accuracy,
    build_catalogue,
    draw_profiles,
    draw_requests,
    genre_shares,
    loss_floor,
    most_requested_share,
    most_similar_accuracy,
    stationary_law,
    top_accuracy,
    transition_matrix,
)
from fedcell.errors import BadInput
from fedcell.options import Law

SMALL = VideoConfig(n_genres=3, files_per_genre=5, content="uniform", content_width=8, similar=2, stay=Law((0.2,)))
SEEDS = range(1, 9)


def worlds(settings, n_users):
    return [(build_catalogue(settings, seed), draw_profiles(settings, n_users, seed)) for seed in SEEDS]


@pytest.mark.parametrize("settings", [SMALL, OSAFL, replace(OSAFL, similar=3), RAWHFL])
def test_closed_forms_agree_with_the_matrix(settings):
    catalogue, profiles = build_catalogue(settings, 3), draw_profiles(settings, 4, 3)
    law = stationary_law(catalogue, profiles)
    np.testing.assert_allclose(law.sum(axis=1), 1)
    by_genre = law.reshape(4, settings.n_genres, -1).sum(axis=2)
    np.testing.assert_allclose(by_genre, genre_shares(profiles.preference), atol=1e-12)
    accuracy, floor = bayes_accuracy(catalogue, profiles), loss_floor(catalogue, profiles)
    for user in range(4):
        exact = transition_matrix(catalogue, profiles, user)
        np.testing.assert_allclose(law[user] @ exact, law[user], atol=1e-12)
        assert accuracy[user] == pytest.approx(law[user] @ exact.max(axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nansum(exact * np.log(exact), axis=1)
        assert floor[user] == pytest.approx(law[user] @ entropy)
    np.testing.assert_allclose(top_accuracy(catalogue, profiles, 1), accuracy)
    assert (np.diff([top_accuracy(catalogue, profiles, m).mean() for m in (1, 2, 4)]) > 0).all()


def test_ceilings_of_the_osafl_preset():
    """Spec: 0.64-0.66 and 0.32-0.34, floors 1.79 and 2.24, most requested 0.056 and 0.042; they move with the draw."""
    for similar, ceiling, floor, share in ((1, 0.65, 1.79, 0.056), (2, 0.33, 2.24, 0.042)):
        drawn = worlds(replace(OSAFL, similar=similar, scaling="unit"), 100)
        assert np.mean([bayes_accuracy(*world).mean() for world in drawn]) == pytest.approx(ceiling, abs=0.01)
        assert np.mean([loss_floor(*world).mean() for world in drawn]) == pytest.approx(floor, abs=0.06)
        assert np.mean([most_requested_share(*world) for world in drawn]) == pytest.approx(share, abs=0.008)


def test_scaled_content_moves_the_most_requested_file_and_hardly_the_ceilings():
    """Bright pictures are near to all others in [0, 1], so that one file of a genre is asked for more often."""
    unit, half = (worlds(replace(OSAFL, scaling=scaling), 100) for scaling in ("unit", "half"))
    for ceiling, near in ((bayes_accuracy, 0.01), (loss_floor, 0.06)):
        found = [np.mean([ceiling(*world).mean() for world in drawn]) for drawn in (unit, half)]
        assert found[0] == pytest.approx(found[1], abs=near)
    assert all(most_requested_share(*a) > most_requested_share(*b) + 0.005 for a, b in zip(unit, half, strict=True))


@pytest.mark.parametrize(("skew", "shift", "floors"), [(0.6, 2, (1.87, 2.32)), (1.2, 0, (1.65, 2.10))])
def test_popularity_moves_the_loss_floor(skew, shift, floors):
    for similar, floor in zip((1, 2), floors, strict=True):
        drawn = worlds(replace(OSAFL, similar=similar, skew=skew, shift=shift), 100)
        assert np.mean([loss_floor(*world).mean() for world in drawn]) == pytest.approx(floor, abs=0.06)


@pytest.mark.parametrize(
    ("stay", "similar", "bayes", "spread", "popular"),
    [("0.3", 0.300, 0.412, 0.086, 0.11), ("0.7", 0.700, 0.700, 0.0, 0.08), ("0.1..0.8", 0.45, 0.550, 0.139, 0.10)],
)
def test_ceilings_of_the_rawhfl_preset(stay, similar, bayes, spread, popular):
    drawn = worlds(replace(RAWHFL, stay=Law.parse(stay)), 48)
    best = [bayes_accuracy(*world) for world in drawn]
    assert np.mean([most_similar_accuracy(*world).mean() for world in drawn]) == pytest.approx(similar, abs=0.02)
    assert np.mean(best) == pytest.approx(bayes, abs=0.02)
    assert np.mean([accuracy.std() for accuracy in best]) == pytest.approx(spread, abs=0.012)
    assert np.mean([most_requested_share(*world) for world in drawn]) == pytest.approx(popular, abs=0.015)


def test_eight_guesses_are_always_enough():
    catalogue, profiles = build_catalogue(RAWHFL, 1), draw_profiles(RAWHFL, 12, 1)
    np.testing.assert_allclose(top_accuracy(catalogue, profiles, 8), 1)
    assert top_accuracy(catalogue, profiles, 7).mean() < 1


def test_sequences_meet_the_ceilings():
    catalogue, profiles = build_catalogue(OSAFL, 1), draw_profiles(OSAFL, 100, 1)
    log = draw_requests(catalogue, profiles, 1100, 1, "test")[:, 100:]
    right = catalogue.similar[log[:, :-1], 0] == log[:, 1:]
    assert right.mean() == pytest.approx(most_similar_accuracy(catalogue, profiles).mean(), abs=0.005)
    assert right.mean() == pytest.approx(bayes_accuracy(catalogue, profiles).mean(), abs=0.005)
    top = np.bincount(log.ravel()).max() / log.size
    assert top == pytest.approx(most_requested_share(catalogue, profiles), abs=0.008)


def test_no_long_run_law_without_exploring():
    catalogue, profiles = build_catalogue(SMALL, 1), draw_profiles(SMALL, 2, 1)
    with pytest.raises(BadInput, match="keep it below 1"):
        stationary_law(catalogue, profiles._replace(stay=np.ones(2)))
