"""The bound behind scheduling by representativity, against the formula written out."""

import numpy as np

from fedcell.methods.representativity.theory import Constants, final_bound, round_bound


def test_one_local_step_of_everyone_leaves_the_noise_alone():
    constants = Constants(lr=0.1, steps=1, smoothness=2.0, noise=3.0, gradient=5.0)
    np.testing.assert_allclose(round_bound(constants, 0.0, 0.0), 2.0 * 0.1**2 * 3.0)
    np.testing.assert_allclose(round_bound(constants, 7.0, 0.0), 2.0 * 0.1**2 * (3.0 - 7.0 / 2))


def test_terms_of_a_round():
    rng = np.random.default_rng(1)
    for _ in range(50):
        lr, big_l, noise, chi, grad, gap = rng.uniform(0.01, 2, 6)
        tau = int(rng.integers(1, 9))
        step = big_l * lr**2
        printed = (
            -0.5 * step * grad + step * (tau - 1) ** 2 * chi + step * (2 * tau**2 - 2 * tau + 1) * noise + step * gap
        )
        np.testing.assert_allclose(round_bound(Constants(lr, tau, big_l, noise, chi), grad, gap), printed)


def test_bound_over_rounds_weighs_late_gaps_most():
    constants, a = Constants(lr=0.1, steps=3, smoothness=1.0, noise=0.2, gradient=1.0), 0.9
    gaps = [4.0, 1.0, 2.0]
    step = 0.01
    wanted = a**3 * 5.0 + sum(a ** (2 - t) * step * (constants.drift + gap) for t, gap in enumerate(gaps))
    np.testing.assert_allclose(final_bound(constants, 5.0, gaps, a)[-1], wanted)
    late, early = (final_bound(constants, 5.0, one, a)[-1] for one in ([0.0, 0.0, 9.0], [9.0, 0.0, 0.0]))
    assert late > early
    assert len(final_bound(constants, 5.0, [], a)) == 1


def test_rate_that_the_theorem_allows():
    assert Constants(0.5, 1, 2.0, 0.0, 0.0).hold()
    assert not Constants(0.6, 1, 2.0, 0.0, 0.0).hold()
