"""Samples stay where they are, and batches come as convolutions like them."""

import numpy as np
import pytest
import torch

from fedcell import from_arrays
from fedcell.errors import BadInput
from fedcell.learn.samples import Samples

CPU = torch.device("cpu")


@pytest.mark.parametrize("shape", [(3, 5, 4), (1, 5, 4), (7,), (2, 6)])
def test_nothing_is_copied_on_a_cpu(shape):
    x = np.random.default_rng(0).standard_normal((20, *shape), dtype=np.float32)
    data = from_arrays(x, np.arange(20) % 4, x[:5], np.arange(5) % 4)
    samples = Samples(data.x_train, data.y_train, CPU)
    x[3] += 1  # nobody does; it shows where samples lie
    taken, labels = samples.take(np.array([3, 0, 3]))
    np.testing.assert_array_equal(taken.numpy(), x[[3, 0, 3]])
    assert labels.tolist() == [3, 0, 3]
    assert samples.shape == shape
    assert len(samples) == 20
    if len(shape) == 3:
        assert taken.is_contiguous(memory_format=torch.channels_last)


def test_samples_may_lie_in_a_file_that_is_only_read(tmp_path, recwarn):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.save(tmp_path / "x.npy", x)
    lying = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = from_arrays(lying, [0, 1, 0, 1], x, [0, 1, 0, 1])
    samples = Samples(data.x_train, data.y_train, CPU)
    np.testing.assert_array_equal(samples.take(np.arange(4))[0].numpy(), x)
    assert not recwarn.list


@pytest.mark.parametrize("place", [(0, 1), (700_000, 0)])
def test_values_that_are_not_finite_are_found_wherever_they_are(place):
    x = np.zeros((800_000, 2), dtype=np.float32)
    x[place] = np.inf
    with pytest.raises(BadInput, match=rf"x_train of 'arrays' holds inf at \[{place[0]}, {place[1]}\]"):
        from_arrays(x, np.zeros(len(x), dtype=int), x[5:6], [0])
