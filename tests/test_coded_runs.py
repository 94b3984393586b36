"""Methods with a coding at the front door: command line, Python, sweeps, records, resuming, comparing."""

import json
from pathlib import Path

import pytest

import fedcell
from fedcell import methods, record, scenarios
from fedcell.cli import main
from fedcell.coding import topk
from fedcell.errors import FedcellError
from fedcell.methods import fedavg
from fedcell.methods.parts.coded import coded
from fedcell.record.index import find
from fedcell.resolve import resolve
from fedcell.sweeps import plan
from fedcell.web.settings import method_table

SMALL = {"rounds": 3, "world.n_devices": 4, "model.name": "logistic", "train.steps": 1}
FLAGS = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
TEXT = "fedavg+topk:fraction=0.05,scheduler=random,n_selected=3"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def settings_of(methods, settings):
    found = resolve(scenarios.get("cell"), methods, settings)
    return {choice.label: choice.config for choice in found.methods}


def test_a_record_knows_both_and_reads_back():
    (found,) = fedcell.run(TEXT, settings=SMALL, out="o")
    assert found.label == found.method == TEXT
    assert found.settings["fraction"] == 0.05
    assert found.settings["n_selected"] == 3
    assert json.loads((found.folder / "run.json").read_text())["source"] == "fedavg+topk"
    assert record.read(found.folder).label == TEXT


def test_by_text_and_by_function_are_one():
    mine = coded(fedavg.build(fedavg.Config()), topk.build(topk.Config(fraction=0.05)), "fedavg")
    text, function = fedcell.run(["fedavg+topk:fraction=0.05", ("mine", mine)], settings=SMALL, out="o")
    for name in ("accuracy", "uplink_bit", "radio_joule"):
        assert text.columns[name].tolist() == function.columns[name].tolist()


def test_keys_of_the_method_of_the_coding_and_of_the_pair():
    found = settings_of(
        ["fedavg", "fedavg+topk", "fedprox+topk:fraction=0.5"],
        {"fedavg.lr": 0.3, "topk.fraction": 0.2, "fedavg+topk.steps": 7},
    )
    plain, pair, other = found.values()
    assert (plain.lr, plain.steps) == (0.3, None)
    assert (pair.lr, pair.steps, pair.fraction) == (0.3, 7, 0.2)
    assert (other.lr, other.fraction) == (None, 0.5), "a setting in the text wins"
    both = settings_of(["fedavg+topk"], {"fedavg+topk.lr": 0.1, "fedavg.lr": 0.3})
    assert both["fedavg+topk"].lr == 0.1, "the key of the pair wins, wherever it stands"


def test_a_scenario_sets_the_method_also_behind_a_coding():
    name, given = next((name, preset) for name, preset in presets() if "lr" in preset)
    scenario = next(one for one in scenarios.names() if name in scenarios.get(one).methods)
    (choice,) = resolve(scenarios.get(scenario), [f"{name}+topk"], {}).methods
    assert choice.config.lr == methods.parse(f"{name}:lr={given['lr']}").config.lr


def presets():
    for scenario in scenarios.names():
        for name, preset in scenarios.get(scenario).methods.items():
            if methods.load(name).build(methods.load(name).Config()).sends_updates:
                yield name, preset


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["fedavg:lr=0.1+topk:fraction=0.2"],
            "names its coding behind a setting: write 'fedavg+topk:lr=0.1,fraction=0.2'",
        ),
        (["fedavg:lr=0.1+topk"], "write 'fedavg+topk:lr=0.1'"),
        (["fedavg+topq"], "unknown coding 'topq': did you mean 'topk'?"),
        (["fedavgg+topk"], "unknown method 'fedavgg': did you mean 'fedavg'?"),
        (["fedavg+topk+topk"], "fedavg+topk+topk has two codings: name one"),
        (["fedavg+topk:fractoin=1"], "did you mean 'fedavg+topk.fraction'?"),
        (["fedavg+topk:fraction=2"], "fedavg+topk.fraction = 2 is out of range"),
        (["fedavg+topk", "--set", "topk.lr=1"], "unknown key 'topk.lr': did you mean 'fedavg+topk.lr'?"),
        (["fedavg", "--set", "topk.fraction=1"], "coding 'topk' is not part of this run: name it, as in fedavg+topk"),
        (["pruning+topk"], "topk does not go with pruning"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(arguments, words, capsys):
    assert main(["run", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_a_setting_without_effect_is_told(capsys):
    assert main(["run", "fedavg+topk:feedback=false,lost=kept", "--quiet", "--out", "o", *FLAGS]) == 0
    assert "fedavg+topk.lost = kept changes nothing while fedavg+topk.feedback = false" in capsys.readouterr().err


def test_lists_show_codings(capsys):
    assert main(["list", "codings"]) == 0
    assert "topk" in capsys.readouterr().out
    assert main(["list", "keys", "fedavg+topk"]) == 0
    out = capsys.readouterr().out
    assert "fedavg+topk.fraction" in out
    assert "fedavg+topk.lr" in out
    assert main(["list", "keys"]) == 0
    assert "\n  topk.fraction" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("fedavg+qsgd:levels=4", {"levels": 4, "bucket": 512}),
        ("osafl+stc:fraction=0.1,lost=kept", {"fraction": 0.1, "feedback": True, "lost": "kept"}),
        ("fednova+cast:to=float16", {"to": "float16"}),
    ],
)
def test_codings_from_the_command_line(text, settings):
    assert main(["run", text, "--quiet", "--out", "o", *FLAGS]) == 0
    (found,) = record.read_all("o")
    assert found.label == text
    assert settings.items() <= found.settings.items()
    assert found.status.state == "finished"


def test_comparisons_tell_pairs_apart(capsys):
    fedcell.run(["fedavg", "fedavg+topk:fraction=0.05", "fedavg+topk:fraction=1"], settings=SMALL, out="o")
    assert main(["compare", "o"]) == 0
    labels = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("fedavg")]
    assert labels[:3] == ["fedavg", "fedavg+topk:fraction=0.05", "fedavg+topk:fraction=1"]
    found = record.read_all("o")
    assert found[0].columns["accuracy"].tolist() == found[2].columns["accuracy"].tolist()
    assert found[0].columns["uplink_bit"].tolist() == found[2].columns["uplink_bit"].tolist()


def test_a_sweep_over_the_fraction():
    tasks = plan(["fedavg", "fedavg+topk"], seeds=[1], settings=SMALL, grid={"topk.fraction": [0.05, 0.5]}).tasks
    assert [task.label for task in tasks] == ["fedavg", "fedavg+topk:fraction=0.05", "fedavg+topk:fraction=0.5"]
    assert len({task.name for task in tasks}) == 3
    found = fedcell.sweep("fedavg+topk", seeds=[1], settings=SMALL, grid={"topk.fraction": [0.05, 0.5]}, out="s")
    runs = record.read_all("s")
    assert {one.settings["fraction"] for one in runs} == {0.05, 0.5}
    assert all(one.status.state == "finished" for one in runs), found


@pytest.mark.parametrize(
    "text",
    [
        *("fedavg+topk:fraction=0.05", "scaffold+topk:fraction=0.05,lost=kept"),
        *("fedavg+qsgd:levels=4", "fedavg+sign", "osafl+randk:fraction=0.05", "fedavg+stc:fraction=0.05", "osafl+cast"),
        *("fedavg+powersgd:rank=2,scheduler=latency,n_selected=3", "signsgd"),
    ],
)
def test_a_run_goes_on_bit_for_bit(text):
    straight = fedcell.run(text, settings=SMALL | {"rounds": 6}, out="straight")[0]

    def stop(progress):
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedcell.run(text, settings=SMALL | {"rounds": 6}, out="again", watch=stop, checkpoint_s=0)
    assert 0 < len(record.read_all("again")[0].columns["round"]) < 6
    resumed = fedcell.resume("again")[0]
    assert resumed.status.state == "finished"
    for name in ("rounds.jsonl", "checkpoint-000006.safetensors"):
        assert (straight.folder / name).read_bytes() == (resumed.folder / name).read_bytes()


def test_files_of_ones_own_are_found_again_and_must_not_change(tmp_path, monkeypatch):
    for name, source in (("mine", "methods.fedavg"), ("code", "coding.topk")):
        (tmp_path / f"{name}.py").write_text(f'"""Mine."""\nfrom fedcell.{source} import Config, build\n')
    (found,) = fedcell.run("./mine.py+./code.py:fraction=0.1", settings=SMALL, out="o")
    spec = json.loads((found.folder / "run.json").read_text())
    assert spec["source"] == f"{tmp_path / 'mine.py'}+{tmp_path / 'code.py'}"
    (other,) = fedcell.run("fedavg+topk:fraction=0.1", settings=SMALL, out="p")
    assert found.columns["accuracy"].tolist() == other.columns["accuracy"].tolist()
    settings = settings_of(["./mine.py+./code.py"], {"code.fraction": 0.4, "mine+code.lr": 0.2})["./mine.py+./code.py"]
    assert (settings.fraction, settings.lr) == (0.4, 0.2)
    status = found.folder / "status.json"
    status.write_text(status.read_text().replace("finished", "interrupted"))
    (tmp_path / "code.py").write_text((tmp_path / "code.py").read_text() + "\n")
    with pytest.raises(FedcellError, match="changed since this run began"):
        fedcell.resume("o")


def test_the_settings_table_of_a_page_knows_the_defaults_of_pairs():
    fedcell.run("fedavg+topk:fraction=0.05", settings=SMALL, out="o")
    rows = {row["key"]: row for row in method_table(find(Path("o")))}
    assert (rows["fraction"]["values"], rows["fraction"]["default"]) == (["0.05"], "0.01")
    assert "share of the entries" in rows["fraction"]["help"]
