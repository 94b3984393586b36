"""How many cores a process takes, and how many threads its workers have."""

import os
import time

import pytest
import torch

from fedcell import machine
from fedcell.errors import BadInput
from fedcell.machine import cores, for_each


def test_cores_are_those_of_the_process_or_fewer(monkeypatch):
    monkeypatch.delenv("FEDCELL_CORES", raising=False)
    given = cores()
    assert 1 <= given <= (os.cpu_count() or 1)
    monkeypatch.setenv("FEDCELL_CORES", "1")
    assert cores() == 1
    monkeypatch.setenv("FEDCELL_CORES", "100000")
    assert cores() == given


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_what_is_no_number_of_cores(monkeypatch, text):
    monkeypatch.setenv("FEDCELL_CORES", text)
    with pytest.raises(BadInput, match=f"FEDCELL_CORES = '{text}' is no number of cores"):
        cores()


def test_workers_stay_single_threaded_whatever_the_main_thread_does_meanwhile():
    """PyTorch gives a thread, at its first kernel, the number that any thread has set last."""
    before = torch.get_num_threads()
    machine._pool.cache_clear()
    try:
        for_each(lambda part: time.sleep(0.05), range(3), 3)  # threads that have not run a kernel yet
        torch.set_num_threads(4)
        found = []
        for_each(lambda part: found.append(torch.get_num_threads()) or time.sleep(0.05), range(3), 3)
        assert found == [1, 1, 1]
        assert torch.get_num_threads() == 4, "that of the main thread is its own"
    finally:
        torch.set_num_threads(before)
        machine._pool.cache_clear()
