"""Exact consequences of the request law: transitions, long-run shares, and the best accuracy and loss there can be.

A user's sequence is a Markov chain on the files. Let `e` be the stay probability, `S` the law of similar files,
`z` the popularity law and `p_g' / (1 - p_g)` the law of leaving genre `g`:

    P[f -> f'] = e S[f, f']                              in the same genre
               = (1 - e) p_g' / (1 - p_g) z(rank of f')  in another genre g'

Every predictor that knows the last request and the user is bounded by these numbers; a trained model that beats
them by more than the error of its test set has seen what it should not.

Reference: none of the papers has these; derived from osafl, Algorithm 5, and rawhfl, section II-B
"""

import numpy as np

from ...errors import BadInput
from ...types import Floats
from .catalogue import Catalogue
from .users import Profiles, leave_law


def transition_matrix(catalogue: Catalogue, profiles: Profiles, user: int) -> Floats:
    """The exact `P` of one user, `[n_files, n_files]`; rows sum to one."""
    stay = profiles.stay[user]
    leave = leave_law(profiles.preference[user : user + 1])[0]
    genre = np.arange(catalogue.n_files) // catalogue.per_genre
    exploring = leave[genre][:, genre] * _arrival(catalogue)
    exploiting = np.zeros_like(exploring)
    np.put_along_axis(exploiting, catalogue.similar, catalogue.similar_share, axis=1)
    return stay * exploiting + (1 - stay) * exploring


def genre_shares(preference: Floats) -> Floats:
    """Long-run share of each genre, proportional to `p_g (1 - p_g)` whatever the stay probability.

    No share exceeds one half, because exploring always leaves the genre.

    >>> genre_shares(np.array([[0.8, 0.2, 0.0], [1.0, 0.0, 0.0]])).round(2).tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]]

    Args:
        preference: `[n_users, n_genres]`.

    Returns: `[n_users, n_genres]`.
    """
    n_genres = preference.shape[1]
    rest = np.where(np.eye(n_genres, dtype=bool), 0.0, preference[:, None, :]).sum(axis=2)
    weight = preference * rest
    total = weight.sum(axis=1, keepdims=True)
    one_genre = np.where(preference == preference.max(axis=1, keepdims=True), 0.5, 0.5 / (n_genres - 1))
    return np.where(total > 0, weight / np.where(total > 0, total, 1.0), one_genre)


def stationary_law(catalogue: Catalogue, profiles: Profiles) -> Floats:
    """Long-run share of each file for each user, `[n_users, n_files]`.

    A visit to a genre begins at rank `z` and continues with probability `e`: `pi_g = (1 - e) s_g z (I - e S_g)^-1`
    with `s_g` the genre's share.
    """
    if (profiles.stay >= 1).any():
        raise BadInput("video.stay = 1 never leaves the first genre: there is no one long-run law, keep it below 1")
    n = catalogue.per_genre
    within = np.zeros((catalogue.n_files, n))
    np.put_along_axis(within, catalogue.similar % n, catalogue.similar_share, axis=1)
    step = within.reshape(-1, n, n).transpose(0, 2, 1)  # [G, n, n], transposed
    stay = profiles.stay[:, None, None, None]
    begin = genre_shares(profiles.preference)[:, :, None] * _arrival(catalogue).reshape(-1, n)
    visits = np.linalg.solve(np.eye(n) - stay * step, (1 - stay) * begin[..., None])
    return np.asarray(visits.reshape(profiles.n_users, -1), dtype=np.float64)


def bayes_accuracy(catalogue: Catalogue, profiles: Profiles) -> Floats:
    """Accuracy of the best predictor for each user, `[n_users]`.

    In state `(g, f)` it is `max(e max S[f], (1 - e) max_g' p_g' / (1 - p_g) max z)`, averaged over the long run.
    """
    stay = profiles.stay[:, None]
    exploit = stay * catalogue.similar_share.max(axis=1)
    leave = leave_law(profiles.preference).max(axis=2).repeat(catalogue.per_genre, axis=1)
    best = np.maximum(exploit, (1 - stay) * leave * catalogue.popularity.max())
    return (stationary_law(catalogue, profiles) * best).sum(axis=1)


def most_similar_accuracy(catalogue: Catalogue, profiles: Profiles) -> Floats:
    """Accuracy of always naming the most similar file, for each user, `[n_users]`."""
    share = stationary_law(catalogue, profiles) @ catalogue.similar_share.max(axis=1)
    return profiles.stay * share


def top_accuracy(catalogue: Catalogue, profiles: Profiles, m: int) -> Floats:
    """How often the next file is among the `m` most probable ones, for each user, `[n_users]`."""
    law = stationary_law(catalogue, profiles)
    out = np.empty(profiles.n_users)
    for user in range(profiles.n_users):
        ordered = np.sort(transition_matrix(catalogue, profiles, user), axis=1)
        out[user] = law[user] @ ordered[:, -m:].sum(axis=1)
    return out


def loss_floor(catalogue: Catalogue, profiles: Profiles) -> Floats:
    """Smallest mean cross-entropy in nats for each user, `[n_users]`.

    The conditional entropy `h(e) + e H(S) + (1 - e) (H(g' | g) + H(z))`.
    """
    from scipy.special import entr  # slow to import, and few runs need it

    stay = profiles.stay
    similar = stationary_law(catalogue, profiles) @ entr(catalogue.similar_share).sum(axis=1)
    genre = (genre_shares(profiles.preference) * entr(leave_law(profiles.preference)).sum(axis=2)).sum(axis=1)
    coin = entr(stay) + entr(1 - stay)
    return np.asarray(coin + stay * similar + (1 - stay) * (genre + entr(catalogue.popularity).sum()))


def most_requested_share(catalogue: Catalogue, profiles: Profiles) -> float:
    """Long-run share of the file that all users together ask for most: the accuracy of always naming it."""
    return float(stationary_law(catalogue, profiles).mean(axis=0).max())


def _arrival(catalogue: Catalogue) -> Floats:
    """Probability of each file, given that its genre is entered, `[n_files]`."""
    out = np.empty(catalogue.n_files)
    out[catalogue.popular] = catalogue.popularity
    return out
