"""A study is a file: what it says, what flags change, and what it is written as."""

import json
import re
import subprocess
import tomllib
from argparse import Namespace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fedcell.cli import completion, main, parser, study
from fedcell.errors import BadInput
from fedcell.record import find, read_all
from fedcell.study import FigureRequest, Study, read, write
from fedcell.study.schema import keys, stored

SMALL = """
[settings]
rounds = 2
model.name = "logistic"
world.n_devices = 4
train.steps = 1
"""
WHOLE = (
    """
methods = ["fedavg", "fedprox"]
scenario = "cell"
seeds = "1..2"
out = "results"
latex = "table.tex"
targets = 0.05
against = "FedAvg"
"""
    + SMALL
    + """
[grid]
fedprox.mu = [0.1, 1]

[labels]
fedavg = "FedAvg"
fedprox = "FedProx"

[[figures]]
file = "figure.svg"
width = "column"
by = ["time"]
"""
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def given_file(text, name="study.toml"):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


# ---------------------------------------------------------------- running it


def test_a_sweep_of_a_study_runs_draws_and_writes_all_of_it(capsys):
    assert main(["sweep", given_file(WHOLE, "there/study.toml"), "--quiet", "--workers", "1"]) == 0
    out = capsys.readouterr().out
    infos = find("there/results")
    assert [info.label for info in infos] == ["fedavg", "fedprox:mu=0.1", "fedprox:mu=1"] * 2
    assert {info.seed for info in infos} == {1, 2}
    assert {info.total_rounds for info in infos} == {2}
    assert "written: there/figure.svg" in out
    drawn = Path("there/figure.svg").read_text()
    assert "FedProx:mu=0.1" in drawn
    assert r"FedAvg & " in Path("there/table.tex").read_text()


def test_a_figure_over_a_setting_shows_what_a_target_costs(capsys):
    text = WHOLE.replace('by = ["time"]', 'over = "fedprox.mu"')
    assert main(["sweep", given_file(text), "--quiet", "--workers", "1"]) == 0
    assert "fedprox.mu" in Path("figure.svg").read_text()
    Path("figure.svg").unlink()
    capsys.readouterr()
    Path("study.toml").write_text(text + 'runs = "*seed1*"\n')  # the runs are there
    assert main(["sweep", "study.toml", "--quiet", "--workers", "1"]) == 0
    Path("figure.svg").unlink()
    Path("study.toml").write_text(text + 'runs = "*seed9*"\n')
    assert main(["sweep", "study.toml", "--quiet", "--workers", "1"]) == 0
    assert "no run in results is called '*seed9*'" in capsys.readouterr().err
    assert not Path("figure.svg").exists()
    Path("study.toml").write_text(text)
    assert main(["sweep", "study.toml", "--grid", "fedprox.mu=2", "--quiet", "--workers", "1", "--out", "one"]) == 0
    assert "figure.svg is not drawn: fedprox.mu is 2 in all runs" in capsys.readouterr().err
    assert not Path("figure.svg").exists()
    assert main(["sweep", given_file(text.replace('over = "fedprox.mu"', 'over = "rounds"')), "--quiet"]) == 2
    assert "is drawn over rounds, which is not in the grid with several values" in capsys.readouterr().err
    with pytest.raises(BadInput, match="has by and over: curves and costs are two figures"):
        read(given_file(text.replace("over = ", 'by = ["time"]\nover = ')))


def test_flags_win_over_the_file_key_by_key(capsys):
    flags = ["--seeds", "5", "--rounds", "1", "--set", "fedprox.mu=3", "--out", "o", "--quiet", "--workers", "1"]
    assert main(["sweep", given_file(WHOLE), *flags]) == 0
    infos = find("o")
    assert [(info.label, info.seed, info.rounds) for info in infos] == [("fedavg", 5, 1), ("fedprox:mu=3", 5, 1)]
    assert {info.config["world"]["n_devices"] for info in infos} == {4}
    capsys.readouterr()
    assert main(["sweep", "study.toml", "fedavg", *flags, "--dry-run"]) == 2
    assert "fedprox.mu: method 'fedprox' is not part of this run" in capsys.readouterr().err


def test_a_run_is_one_seed_of_it(capsys):
    given_file(SMALL.replace("[settings]", 'methods = "fedavg"\nseeds = 7\nout = "o"\n[settings]'))
    assert main(["run", "study.toml", "--quiet", "--set", "train.lr=0.5"]) == 0
    (record,) = read_all("o")
    assert (record.label, record.config["seed"], record.config["rounds"]) == ("fedavg", 7, 2)
    assert record.config["train"]["lr"] == 0.5
    assert main(["run", "study.toml", "fedprox:mu=2", "--seed", "3", "--quiet", "--out", "p"]) == 0
    (record,) = read_all("p")
    assert (record.label, record.config["seed"]) == ("fedprox:mu=2", 3)


def test_files_of_a_study_lie_beside_it(capsys):
    Path("there").mkdir()
    Path("there/mine.py").write_text('"""Mine."""\nfrom fedcell.methods.fedavg import Config, build\n')
    given_file('methods = "mine.py:server_lr=0.5"\nout = "o"\n' + SMALL, "there/study.toml")
    assert main(["run", "there/study.toml", "--quiet"]) == 0
    (record,) = read_all("there/o")
    assert record.settings["server_lr"] == 0.5


FILES = """
[settings]
model.name = "net.py:a"
data.name = "wine.npz"
world.device_table = "devices.csv"
world.traces = "elsewhere.csv"
world.tracks = "no_file.csv"
world.power_watt = "@devices.csv:power_watt"
train.schedule = "cosine"

[grid]
world.response_trace = ["seconds.txt", "devices.csv"]
world.cpu_hz = ["@devices.csv:cpu_hz#00ff", "1e9..2e9", 3]
mine.net = ["devices.csv"]
"""


def test_files_in_settings_and_grids_lie_beside_the_study():
    for name in ("st/devices.csv", "st/wine.npz", "st/seconds.txt", "st/cosine", "elsewhere.csv", "devices.csv"):
        given_file("", name)
    found = read(given_file(FILES, "st/study.toml"))
    assert found.settings == {
        "model.name": "st/net.py:a",
        "data.name": "st/wine.npz",
        "world.device_table": "st/devices.csv",
        "world.traces": "elsewhere.csv",  # is not beside the study
        "world.tracks": "no_file.csv",
        "world.power_watt": "@st/devices.csv:power_watt",
        "train.schedule": "cosine",
    }
    assert found.grid == {
        "world.response_trace": ("st/seconds.txt", "st/devices.csv"),
        "world.cpu_hz": ("@st/devices.csv:cpu_hz#00ff", "1e9..2e9", 3),
        "mine.net": ("st/devices.csv",),
    }
    moved = tomllib.loads(FILES.replace("elsewhere.csv", "../elsewhere.csv"))
    assert tomllib.loads(write(found, "st/new.toml")) == moved
    given_file("data = 'ntc.npz'\nmodel = 'net.py:a'", "st/cached.toml")  # of the folder of data sets
    assert read("st/cached.toml").data == "ntc.npz"
    assert tomllib.loads(write(read("st/cached.toml"), "st/new.toml"))["data"] == "ntc.npz"
    given_file("[grid]\nmodel.name = ['net.py:a', 'mlp']\ndata.name = ['wine.npz', 'digits']", "st/grid.toml")
    assert read("st/grid.toml").grid == {
        "model.name": ("st/net.py:a", "mlp"),
        "data.name": ("st/wine.npz", "digits"),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WHOLE, "study.toml has a grid of fedprox.mu: `fedcell sweep study.toml` runs all of them"),
        ('methods = "fedavg"\nseeds = [1, 2]', "study.toml has 2 seeds: `fedcell sweep study.toml` runs all of them"),
        ('scenario = ["cell", "cells"]', "study.toml has 2 scenarios"),
        ('method = "fedavg"', "study.toml has an unknown key 'method': did you mean 'methods'?"),
        ("rounds = 3", "unknown key 'rounds': it is a setting, which goes below [settings]"),
        ("qqq = 3", "unknown key 'qqq': known are methods, scenario, "),
        ("[settings]\nworld.radus_m = 3", "unknown key 'world.radus_m': did you mean 'world.radius_m'?"),
        ("[settings]\nworld.radius_m = 'x'", "world.radius_m = 'x' is not a number"),
        ("[settings]\ntrain.lr = 1\n[grid]\ntrain.lr = [1]", "train.lr to one value and to a grid: drop one"),
        ("model = 'mlp'\nsettings.model.name = 'mlp'", "sets model and settings.model.name: drop one"),
        ("[grid]\ntrain.lr = 1", "grid.train.lr = 1 is no list: give one or more values in brackets"),
        ("settings = 3", "settings = 3 is no table: write keys below [settings]"),
        ("methods = [1]", "methods = [1] holds 1: give texts"),
        ("seeds = [1.5]", "seeds = [1.5] holds 1.5: give whole numbers or texts"),
        ("seeds = 'many'", "'many' is no seed"),
        ("[[figures]]\nwidth = 'page'", "write [[figures]] with file"),
        ("figures = [{ file = 'a.pdf', widht = 1 }]", "unknown key 'figures.widht': did you mean 'width'?"),
        ("figures = 'a.jpg'", "a.jpg has no known format"),
        ("figures = [{ file = 'a.pdf', by = 'tim' }]", "unknown axis 'tim': did you mean 'time'?"),
        ("methods = [", "study.toml is no TOML ("),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(capsys, text, words):
    given_file(text)
    assert main(["run", "study.toml"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert [*Path().iterdir()] == [Path("study.toml")]


def test_a_file_that_is_not_there_and_two_of_them(capsys):
    assert main(["run", "study.toml"]) == 2
    assert "study.toml cannot be read (No such file" in capsys.readouterr().err
    assert main(["run", "a.toml", "b.toml"]) == 2
    assert "a.toml and b.toml are two studies" in capsys.readouterr().err


# ---------------------------------------------------------------- writing it


def test_save_config_writes_what_runs_the_same(capsys):
    flags = ["--set", "world.n_devices=4", "--set", "model.name=logistic", "--set", "world.cpu_hz=1e9..2e9"]
    assert main(["run", "fedavg", "fedprox:mu=1", "--seed", "3", "--rounds", "2", *flags, "--quiet", "--out", "a",
                 "--save-config", "there/study.toml"]) == 0  # fmt: skip
    assert "the study is in there/study.toml" in capsys.readouterr().err
    assert main(["run", "there/study.toml", "--quiet", "--out", "b"]) == 0
    for one, two in zip(read_all("a"), read_all("b"), strict=True):
        assert (one.label, one.config, one.settings) == (two.label, two.config, two.settings)
        assert one.columns["accuracy"].tolist() == two.columns["accuracy"].tolist()
    assert main(["run", "fedavg", "--quiet", "--save-config", "there/study.toml"]) == 2
    assert "is there already and says something else" in capsys.readouterr().err


def test_save_config_of_a_sweep_and_of_a_changed_study(capsys):
    given_file(WHOLE)
    flags = ["--seeds", "1..3", "7", "--grid", "model.hidden=64", "64,32", "--dry-run"]
    assert main(["sweep", "study.toml", *flags, "--save-config", "new.toml"]) == 0
    expected = tomllib.loads(WHOLE) | {"seeds": ["1..3", 7], "targets": [0.05], "model": "logistic"}
    del expected["settings"]["model"]
    expected["grid"]["model"] = {"hidden": [64, "64,32"]}
    found = tomllib.loads(Path("new.toml").read_text())
    assert found == expected
    assert main(["run", "nobody", "--save-config", "none.toml"]) == 2
    assert not Path("none.toml").exists()  # what cannot be run is not saved
    assert main(["run", "--save-config", "none.json"]) == 2


def meant(value):
    """What a setting of this value means: a number, or a text."""
    text = study.written(value)
    try:
        return float(text) if float(text) == float(text) else text
    except ValueError:
        return text


NAMES = st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8})?", fullmatch=True)
VALUES = st.one_of(st.integers(), st.booleans(), st.text(), st.floats(allow_nan=False))


@given(
    st.dictionaries(NAMES, VALUES, max_size=3), st.dictionaries(st.text(min_size=1), st.text(min_size=1), max_size=3)
)
def test_what_is_written_reads_back(tmp_path_factory, settings, labels):
    if any(f"{key}." in other for key in settings for other in settings):
        return  # a value and a section of one name
    path = tmp_path_factory.mktemp("study") / "study.toml"
    asked = Study(methods=("fedavg", str(path.with_name("a.py"))), settings=settings, labels=labels)
    asked = asked._replace(figures=(FigureRequest(str(path.with_name("a.pdf")), "3.5", ("time",)),))
    path.write_text(write(asked, path), encoding="utf-8")
    found = read(path)
    assert {key: meant(value) for key, value in found.settings.items()} == {
        key: meant(value) for key, value in settings.items()
    }
    assert found._replace(settings={}) == asked._replace(settings={})


# ---------------------------------------------------------------- for editors and shells


def test_the_schema_takes_what_fedcell_takes_and_refuses_what_it_refuses(capsys):
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == stored()
    Draft202012Validator.check_schema(schema)
    judge = Draft202012Validator(schema)
    assert judge.is_valid(tomllib.loads(WHOLE))
    for text in (
        "settings.world.cpu_hz = '1e9..2e9'",
        "settings.mine.lr = 3",
        "settings.'fedavg+topk'.fraction = 0.1",
        "grid.model.hidden = [[64], '64,32']",
        "settings.world.battery_joule = 'none'\nfigures = 'a.pdf'",
    ):
        assert judge.is_valid(tomllib.loads(text)), text
    for text in (
        "method = 'fedavg'",
        "settings.world.radus_m = 3",
        "settings.world.radius_m = 0",
        "settings.world.access = 'nothing'",
        "settings.rounds = 1.5",
        "grid.train.lr = 0.1",
        "grid.train.lr = []",
        "grid.train.lr = [-1]",
        "figures = [{ width = 'page' }]",
    ):
        assert not judge.is_valid(tomllib.loads(text)), text


def test_every_flag_of_the_parser_is_completed():
    commands = completion.subcommands(parser())
    assert {"run", "sweep", "compare", "list", "plan"} <= set(commands)
    assert {"--scenario", "--save-config", "--set"} <= set(commands["run"])
    assert {"methods", "keys"} <= set(commands["list"])
    assert {"cafe", "--rate"} <= set(commands["plan"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fedcell comp", ["compare", "completion"]),
        ("fedcell run fedpr", ["fedprox"]),
        ("fedcell run --set world.radiu", ["world.radius_m="]),
        ("fedcell sweep fedavg --scenario cell cel", ["cell", "cells"]),
        ("fedcell sweep fedavg --scenario cell --see", ["--seeds"]),
        ("fedcell run stud", ["study.toml"]),
        ("fedcell plan ca", ["cafe"]),
    ],
)
def test_bash_completes(line, expected):
    Path("study.toml").write_text("")
    words = line.split()
    code = f"{completion.script('bash', parser())}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n"
    code += "_fedcell 2>/dev/null\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-O", "extglob", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == expected


def test_the_other_shells_get_a_script(capsys):
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        text = capsys.readouterr().out
        assert "world.radius_m=" in text
        assert "fedprox" in text
    assert all(key in text for key in keys(stored()))
    assert re.search(r"seen_subcommand_from run' -l save-config", text)
    assert main(["completion", "tcsh"]) == 2


def test_a_study_without_one_is_empty():
    args = Namespace(methods=["fedavg"])
    assert study.fold(args) == Study()
    with pytest.raises(BadInput, match="are two studies"):
        study.fold(Namespace(methods=["a.toml", "b.toml"]))
