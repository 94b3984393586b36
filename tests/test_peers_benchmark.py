"""The driver of benchmarks/peers: stored work, final models, verdicts, refusals. Nothing is installed or timed."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

PEERS = Path(__file__).parent.parent / "benchmarks" / "peers"
sys.path.insert(0, str(PEERS))

import beside  # noqa: E402
import environments  # noqa: E402
import judge  # noqa: E402
import page  # noqa: E402
import run  # noqa: E402
import tasks  # noqa: E402
import trial  # noqa: E402
from peers import OURS, TITLES, settings  # noqa: E402
from trial import FailedRunError, Trial  # noqa: E402
from work import Stored, as_vector, full_precision, local_sgd, network, tensors  # noqa: E402

from fedcell import methods  # noqa: E402
from fedcell.data import Dataset  # noqa: E402
from fedcell.machine import precision  # noqa: E402
from fedcell.options import override  # noqa: E402
from fedcell.scenarios import Config, build_problem  # noqa: E402
from fedcell.simulate import simulate  # noqa: E402

SMALL = tasks.TASKS["c"]._replace(n_clients=12, per_client=7, n_selected=5, steps=3, batch_size=4, rounds=3)


# ---------------------------------------------------------------- the stored work


SIZES = {
    "logistic": 7_850,
    "lenet": 21_840,
    "cifar": 1_626_442,
    "2nn": 199_210,
    "resnet": 78_042,
    "transformer": 989_194,
}


@pytest.mark.parametrize(("name", "n_params"), SIZES.items())
def test_networks_have_the_size_they_are_named_for(name: str, n_params: int) -> None:
    assert as_vector(network(name)).size == n_params


def test_a_network_starts_from_a_given_vector_in_either_layout() -> None:
    start = np.random.default_rng(1).standard_normal(21_840).astype(np.float32)
    for channels_last in (False, True):
        np.testing.assert_array_equal(as_vector(network("lenet", start, channels_last)), start)


def test_stored_work_survives_its_file_without_pickle(tmp_path: Path) -> None:
    made = tasks.work(SMALL, 2)
    made.write(tmp_path / "task.npz")
    read, light = Stored.read(tmp_path / "task.npz"), Stored.read(tmp_path / "task.npz", samples=False)
    assert read.about == made.about
    for name in ("x", "y", "start", "cohort", "batches"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made, name))
    assert len(light.x) == len(light.y) == 0
    np.testing.assert_array_equal(light.batches, made.batches)


def test_batches_hold_each_clients_own_samples_and_cohorts_change() -> None:
    made = tasks.work(SMALL, 3)
    assert made.batches.shape == (3, 5, 3, 4)
    assert len({tuple(cohort) for cohort in made.cohort}) > 1
    owner: dict[int, int] = {}
    for cohort, batches in zip(made.cohort, made.batches, strict=True):
        for client, own in zip(cohort, batches, strict=True):
            for sample in own.ravel():
                assert owner.setdefault(int(sample), int(client)) == client


@pytest.mark.parametrize("n_selected", [5, 12])
def test_a_plain_loop_on_the_stored_batches_ends_where_fedcell_ends(n_selected: int) -> None:
    task = SMALL._replace(n_selected=n_selected)
    made = tasks.work(task, task.rounds)
    model = torch.from_numpy(made.start.copy())
    for batches in made.batches:
        ends = []
        for own in batches:
            module = network(task.model, model.numpy())
            local_sgd(module, *tensors(made), own, task.lr)
            ends.append(torch.from_numpy(as_vector(module)))
        model = torch.stack(ends).mean(0)
    config = override(Config(), {**made.about["settings"], "rounds": task.rounds})
    dataset = Dataset("peers", made.x, made.y, made.x[:10], made.y[:10], 10)
    problem = build_problem(config, dataset, network(task.model, made.start))
    *_, (_, after) = simulate(problem, methods.parse(made.about["method"]).build())
    assert judge.distance(model.numpy(), after.params.numpy(), made.start) < 1e-5


# ---------------------------------------------------------------- verdicts


def made_up(peer: str, round_s: float, startup_s: float = 2.0, peak_byte: int = 100, setting: str = "") -> Trial:
    return Trial(peer, setting, startup_s, [9 * round_s, round_s, round_s], peak_byte, 0.1)


def test_distance_is_0_for_the_same_model_and_1_for_no_work() -> None:
    start, ours = np.zeros(4, np.float32), np.array([3, 4, 0, 0], np.float32)
    assert judge.distance(ours.copy(), ours, start) == 0
    assert judge.distance(start, ours, start) == 1
    assert judge.distance(np.array([3, 4, 0, 0.5], np.float32), ours, start) == pytest.approx(0.1)
    assert judge.distance(start[:2], ours, start) == np.inf
    assert judge.distance(start, start, start) == np.inf


def test_ratios_are_taken_within_a_repetition() -> None:
    quiet = [made_up(OURS, 1.0), made_up("pfl", 3.0)]
    busy = [made_up(OURS, 10.0), made_up("pfl", 31.0)]
    ours, pfl = judge.lines([quiet, busy, quiet], {OURS: 0.0, "pfl": 1e-6})
    assert (ours.peer, ours.ratio, ours.round_s) == (OURS, 1.0, 1.0)
    assert pfl.ratios == [3.0, 3.1, 3.0]
    assert pfl.ratio == 3.0
    assert pfl.warm_up_s == pytest.approx(8 * 3.0)


def verdict(peers: list[Trial], bars: dict[str, float], apart: float = 0.0) -> dict[str, bool]:
    found = judge.lines([peers], {one.peer: apart if one.peer != OURS else 0.0 for one in peers})
    return {one.what: one.holds for one in judge.verdicts(found, bars)}


def test_every_demand_can_hold_and_can_fail() -> None:
    good = verdict([made_up(OURS, 1.0), made_up("pfl", 2.0)], {"pfl": 2.0, "flower": 9.0})
    assert len(good) == 5
    assert all(good.values())
    slow = verdict([made_up(OURS, 1.0), made_up("pfl", 1.9)], {"pfl": 2.0})
    assert [what for what, holds in slow.items() if not holds] == ["at least 2 times as fast as pfl"]
    behind = verdict([made_up(OURS, 1.0), made_up("plain", 0.9)], {})
    assert [what for what, holds in behind.items() if not holds] == ["no peer is faster"]
    late = verdict([made_up(OURS, 1.0, startup_s=2.1), made_up("pfl", 2.0)], {})
    assert [what for what, holds in late.items() if not holds] == ["start-up not above the quickest peer's"]
    fat = verdict([made_up(OURS, 1.0, peak_byte=121), made_up("pfl", 2.0)], {})
    assert [what for what, holds in fat.items() if not holds] == ["memory not above 1.2 times the leanest peer's"]
    other = verdict([made_up(OURS, 1.0), made_up("pfl", 2.0)], {}, apart=2e-3)
    assert [what for what, holds in other.items() if not holds] == ["final models within 0.001"]


def test_the_fastest_setting_of_everybody_is_taken() -> None:
    tried = [made_up("pfl", 2.0, setting="processes=1"), made_up("pfl", 1.0, setting="processes=2")]
    assert judge.fastest([*tried, made_up("plain", 5.0)]) == {"pfl": "processes=2", "plain": ""}


def test_pfl_is_tried_with_one_and_two_processes_and_both_layouts() -> None:
    assert len(settings("pfl", "lenet")) == 4
    assert settings("pfl", "logistic") == ["processes=1", "processes=2"]
    assert settings(OURS, "lenet") == [""]


def test_on_a_gpu_processes_and_threads_are_no_settings() -> None:
    assert settings("pfl", "logistic", "cuda") == settings("plain", "logistic", "cuda") == [""]
    assert settings("pfl", "lenet", "cuda") == ["", "layout=channels_last"]


def test_on_a_gpu_whoever_this_interpreter_has_takes_part(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(environments, "find_spec", lambda name: None)
    assert run.on_this_gpu(tmp_path / "new") == ([OURS, "plain"], ["pfl is not installed beside this PyTorch"])
    monkeypatch.setattr(environments, "find_spec", lambda name: name == "pfl")
    assert run.on_this_gpu(tmp_path) == ([OURS, "pfl", "plain"], [])
    assert run.on_this_gpu(tmp_path, ["pfl"]) == ([OURS, "pfl"], [])


def test_nobody_rounds_to_tensorfloat() -> None:
    with precision(True):
        full_precision()
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32


# ---------------------------------------------------------------- runs


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, rounds: int = 2) -> Trial:
    """Run a made-up runner in place of a framework's."""
    text = (
        f"import json, os, subprocess, sys\nimport numpy as np\nout = sys.argv[sys.argv.index('--out') + 1]\n{body}\n"
    )
    (tmp_path / "runner_plain.py").write_text(text)
    monkeypatch.setattr(trial, "HERE", tmp_path)
    python, out = Path(sys.executable), tmp_path / "final.npy"
    return trial.run(python, "plain", "threads=1", tmp_path / "task.npz", rounds, 2, out)[0]


GOOD = """
print("a line of the framework")
print('{"peer": 1, "startup_s": 1.5}')
print('{"peer": 1, "round_s": 3.0}\\n{"peer": 1, "round_s": 2.0}')
np.save(out, np.zeros(3, np.float32))
print('{"peer": 1, "peak_byte": 77}')
"""


def test_a_runs_lines_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = fake(tmp_path, monkeypatch, GOOD)
    assert (done.startup_s, done.round_s, done.setting) == (1.5, [3.0, 2.0], "threads=1")
    assert done.peak_byte >= 77


def test_a_run_that_fails_or_skips_rounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FailedRunError, match="plain ended with status 1 after 0 rounds: ValueError: too bad"):
        fake(tmp_path, monkeypatch, "raise ValueError('too bad')")
    with pytest.raises(FailedRunError, match="plain ended with status 0 after 2 rounds"):
        fake(tmp_path, monkeypatch, GOOD, rounds=3)
    with pytest.raises(FailedRunError, match="plain ended with status 0 after 2 rounds"):
        fake(tmp_path, monkeypatch, GOOD.replace("np.save", "print"))


def test_memory_counts_processes_that_a_run_starts_and_they_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = "import time; held = bytearray(200 << 20); time.sleep(60)"
    start = f"""
import time
one = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True, stdout=-3, stderr=-3)
open({str(tmp_path / "pid")!r}, "w").write(str(one.pid))
time.sleep(1.5)
"""
    done = fake(tmp_path, monkeypatch, start + GOOD)
    assert done.peak_byte > 200 << 20
    status = Path("/proc") / (tmp_path / "pid").read_text() / "status"
    deadline_s = time.monotonic() + 5
    while status.exists() and "(zombie)" not in status.read_text() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not status.exists() or "(zombie)" in status.read_text()


def test_repetitions_of_another_comparison_are_not_added() -> None:
    one = {"rounds": 3, "threads": 2, "versions": {}, "distances": {"pfl": 1e-7}}
    one["repetitions"] = [[made_up("pfl", 1.0)._asdict()]]
    assert run.appended(None, one) == one
    both = run.appended(one, {**one, "distances": {"pfl": 1e-8}})
    assert len(both["repetitions"]) == 2
    assert both["distances"] == {"pfl": 1e-7}
    with pytest.raises(SystemExit, match="drop --append"):
        run.appended(one, {**one, "rounds": 4})


def test_peers_that_are_not_measured_again_keep_their_rows() -> None:
    def found(day: str, **seconds: float) -> dict:
        return {
            "repetitions": [[made_up(peer, took)._asdict() for peer, took in seconds.items()]],
            "distances": dict.fromkeys(seconds, 1e-7),
            "rounds": 3,
            "refused": [],
            "machine": {"processor": "a CPU", "cores": 2, "memory_gib": 23.4, "revision": day, "python": "3.11.7"},
            "versions": {peer: {"torch": "2.13.0"} for peer in seconds},
            "measured": day,
        }

    first = found("Monday", fedcell=2.0, pfl=4.0, flower=40.0, fedjax=6.0)
    second = run.kept(first, found("Tuesday", fedcell=2.0, fedjax=8.0, pfl=12.0))
    third = run.kept(second, found("Friday", fedcell=1.0, pfl=4.0))
    assert run.kept(None, first) == first
    assert run.kept(first, found("Tuesday", **dict.fromkeys(first["distances"], 1.0))).get("earlier") is None
    rows = {line.peer: (line.ratio, when) for line, when in page.measured(third)}
    assert rows == {OURS: (1, ""), "pfl": (4, ""), "fedjax": (4, "Tuesday"), "flower": (20, "Monday")}
    text = "\n".join(page.section("c", third))
    assert "| Flower, Monday | 40 | 20 |" in text
    assert all(f"({day})" in text for day in ("Monday", "Tuesday", "Friday")), "each with its commit"


def test_a_peer_that_fails_is_left_out_but_fedcell_is_not(tmp_path: Path) -> None:
    bench = run.Bench("c", tmp_path, 3, 2, [OURS, "pfl"], [])
    found = [[made_up(OURS, 1.0), made_up("pfl", 2.0)]]
    bench.drop("pfl", "pfl ended with status 1", found)
    assert bench.peers == [OURS]
    assert bench.refused == ["pfl ended with status 1"]
    assert [one.peer for one in found[0]] == [OURS]
    with pytest.raises(SystemExit, match="fedcell ended"):
        bench.drop(OURS, "fedcell ended with status 1", found)


def test_another_framework_begins_in_every_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []

    def done(self: run.Bench, peer: str, setting: str, rounds: int) -> tuple[Trial, np.ndarray]:
        began.append(peer)
        return made_up(peer, 1.0), np.ones(3, np.float32)

    monkeypatch.setattr(run.Bench, "run", done)
    monkeypatch.setattr(run.tasks, "store", lambda *given: tmp_path)
    monkeypatch.setattr(run.Stored, "read", lambda *given, **more: SimpleNamespace(start=np.zeros(3, np.float32)))
    peers = [OURS, "pfl", "plain"]
    every = list(run.Bench("c", tmp_path, 3, 2, peers, []).alternate(4, dict.fromkeys(peers, "")))
    assert [len(one["repetitions"]) for one in every] == [1, 2, 3, 4], "told after each"
    found = every[-1]
    assert began == [OURS, "pfl", "plain", "pfl", "plain", OURS, "plain", OURS, "pfl", OURS, "pfl", "plain"]
    assert len(found["repetitions"]) == 4
    hasty = run.Bench("c", tmp_path, 3, 2, peers, [], seconds=0)
    assert len(list(hasty.alternate(4, dict.fromkeys(peers, "")))) == 1, "the first is never left out"


WAITS = """
import json, os, sys, time
import numpy as np
told = lambda **facts: print(json.dumps({"peer": 1, **facts}), flush=True)
value = lambda name: sys.argv[sys.argv.index(name) + 1]
told(startup_s=0.5)
assert os.environ["PEERS_GATE"] and sys.stdin.readline(), "not let go"
layout = [one for one in sys.argv if one.startswith("layout")]
open(os.path.join(os.path.dirname(__file__), "order"), "a").write(" ".join([WHO, *layout]) + "\\n")
for _ in range(int(value("--rounds"))):
    told(round_s=SECONDS)
time.sleep(SLEEP)
np.save(value("--out"), np.full(3, 1 + float(value("--rounds")), np.float32))
told(peak_byte=77)
"""


def waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repetitions: int, n_cores: int = 1, sleep: int = 0, **more: object
) -> tuple[list[dict], list[str]]:
    """Everybody's made-up runner, which waits for its turn: what is told, and who ran with which setting."""
    seconds = {OURS: "1.0", "plain": "3.0 - ('layout=channels_last' in sys.argv)"}
    for peer, took in seconds.items():
        text = WAITS.replace("WHO", repr(peer)).replace("SECONDS", took)
        (tmp_path / f"runner_{peer}.py").write_text(text.replace("SLEEP", str(sleep if peer == "plain" else 0)))
    monkeypatch.setattr(trial, "HERE", tmp_path)
    monkeypatch.setattr(run.tasks, "store", lambda *given: tmp_path)
    monkeypatch.setattr(run.Stored, "read", lambda *given, **more: SimpleNamespace(start=np.zeros(3, np.float32)))
    bench = run.Bench("a", tmp_path, 4, 2, list(seconds), [], peer_rounds=2, together=True, **more)
    told = list(beside.alternate(bench, repetitions, n_cores=n_cores))
    return told, (tmp_path / "order").read_text().splitlines()


@pytest.mark.parametrize("n_cores", [1, 16])
def test_on_a_gpu_processes_start_together_and_the_first_repetition_finds_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_cores: int
) -> None:
    told, order = waiting(tmp_path, monkeypatch, 3, n_cores)
    fast = "plain layout=channels_last"
    assert order == [OURS, "plain", fast, fast, OURS, OURS, fast]
    assert [len(one["repetitions"]) for one in told] == [1, 1, 2, 3], "told before the other layouts are tried, too"
    assert [one["setting"] for one in told[0]["repetitions"][0]] == ["", ""]
    for row in told[-1]["repetitions"]:
        assert {one["peer"]: one["setting"] for one in row} == {OURS: "", "plain": "layout=channels_last"}
        assert {one["peer"]: len(one["round_s"]) for one in row} == {OURS: 4, "plain": 2}


def test_the_time_of_a_task_ends_it_inside_a_repetition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_s = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        told, order = waiting(tmp_path, patch, 3, 16, sleep=60, seconds=3.0)
    assert time.monotonic() - begun_s < 20
    assert len(told) == 1
    assert [one["peer"] for one in told[0]["repetitions"][0]] == [OURS], "the other one is left out"
    assert order == [OURS, "plain"]


def test_the_commit_can_be_said_where_git_cannot() -> None:
    assert run.machine("abc")["revision"] == "abc"


# ---------------------------------------------------------------- environments, page


def test_every_framework_has_a_title_a_runner_and_pins() -> None:
    assert set(environments.names()) == set(TITLES)
    assert environments.names()[0] == OURS
    for name in environments.names():
        assert (PEERS / f"runner_{name}.py").is_file()
        lines = (environments.REQUIREMENTS / f"{name}.txt").read_text().splitlines()
        if name == OURS:
            assert lines == ["-c ../../../constraints.txt", "-e ."]
            continue
        assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
        assert "torch==2.13.0" in lines or name == "fedjax"


def test_what_cannot_be_installed_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.CompletedProcess([], 1, "", "WARNING: x\nERROR: No matching distribution found for pfl\n\n")
    monkeypatch.setattr(environments.subprocess, "run", lambda *args, **kwargs: answer)
    why = environments.prepare(tmp_path, "pfl")
    assert why == (
        "pfl could not be installed (ERROR: No matching distribution found for pfl): "
        "change benchmarks/peers/requirements/pfl.txt, or leave it out with --peer"
    )
    assert not environments.is_ready(tmp_path, "pfl")


def test_an_environment_is_ready_until_its_requirements_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    good = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(environments.subprocess, "run", lambda command, **kwargs: ran.append(command) or good)
    (tmp_path / "plain").mkdir()
    assert environments.prepare(tmp_path, "plain") == ""
    assert len(ran) == 2
    assert environments.prepare(tmp_path, "plain") == ""
    assert len(ran) == 2
    (tmp_path / "plain" / environments.STAMP).write_text("torch==1.0\n")
    assert environments.prepare(tmp_path, "plain") == ""
    assert len(ran) == 4


def test_a_section_shows_numbers_verdicts_and_refusals() -> None:
    trials = [made_up(OURS, 1.0), made_up("pfl", 4.0, setting="processes=2")]
    stored = {
        "repetitions": [[one._asdict() for one in trials]],
        "distances": {OURS: 0.0, "pfl": 3e-7},
        "rounds": 3,
        "refused": ["fedjax could not be installed (no): leave it out"],
        "machine": {"processor": "a CPU", "cores": 2, "memory_gib": 23.4, "revision": "abc+", "python": "3.11.7"},
        "versions": {OURS: {"fedcell": "0.1.0", "torch": "2.13.0"}, "pfl": {"pfl": "0.6.0"}},
        "measured": "2026-01-01",
    }
    text = "\n".join(page.section("c", stored))
    assert "| pfl, processes=2 | 4 | 4 | 2.0 | 32 | 0 | 3e-07 |" in text
    assert "| at least 10 times as fast as pfl | 4.00 | **no** |" in text
    assert "fedjax could not be installed (no): leave it out." in text
    assert "a CPU, 2 cores, 23 GiB, Python 3.11.7, PyTorch 2.13.0; fedcell 0.1.0 (abc+), pfl 0.6.0." in text
    text = "\n".join(page.section("c", stored | {"gpu": "a GPU"}))
    assert "at least 10 times" not in text, "the bars are for CPUs"
    assert "a GPU, a CPU, 2 cores" in text


def test_the_page_shows_what_is_stored() -> None:
    stored = json.loads(page.RESULTS.read_text())
    assert set(stored) == set(tasks.TASKS)
    assert page.summary(stored) in page.PAGE.read_text()
    cpu, gpu = page.stored()
    assert page.summary(gpu) in page.PAGE.read_text()
    assert page.short(cpu, gpu) in page.README.read_text()


def test_the_published_length_is_shown_beside_what_pfl_takes() -> None:
    if page.PUBLISHED.exists():
        assert page.published(json.loads(page.PUBLISHED.read_text())) in page.PAGE.read_text()
    found = {
        **{"rounds": 1500, "eval_every": 10, "tested": 10_000, "whole_s": 90.0, "startup_s": 5.0, "first_s": 2.0},
        **{"round_s": 0.037, "evaluated_s": 0.05, "gpu": "a GPU", "measured": "2026-01-01"},
        "machine": {"cores": 2, "processor": "a CPU", "python": "3.12.3", "revision": "abc"},
        "versions": {"torch": "2.11.0"},
    }
    text = page.published(found)
    assert "| fedcell, a GPU | 1.5 |" in text
    assert "| pfl as published, one process, one A100 | 10.1 |" in text
    assert "5 s of start-up and 2 s for the first round; 37 ms a round, 50 ms one with evaluation" in text


def test_what_was_not_measured_on_a_gpu_is_a_dash() -> None:
    cpu, _ = page.stored()
    found = page.short(cpu, {}), page.short(cpu, {"a": cpu["a"] | {"gpu": "a GPU"}})
    before, after = (next(line for line in text.splitlines() if "| LeNet" in line) for text in found)
    assert before.endswith("| - | - |")
    assert before.count(" - ") == 2
    assert after.count(" - ") == 0
