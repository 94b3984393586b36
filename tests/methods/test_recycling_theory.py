"""Staleness, and the steps that recycled gradients bear: closed forms against polynomials and played schedules."""

import numpy as np
import pytest

from fedcell.methods.recycling import theory


def test_staleness_is_zero_or_one_more():
    assert theory.next_staleness(np.array([0, 4, 9]), np.array([True, False, True])).tolist() == [0, 5, 0]


def grows(step, ages):
    """Whether `w_{t+1} = w_t - step sum_j ages_j w_{t-j}` does, by the roots of its characteristic polynomial."""
    polynomial = np.r_[1.0, step * ages]
    polynomial[1] -= 1
    return np.abs(np.roots(polynomial)).max() > 1


@pytest.mark.parametrize("period", [1, 2, 3, 10, 50])
def test_steps_that_turns_bear(period):
    most, ages = theory.steps_in_turn(period), np.full(period, 1 / period)
    assert not grows(0.999 * most, ages)
    assert grows(1.001 * most, ages)


def in_turn(n_rounds, n_devices, n_heard):
    """Everyone in turns, `[n_rounds, n_devices]`."""
    return np.arange(n_rounds)[:, None] % (n_devices // n_heard) == np.arange(n_devices) // n_heard


@pytest.mark.parametrize(("n_devices", "n_heard"), [(100, 10), (20, 4), (6, 6)])
def test_a_played_schedule_bears_the_closed_form(n_devices, n_heard):
    most = theory.steps_in_turn(n_devices / n_heard)
    assert theory.steps_of(in_turn(600, n_devices, n_heard)) == pytest.approx(most, rel=0.02)


@pytest.mark.parametrize("heard", [np.ones((3, 4)), np.zeros((100, 4)), np.ones((0, 4))])
def test_a_schedule_that_says_nothing_is_refused(heard):
    with pytest.raises(ValueError, match=f"steps_of.. got {len(heard)} rounds in which {int(heard.sum())} uploads"):
        theory.steps_of(heard.astype(np.bool_))
    assert 0 < theory.steps_of(np.ones((4, 4), dtype=np.bool_)) < 100


def test_lots_bear_more_than_turns_and_less_than_in_the_mean():
    lots = np.random.default_rng(0).random((600, 100)).argsort(axis=1) < 10
    assert 20 * theory.steps_in_turn(10) < theory.steps_of(lots) < 2 * (2 - 0.1) / 0.1
