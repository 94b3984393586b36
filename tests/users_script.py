"""A script of a user, as `make check` reads it: mypy fails if a type is lost or an expected error is missing.

`type: ignore` stands where there must be an error: one that hides nothing is an error itself. Of the names below,
anything that is Any, or returns it, would pass as a function that makes a `Wrong`.
"""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
import torch

import fedcell
from fedcell.methods import fedavg


def script() -> None:
    data = fedcell.from_arrays(np.zeros((4, 3)), [0, 1, 0, 1], np.zeros((1, 3)), [1], owners=[0, 0, 1, 1])
    mine: fedcell.Method = fedavg.build(fedavg.Config())
    records = fedcell.run([("mine", mine), "fedavg"], "cell", {"rounds": 2}, dataset=data, model=torch.nn.Linear(3, 2))
    infos = fedcell.sweep("fedavg", seeds=[1, 2], model="net.py:wide", dataset=data)
    network = fedcell.load_model(records[0], device=3)
    assert_type(data, fedcell.Dataset)
    assert_type(records, list[fedcell.Record])
    assert_type(records[0].status.state, str)
    assert_type(records[0].columns["loss"], np.ndarray[tuple[Any, ...], np.dtype[Any]])
    assert_type(infos[0].totals.joule, float)
    assert_type(network, torch.nn.Module)
    assert_type(fedcell.compare(records).groups[0].label, str)
    assert_type(fedcell.report.text(records), str)
    print(fedcell.no_such_name)  # type: ignore[attr-defined]
    fedcell.run(rounds=3)  # type: ignore[call-arg]


class Wrong:
    """What nothing of fedcell is or makes."""


def every_public_name() -> Callable[..., Wrong]:
    wrong: Callable[..., Wrong]
    wrong = fedcell.Config  # type: ignore[assignment]
    wrong = fedcell.Dataset  # type: ignore[assignment]
    wrong = fedcell.Decision  # type: ignore[assignment]
    wrong = fedcell.Method  # type: ignore[assignment]
    wrong = fedcell.Problem  # type: ignore[assignment]
    wrong = fedcell.Record  # type: ignore[assignment]
    wrong = fedcell.Round  # type: ignore[assignment]
    wrong = fedcell.StreamingCache  # type: ignore[assignment]
    wrong = fedcell.build_problem  # type: ignore[assignment]
    wrong = fedcell.compare  # type: ignore[assignment]
    wrong = fedcell.explain_engine  # type: ignore[assignment]
    wrong = fedcell.export  # type: ignore[assignment]
    wrong = fedcell.from_arrays  # type: ignore[assignment]
    wrong = fedcell.from_huggingface  # type: ignore[assignment]
    wrong = fedcell.from_torch  # type: ignore[assignment]
    wrong = fedcell.load_model  # type: ignore[assignment]
    wrong = fedcell.read  # type: ignore[assignment]
    wrong = fedcell.resume  # type: ignore[assignment]
    wrong = fedcell.run  # type: ignore[assignment]
    wrong = fedcell.sweep  # type: ignore[assignment]
    wrong = fedcell.tune  # type: ignore[assignment]
    return wrong
