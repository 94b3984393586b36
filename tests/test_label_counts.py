"""Counting labels against a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import labels
from fedcell.types import Store


@pytest.mark.parametrize("many", [0, 10**9])
@given(seed=st.integers(0, 10**6), full=st.booleans(), n_classes=st.sampled_from([3, 300, 70_000]))
def test_histograms_count_what_devices_hold(many, seed, full, n_classes):
    """Full stores and others, few labels and many, whatever bytes they take."""
    rng = np.random.default_rng(seed)
    n_devices, capacity = rng.integers(1, 5, 2)
    owned = rng.integers(0, n_classes, 20)
    owned[0] = n_classes - 1
    size = np.full(n_devices, capacity) if full else rng.integers(0, capacity + 1, n_devices)
    store = Store(rng.integers(0, 20, (n_devices, capacity)), size)
    expected = np.zeros((n_devices, n_classes), dtype=np.int64)
    for device in range(n_devices):
        for item in store.items[device, : size[device]]:
            expected[device, owned[item]] += 1
    before, labels.MANY = labels.MANY, many
    try:
        found = labels.histogram(store, owned, n_classes)
    finally:
        labels.MANY = before
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)
