"""How many cores a process takes."""

import os

import pytest

from fedcell.errors import BadInput
from fedcell.machine import cores


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
