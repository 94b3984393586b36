"""`fedcell list` reads sources: it says what importing would say, and imports nothing heavy."""

import subprocess
import sys

import pytest

from fedcell import coding, methods, scenarios
from fedcell.cli import listing
from fedcell.learn import models
from fedcell.pieces import outline

HEAVY = {"torch", "scipy", "sklearn", "matplotlib", "rich", "pandas"}


@pytest.mark.parametrize("args", [["list"], ["list", "methods"], ["data", "list"]])
def test_lists_import_nothing_heavy(args):
    code = f"import sys; from fedcell.cli import main; main({args}); sys.exit(str({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout
    assert done.stderr == "set()\n"


def test_lists_are_those_of_the_modules():
    rows = {name: make()[1] for name, make in listing.SECTIONS.items()}
    assert rows["methods"] == [(name, methods.summary(methods.load(name))) for name in methods.names()]
    assert rows["codings"] == [(name, methods.summary(coding.load(name))) for name in coding.names()]
    assert rows["scenarios"] == [(name, scenarios.get(name).summary) for name in scenarios.names()]
    documented = [(name, (getattr(models, name).__doc__ or "").split("\n")[0]) for name in models.names()]
    assert rows["models"] == documented


def test_helpers_are_told_from_pieces_however_build_is_bound(tmp_path, monkeypatch):
    package = tmp_path / "some_pieces"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('nobody imports this')")
    texts = {
        "defined": '"""One."""\ndef build(config): ...',
        "imported": '"""Two.\n\nMore."""\nfrom elsewhere import Config, build',
        "assigned": "build = print",
        "helper": '"""None."""\nfrom elsewhere import build as other',
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    expected = {"assigned": ("", True), "defined": ("One.", True), "helper": ("None.", False)}
    expected |= {"imported": ("Two.", True)}
    assert outline("some_pieces") == [(name, *found) for name, found in expected.items()]
