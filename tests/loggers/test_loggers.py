"""TensorBoard and MLflow, read back with their own readers."""

import json
import sys
import warnings
from pathlib import Path

import pytest

import fedcell
from fedcell import loggers, record
from fedcell.cli import main
from fedcell.errors import BadInput

SMALL = {"rounds": 6, "eval_every": 2, "world.n_devices": 4, "model.name": "logistic", "train.workers": 1}
FLAGS = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def board(place: str) -> dict[str, list[tuple[int, float, float]]]:
    """(step, simulated seconds, value) of every scalar that TensorBoard shows of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(place, size_guidance={"scalars": 0})
    found.Reload()
    return {
        tag: [(one.step, one.wall_time, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]
    }


def server(place: str) -> list:
    """The runs that MLflow has, in the order of their names."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(Path(place).resolve().as_uri())
    runs = client.search_runs([client.get_experiment_by_name("fedcell").experiment_id])
    return [(run, client) for run in sorted(runs, key=lambda run: run.info.run_name)]


def history(run, client, key: str) -> list[tuple[int, float]]:
    return [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, key)]


def stop_after(rounds: int):
    def watch(progress: record.Progress) -> None:
        if progress.done == rounds and progress.row:
            raise KeyboardInterrupt

    return watch


def whole(name: str) -> dict:
    return fedcell.read(name).columns


def check_board(place: str, run: str) -> None:
    found, rows = board(place), whole(run)
    steps = list(range(1, SMALL["rounds"] + 1))
    assert [step for step, _, _ in found["round/seconds"]] == steps
    assert [step for step, _, _ in found["accuracy"]] == [2, 4, 6]
    assert [wall for _, wall, _ in found["round/seconds"]] == list(rows["clock_s"])
    energy = (rows["compute_joule"] + rows["radio_joule"]).cumsum()
    assert [value for _, _, value in found["total/energy_joule"]] == pytest.approx(list(energy), rel=1e-6)
    assert [value for _, _, value in found["total/simulated_s"]] == pytest.approx(list(rows["clock_s"]), rel=1e-6)
    assert [value for _, _, value in found["accuracy"]] == pytest.approx(list(rows["accuracy"][1::2]), rel=1e-6)


def check_server(one, run: str) -> None:
    rows = whole(run)
    assert history(*one, "accuracy") == list(zip([2, 4, 6], rows["accuracy"][1::2], strict=True))
    assert history(*one, "total/simulated_s") == list(zip(range(1, 7), rows["clock_s"], strict=True))
    assert history(*one, "total/radio_joule") == list(zip(range(1, 7), rows["radio_joule"].cumsum(), strict=True))
    assert one[0].info.status == "FINISHED"


# ---------------------------------------------------------------- whole runs


def test_both_loggers_show_what_the_record_holds():
    fedcell.run(["fedavg", "fedprox:mu=1"], settings=SMALL, out="o", log=["tensorboard=tb", "mlflow=ml"])
    check_board("tb/o/fedavg", "o/fedavg")
    check_board("tb/o/fedprox-mu-1", "o/fedprox-mu-1")
    first, second = server("ml")
    check_server(first, "o/fedavg")
    check_server(second, "o/fedprox-mu-1")
    params = second[0].data.params
    assert (params["label"], params["method.mu"], params["world.n_devices"]) == ("fedprox:mu=1", "1.0", "4")
    assert second[0].data.tags["fedcell.folder"] == str(Path("o/fedprox-mu-1").resolve())


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_resuming_neither_repeats_nor_loses_points(kind):
    with pytest.raises(KeyboardInterrupt):
        fedcell.run("fedavg", settings=SMALL, out="o", log=f"{kind}=log", watch=stop_after(4))
    for path in Path("o/fedavg").glob("checkpoint-*"):
        path.unlink()  # as after a kill: rounds are simulated again
    assert main(["run", "--resume", "o", "--quiet", "--log", f"{kind}=log"]) == 0
    if kind == "tensorboard":
        check_board("log/o/fedavg", "o/fedavg")
    else:
        (one,) = server("log")
        check_server(one, "o/fedavg")


def test_a_record_is_brought_to_a_logger_that_was_not_there(capsys):
    fedcell.run("fedavg", settings=SMALL, out="o")
    for _ in range(2):  # and not twice
        assert main(["run", "--resume", "o", "--quiet", "--log", "tensorboard=tb", "--log", "mlflow=ml"]) == 0
        check_board("tb/o/fedavg", "o/fedavg")
        check_server(server("ml")[0], "o/fedavg")
        (events,) = Path("tb/o/fedavg").glob("events.*")
    before = events.stat().st_mtime_ns
    main(["run", "--resume", "o", "--quiet", "--log", "tensorboard=tb"])
    assert events.stat().st_mtime_ns == before


def test_a_sweep_logs_every_run_under_its_name(capsys):
    args = ["sweep", "fedavg", "fednova", "--quiet", "--workers", "1", "--log", "tensorboard=tb", "--out", "s", *FLAGS]
    assert main(args) == 0
    for info in record.find("s"):
        check_board(f"tb/{info.folder}", str(info.folder))
    assert main([*args, "--log", "mlflow=ml"]) == 0  # all skipped: brought from the records
    assert len(server("ml")) == 2


def test_runs_of_the_same_name_in_other_places_do_not_meet():
    for place in ("a", "b"):
        fedcell.run("fedavg", settings=SMALL, out=f"{place}/o", log="tensorboard=tb")
    first, second = sorted(path.name for path in Path("tb/o").iterdir())
    check_board(f"tb/o/{first}", "a/o/fedavg")
    check_board(f"tb/o/{second}", "b/o/fedavg")


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_missing_package_is_one_sentence_with_the_command(capsys, monkeypatch, kind):
    monkeypatch.setitem(sys.modules, kind, None)
    for command in ("run", "sweep"):
        assert main([command, "fedavg", "--log", f"{kind}=x", *FLAGS]) == 2
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"fedcell: --log {kind} needs a package: pip install 'fedcell[{kind}]'\n")
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wandb=x", "unknown logger 'wandb': choose one of tensorboard, mlflow"),
        ("tensorboard", "--log tensorboard has no place: write tensorboard=DIR"),
        ("mlflow=", "--log mlflow= has no place: write mlflow=DIR"),
    ],
)
def test_bad_loggers(text, words):
    with pytest.raises(BadInput, match=words):
        fedcell.run("fedavg", settings=SMALL, log=text)
    assert not list(Path().iterdir())


def test_a_logger_that_fails_is_said_and_the_run_goes_on():
    Path("file").write_text("")
    notes = []
    fedcell.run("fedavg", settings=SMALL, out="o", log="tensorboard=file", watch=lambda one: notes.append(one.note))
    assert [note for note in notes if note] == [
        "tensorboard=file failed ([Errno 20] Not a directory: 'file/o/fedavg'): the run continues without "
        "it, and `--resume` with --log brings the rest"
    ]
    assert record.find("o")[0].state == "finished"


def test_a_server_that_leaves_in_the_middle_gets_the_rest_later(monkeypatch, capsys):
    from mlflow.tracking import MlflowClient

    def gone(*_, **__):
        raise OSError("connection refused")

    with monkeypatch.context() as patched:
        patched.setattr("fedcell.loggers.mlflow.SEND_S", 0.0)
        put = MlflowClient.log_batch
        calls = []

        def fails_late(self, run_id, *args, **kwargs):
            calls.append(run_id)
            return gone() if len(calls) > 4 else put(self, run_id, *args, **kwargs)

        patched.setattr(MlflowClient, "log_batch", fails_late)
        assert main(["run", "fedavg", "--quiet", "--out", "o", "--log", "mlflow=ml", *FLAGS]) == 0
    assert capsys.readouterr().err.count("mlflow=ml failed (connection refused)") == 1
    main(["run", "--resume", "o", "--quiet", "--log", "mlflow=ml"])
    check_server(server("ml")[0], "o/fedavg")


def test_values_are_totals_of_rows():
    rows = whole_rows()
    totals: dict[str, float] = {}
    logged = [loggers.values(row, totals) for row in rows]
    assert logged[-1]["total/uplink_bit"] == 3e6
    assert logged[-1]["total/energy_joule"] == 4.5
    assert logged[0]["own"] == 7.0


def whole_rows() -> list:
    from fedcell.types import Row

    return [Row(n, n + 1.0, 1.0, 4, 3, 1.0, 0.5, 1e6, "D", {"own": 7.0}) for n in range(3)]


def test_settings_are_plain_json_in_tensorboard():
    fedcell.run("fedavg", settings=SMALL, out="o", log="tensorboard=tb")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with warnings.catch_warnings():
        found = EventAccumulator("tb/o/fedavg")
        found.Reload()
        (text,) = found.Tensors("run/text_summary")
    told = json.loads(text.tensor_proto.string_val[0].decode())
    assert told["config"]["world"]["n_devices"] == 4
