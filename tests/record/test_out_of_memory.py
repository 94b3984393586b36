"""A GPU that has no memory left in mid-run: a sentence, and a record that resumes bit for bit."""

import pytest
import torch
from small_config import SMALL

from fedcell import methods, record
from fedcell.errors import OutOfMemory
from fedcell.learn import memory
from fedcell.learn.buffers import Buffers
from fedcell.options import override

CONFIG = override(SMALL, {"rounds": 4})


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*") if path.name.startswith(("rounds", "checkpoint"))}


def failing(error):
    """FedAvg whose third round finds no memory, once."""
    method, calls = methods.parse("fedavg").build(), []

    def aggregate(*given):
        calls.append(1)
        if len(calls) == 3:
            raise error
        return method.aggregate(*given)

    return method._replace(aggregate=aggregate)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB.\nSee documentation"),
            r"the GPU ran out of memory \(CUDA out of memory\. Tried to allocate 8\.00 GiB\): let fewer runs share it.*"
            r"then resume with `fedcell\.record\.resume",
        ),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            r"the GPU ran out of memory \(CUDA error: CUBLAS_STATUS_ALLOC_FAILED.*\): let fewer runs share it",
        ),
        (OutOfMemory("there is no room for it: take less"), "there is no room for it: take less; then resume"),
    ],
)
def test_a_run_without_memory_is_interrupted_and_resumes(error, words, tmp_path):
    (whole,) = record.execute(CONFIG, [("mine", methods.parse("fedavg").build())], tmp_path / "whole")
    method = failing(error)
    with pytest.raises(OutOfMemory, match=words):
        record.execute(CONFIG, [("mine", method)], tmp_path / "run")
    (cut,) = record.read_all(tmp_path / "run")
    assert (cut.status.state, cut.status.rounds) == ("interrupted", 2)
    assert "then resume" in cut.status.message
    (done,) = record.resume(tmp_path / "run", methods=[("mine", method)])
    assert done.status.state == "finished"
    found, expected = bytes_of(done.folder), bytes_of(whole.folder)
    assert found["rounds.jsonl"] == expected["rounds.jsonl"]
    assert found["checkpoint-000004.safetensors"] == expected["checkpoint-000004.safetensors"]


def test_memory_of_the_machine_counts_alike(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1)
    with pytest.raises(OutOfMemory):
        Buffers().matrix(10**9, 10**9)
