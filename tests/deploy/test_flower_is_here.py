"""Says why the tests of the Flower federation are missing from a run."""

import os
from importlib.util import find_spec

import pytest


def test_flower_is_installed():
    if find_spec("flwr") is None and "FEDCELL_REQUIRE_FLOWER" not in os.environ:
        pytest.skip("needs fedcell[flower]: the tests of the federation are left out")
    assert find_spec("flwr") is not None
