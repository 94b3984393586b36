"""`py.typed` is true: `make check` holds mypy to the script of a user, which uses every public name."""

import re
import tomllib
from pathlib import Path

import fedcell

SCRIPT = Path(__file__).with_name("users_script.py")


def test_types_are_shipped_and_the_script_is_checked():
    assert Path(fedcell.__file__).with_name("py.typed").exists()
    settings = tomllib.loads((SCRIPT.parents[1] / "pyproject.toml").read_text())["tool"]["mypy"]
    assert f"tests/{SCRIPT.name}" in settings["files"]
    assert settings["strict"], "which makes an ignored error that is not there an error"


def test_no_public_name_is_left_out():
    held = re.findall(r"wrong = fedcell\.(\w+)  # type: ignore\[assignment\]", SCRIPT.read_text())
    assert {*held, "report", "__version__"} == set(fedcell.__all__)
