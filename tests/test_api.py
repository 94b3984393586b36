"""`fedcell.run` from Python: what it takes, and what it says to what it cannot take."""

import re
import subprocess
import sys

import pytest
import torch

import fedcell
from fedcell import methods, report, scenarios
from fedcell.errors import BadInput
from fedcell.methods import fedavg

SMALL = {"rounds": 1, "world.n_devices": 4, "model.name": "logistic", "train.steps": 1}
FEDAVG = methods.parse("fedavg").build()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_one_text_is_one_method():
    (record,) = fedcell.run("fedavg:lr=0.1", settings=SMALL)
    assert record.label == "fedavg:lr=0.1"


def test_the_table_is_that_of_records_or_of_their_summaries():
    records = fedcell.run(["fedavg", ("mine", FEDAVG)], settings=SMALL)
    table = report.text(records)
    assert [line.split()[0] for line in table.splitlines()[2:4]] == ["fedavg", "mine"]
    assert table == report.text([report.summarise(one) for one in records])


@pytest.mark.parametrize("wrong", [FEDAVG, methods.load("fedavg"), None, ("mine",), ("mine", "fedavg"), (1, FEDAVG)])
def test_what_is_no_method_is_refused_with_the_fix(tmp_path, wrong):
    with pytest.raises(
        BadInput, match=r"(is no method to run|has no name): give a pair such as \(.*, Method\(\.\.\.\)\), or a text"
    ):
        fedcell.run([wrong], settings=SMALL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("osafl.steps", "osafl.steps: method 'osafl' is not part of this run: name it, or drop the setting"),
        ("fedprox.nu", "unknown key 'fedprox.nu': did you mean 'fedprox.mu'?"),
        ("scenario", "scenario = 1 is no setting: use --scenario 1, or scenario=1 in Python"),
        ("world.radus_m", "unknown key 'world.radus_m': did you mean 'world.radius_m'?"),
        ("qqqqqq", "unknown key 'qqqqqq' (fedcell list keys shows all)"),
    ],
)
def test_a_key_that_is_no_setting_says_what_to_write(key, words):
    with pytest.raises(BadInput, match=re.escape(words) + "$"):
        fedcell.run("fedprox", settings={key: 1})


def test_nested_settings_are_refused_with_the_dotted_key():
    with pytest.raises(BadInput, match=r"world holds settings of its own: write dotted keys .* as 'world\.radius_m'"):
        fedcell.run("fedavg", settings={"world": {"radius_m": 300}})


def test_a_key_of_a_method_is_that_of_its_text():
    by_key, by_text = (
        fedcell.run(text, settings=SMALL | more)[0]
        for text, more in (("fedprox", {"fedprox.mu": 0.5}), ("fedprox:mu=0.5", {}))
    )
    assert by_key.settings == by_text.settings
    assert by_key.settings["mu"] == 0.5
    assert by_key.columns["accuracy"].tolist() == by_text.columns["accuracy"].tolist()


def test_a_setting_in_the_text_wins_and_the_scenario_names_methods_and_their_settings():
    (record,) = fedcell.run("fedprox:mu=0.25", settings=SMALL | {"fedprox.mu": 0.5, "fedprox.lr": 0.2})
    assert (record.settings["mu"], record.settings["lr"]) == (0.25, 0.2)
    records = fedcell.run(scenario="blocks", settings=SMALL)
    assert [one.label for one in records] == list(scenarios.get("blocks").compare)


def test_a_method_is_read_and_begun_once_per_run(monkeypatch):
    calls = []

    def counted(name, function):
        def call(*arguments):
            calls.append(name)
            return function(*arguments)

        return call

    monkeypatch.setattr(fedavg, "Config", counted("read", fedavg.Config))
    monkeypatch.setattr(fedavg, "build", lambda config: FEDAVG._replace(init=counted("begin", FEDAVG.init)))
    fedcell.run(["fedavg", "fedavg:lr=0.2"], settings=SMALL)
    assert sorted(calls) == ["begin", "begin", "read", "read"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"methods": 5}, "an int is no method to run"),
        ({"methods": {"fedavg": 1}}, "methods is a dict: give a text such as 'fedavg', or a list of them"),
        ({"methods": FEDAVG}, "a Method has no name: give a pair such as ('mine', Method(...))"),
        ({"settings": ["rounds=1"]}, "settings is a list, not a dict: write it as {'rounds': 30}"),
        ({"settings": {1: 2}}, "settings has the key 1, an int: write texts as keys, as in {'rounds': 30}"),
        ({"scenario": None}, "scenario is None: give the name of a preset, such as 'cell'"),
        ({"out": 3}, "out is 3, an int: give a folder, such as 'runs/mine'"),
        ({"out": ""}, "out is '', a str: give a folder"),
        ({"watch": None}, "watch is None: give a function"),
        ({"say": "loud"}, "say is 'loud', a str: give a function"),
        ({"failed": 5}, "failed is 5, an int: give a function"),
        ({"checkpoint_s": "often"}, "checkpoint_s is 'often', a str: give a number of seconds"),
        ({"checkpoint_s": -1}, "checkpoint_s is -1, an int: give a number of seconds"),
        ({"log": [5]}, "log is [5], a list: give a text such as 'tensorboard=boards'"),
        ({"model": torch.nn.Linear}, "model is the class Linear: give a torch.nn.Module that is built"),
        ({"dataset": ([1], [2])}, "dataset is a tuple: make one with fedcell.from_arrays"),
    ],
)
def test_arguments_of_another_kind_are_refused(tmp_path, arguments, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        fedcell.run(**{"methods": "fedavg", "settings": SMALL, **arguments})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fedcell.sweep("fedavg", settings=SMALL, out=5), "out is 5, an int: give a folder"),
        (lambda: fedcell.sweep("fedavg", settings=SMALL, workers="two"), "workers is 'two', a str: give a whole"),
        (lambda: fedcell.sweep("fedavg", settings=SMALL, watch=5), "watch is 5, an int: give a function"),
        (lambda: fedcell.sweep("fedavg", settings=SMALL, log=5), "log is 5, an int: give a text"),
        (lambda: fedcell.sweep("fedavg", settings=SMALL, seeds=[1, None]), "seeds is [1, None]: give one or more"),
        (lambda: fedcell.read(5), "folder is 5, an int: give a folder"),
        (lambda: fedcell.resume(None), "folder is None: give a folder"),
        (lambda: fedcell.resume("done", methods=["fedavg"]), "methods is a list without labels: give pairs such as"),
        (lambda: fedcell.resume("done", methods=5), "methods is an int without labels: give pairs such as"),
        (lambda: fedcell.resume("done", watch=5), "watch is 5, an int: give a function"),
        (lambda: fedcell.compare(5), "runs is an int: give a folder, a record, or a list of them"),
        (lambda: fedcell.compare(["done"], targets=0.9), "targets is 0.9, a float: give a list of numbers"),
        (lambda: fedcell.compare(["done"], targets=["high"]), "targets is ['high'], a list: give a list of numbers"),
        (lambda: fedcell.compare(["done"], against=5), "against is 5, an int: give a text"),
        (lambda: fedcell.compare(["done"], only="fedavg"), "only is 'fedavg', a str: give a list of texts"),
        (lambda: fedcell.compare(["done"], confidence="high"), "confidence is 'high', a str: give a number"),
        (lambda: fedcell.load_model(5), "folder is 5, an int: give a folder"),
        (lambda: fedcell.load_model("done/fedavg", device="first"), "device is 'first', a str: give a whole number"),
        (lambda: fedcell.export("done/fedavg", 5), "to is 5, an int: give the path of a file"),
        (lambda: fedcell.build_problem("cell"), "config is a str: give a fedcell.Config"),
        (lambda: report.text(["done"]), "runs is ['done'], a list: give a list of records"),
        (lambda: report.save(5, "done.png"), "records is 5, an int: give a list of records"),
        (lambda: fedcell.tune(5, until="loss=1", search={}, out="new"), "method is 5, an int: give a text"),
        (lambda: fedcell.tune("fedavg", until="loss=1", search=5, out="new"), "search is an int, not a dict"),
        (lambda: fedcell.tune("fedavg", until="loss=1", search={}, seeds=5, out="new"), "seeds is 5, an int"),
        (lambda: fedcell.tune("fedavg", until="loss=1", search={}, trials="many", out="new"), "trials is 'many'"),
        (lambda: fedcell.tune("fedavg", until="loss=1", search={}, out=5), "out is 5, an int: give a folder"),
    ],
)
def test_arguments_of_another_kind_are_refused_everywhere(tmp_path, call, words):
    fedcell.run("fedavg", settings=SMALL, out="done")
    with pytest.raises(BadInput, match=re.escape(words)):
        call()
    assert [path.name for path in tmp_path.iterdir()] == ["done"]


def test_a_setting_that_changes_nothing_is_a_warning():
    with pytest.warns(UserWarning, match=r"world\.n_blocks = 3 changes nothing while world\.access = fdma"):
        fedcell.run("fedavg", settings={**SMALL, "world.n_blocks": 3})


@pytest.mark.parametrize("first", ["gc", "torch"])
def test_a_run_needs_no_slow_imports(tmp_path, first):
    """Packages that take longer to import than a small run are left to those who need them.

    Nobody looks for garbage, again and again, among what PyTorch makes when it is imported; afterwards Python does.
    """
    code = (
        f"import {first}\n"
        "import gc, sys, fedcell\n"
        "looked = []\n"
        "gc.callbacks.append(lambda phase, info: looked.append(info['generation']))\n"
        "run = fedcell.run\n"
        "print('torch' in sys.modules, looked, gc.isenabled(), gc.get_freeze_count())\n"
        "run('fedavg', settings={'rounds': 1, 'world.n_devices': 5}, out=sys.argv[1])\n"
        "print({'numpy.ma', 'scipy', 'sklearn', 'torch._dynamo', 'matplotlib', 'pandas'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["True [] True 0", "set()"]


# ---------------------------------------------------------------- reading


def test_reading_a_comparison_as_one_run_names_its_runs():
    fedcell.run("fedavg", settings=SMALL, out="both")
    with pytest.raises(BadInput, match=r"both is a comparison: read one of its runs, such as both/fedavg, or all"):
        fedcell.read("both")
    with pytest.raises(BadInput, match="gone is no folder"):
        fedcell.read("gone")


def test_a_column_that_is_not_there_is_refused_and_one_not_measured_yet_is_not():
    (record,) = fedcell.run("fedavg", settings=SMALL | {"rounds": 3, "eval_every": 3})
    assert list(fedcell.read(record.folder, ["accuracy", "clock_s"]).columns) == ["clock_s", "accuracy"]
    with pytest.raises(BadInput, match=r"has no column 'acuracy': did you mean 'accuracy'\? \(it has round, "):
        fedcell.read(record.folder, ["clock_s", "acuracy"])
    rows = record.folder / "rounds.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:1]))
    assert list(fedcell.read(record.folder, ["clock_s", "accuracy"]).columns) == ["clock_s"]


def test_comparing_nothing_is_said():
    with pytest.raises(BadInput, match="no run was given to compare"):
        fedcell.compare([])
