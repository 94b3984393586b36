"""Rows and checks that the tests of all codings share."""

import numpy as np
import torch
from hypothesis import strategies as st

from fedcell import coding
from fedcell.options import override

ENTRY = st.floats(-1e6, 1e6, width=32)
ROWS = st.lists(ENTRY, min_size=1, max_size=60)


def made(name, **settings):
    module = coding.load(name)
    return module.build(override(module.Config(), settings))


def generator(seed=0):
    return np.random.default_rng(seed)


def as_row(values):
    return torch.tensor(values, dtype=torch.float32)


def through(code, row, seed=0):
    """What the server gets of a row."""
    return code.decode(code.encode(row, generator(seed)), len(row))


def check_feedback(code, rows):
    """Over rounds, what was sent and what is kept are all updates, up to the rounding of the sums."""
    updates = as_row(rows)
    kept, sent = torch.zeros_like(updates[0]), torch.zeros_like(updates[0]).double()
    largest = 0.0
    for round, update in enumerate(updates):
        u = update + kept
        got = through(code, u, round)
        kept, sent = u - got, sent + got.double()
        largest += float(u.abs().double().sum() + got.abs().double().sum())
    torch.testing.assert_close(sent + kept.double(), updates.double().sum(dim=0), rtol=0, atol=1e-6 * largest + 1e-30)
