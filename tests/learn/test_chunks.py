"""Cohorts in pieces: sizes from the memory of a GPU, of which these tests only have the number."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcell.learn import deferred
from fedcell.learn.engines.gpu import chunks
from fedcell.learn.engines.gpu.cuda_graphs import Replays
from fedcell.learn.optimiser import Adam, Optimiser
from fedcell.learn.scoring import Scoring

ROW_BYTES = 4 * (chunks.COPIES * 100 + chunks.ACTIVATIONS * 10 * 5)


class Network:
    def __init__(self, n_params):
        self.n_params = n_params


@pytest.fixture
def job():
    return SimpleNamespace(
        device=torch.device("cuda"),
        architecture=Network(100),
        samples=SimpleNamespace(shape=(5,)),
        work=SimpleNamespace(batch_size=10, optimiser=Optimiser()),
        replays=Replays(),
    )


def sizes(job, n_rows, fails_above=np.inf, error=torch.cuda.OutOfMemoryError):
    """Rows of the groups that were trained."""
    seen = []

    def train(rows):
        if len(rows) > fails_above:
            raise error
        seen.append(rows)

    chunks.in_chunks(job, np.arange(n_rows), train)
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(n_rows))
    return [len(rows) for rows in seen]


def free(monkeypatch, rows):
    """So much free memory that a cohort of `rows` may be trained."""
    monkeypatch.setattr(chunks, "free_bytes", lambda device: int(rows * ROW_BYTES / chunks.SHARE) + 1)


def test_groups_are_as_large_as_memory_allows_and_equal(job, monkeypatch):
    free(monkeypatch, 40)
    assert sizes(job, 100) == [34, 33, 33]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
    ],
)
def test_libraries_that_find_no_memory_halve_groups_too(job, monkeypatch, error):
    free(monkeypatch, 40)
    assert sizes(job, 40, fails_above=20, error=error) == [20, 20]


def test_other_errors_are_not_taken_for_a_full_gpu(job, monkeypatch):
    free(monkeypatch, 40)
    with pytest.raises(RuntimeError, match="must match"):
        sizes(job, 40, fails_above=20, error=RuntimeError("The size of tensor a (3) must match"))


def test_averages_of_adamw_take_room(job, monkeypatch):
    free(monkeypatch, 40)
    job.work.optimiser = Optimiser(adam=Adam())
    assert max(sizes(job, 100)) < 33


def test_later_rounds_keep_their_groups_though_less_is_free(job, monkeypatch):
    free(monkeypatch, 40)
    first = sizes(job, 100)
    free(monkeypatch, 3)  # the rest lies with the cohorts that wait
    assert sizes(job, 100) == first


def test_a_guess_that_was_too_bold_is_halved_for_good(job, monkeypatch):
    free(monkeypatch, 100)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    assert sizes(job, 100, fails_above=30) == [25] * 4
    tried = []
    chunks.in_chunks(job, np.arange(100), tried.append)
    assert [len(rows) for rows in tried] == [25] * 4


def test_one_row_that_does_not_fit_is_an_error_after_all_was_given_up(job, monkeypatch):
    free(monkeypatch, 1)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    job.replays._kept["another round"] = object()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        sizes(job, 2, fails_above=0)
    assert not job.replays._kept


def test_cohorts_that_wait_are_given_up_for_the_one_that_trains(job, monkeypatch):
    """Another process took memory since the first round: what waits goes first, and a single row is tried again."""
    free(monkeypatch, 10)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    assert sizes(job, 10) == [10]
    job.replays._kept["another round"] = object()
    seen = []

    def train(rows):
        if job.replays._kept or len(rows) > 1:
            raise torch.cuda.OutOfMemoryError
        seen.extend(rows)

    chunks.in_chunks(job, np.arange(3), train)
    assert seen == [0, 1, 2]
    tries = []

    def once(rows):
        tries.append(len(rows))
        if len(tries) == 1:
            raise torch.cuda.OutOfMemoryError

    chunks.in_chunks(job, np.arange(1), once)
    assert tries == [1, 1]


def test_a_run_takes_no_more_than_it_was_given(job, monkeypatch):
    free(monkeypatch, 100)
    job.replays = Replays(20 * ROW_BYTES / chunks.SHARE + 1)
    assert sizes(job, 100) == [20] * 5
    monkeypatch.setattr(deferred, "gpu_free_bytes", lambda device: 40 << 30)
    cuda = torch.device("cuda")
    assert deferred.block_bytes(cuda) == deferred.GPU_BLOCK_BYTES
    assert deferred.block_bytes(cuda, 4 << 30) == 1 << 30
    monkeypatch.setattr(deferred, "gpu_free_bytes", lambda device: (5 << 30) + 12345)
    assert deferred.block_bytes(cuda) == 1 << 30, "a little more or less free changes nothing"
    assert deferred.block_bytes(torch.device("cpu")) == deferred.BLOCK_BYTES


def test_an_evaluation_that_does_not_fit_is_halved(small, monkeypatch):
    problem = small()
    learner, params = problem.learner, problem.learner.initial()
    expected, scores, seen = learner.evaluate(params), Scoring._scores, []

    def tight(self, samples, index):
        if len(index) > 100:
            raise torch.cuda.OutOfMemoryError
        seen.append(len(index))
        return scores(self, samples, index)

    monkeypatch.setattr(Scoring, "_scores", tight)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(learner._scoring, "_at_once", 0)
    monkeypatch.setattr(learner._scoring, "_shared", False)  # as on a GPU
    found = learner.evaluate(params)
    assert found == pytest.approx(expected)
    assert sum(seen) == len(learner.test_samples)
    seen.clear()
    assert learner.evaluate(params) == pytest.approx(found)
    assert max(seen) <= 100

    def never(self, samples, index):
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(Scoring, "_scores", never)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        learner.evaluate(params)


@given(n=st.integers(1, 500), most=st.integers(0, 600))
def test_equal_parts(n, most):
    parts = chunks.equal_parts(np.arange(n), most)
    lengths = [len(part) for part in parts]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(n))
    assert max(lengths) <= max(most, 1)
    assert max(lengths) - min(lengths) <= 1
