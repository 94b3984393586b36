"""The examples run, and the method file of CONTRIBUTING keeps to the contract of every method."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import test_method_contract as contract
import torch

from fedcell import methods, options, record, scenarios
from fedcell.cli import main
from fedcell.errors import BadInput
from fedcell.simulate import simulate

EXAMPLES = Path(__file__).parent.parent / "examples"
MOMENTUM = f"{EXAMPLES / 'server_momentum.py'}:beta=0.9"
LATER = "from __future__ import annotations\n"  # types are texts
TURNS = str(EXAMPLES / "taking_turns.py")
SMALL = {"world.n_devices": "4", "model.name": "logistic", "train.steps": "1"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def momentum():
    return methods.parse(MOMENTUM).build()


# ---------------------------------------------------------------- scripts


def test_joint_assignment(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["joint_assignment.py", "2"])
    runpy.run_path(str(EXAMPLES / "joint_assignment.py"), run_name="__main__")
    found = re.findall(r"draw (\d), ([a-z-]+): (\d+) samples", capsys.readouterr().out)
    expected = {(draw, order): int(samples) for draw, order, samples in found}
    for draw in "012":
        best, blocks, lots = (expected[draw, order] for order in ("optimal", "random-blocks", "random"))
        assert best >= max(blocks, lots) > 0


@pytest.mark.rendered
def test_a_day_in_a_city(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["day_in_a_city.py", "3"])
    runpy.run_path(str(EXAMPLES / "day_in_a_city.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert out.count("standing by cost") == 3
    assert Path("city.png").stat().st_size > 10_000
    assert Path("states.csv").read_text().count("\n") == 1 + 30 * 5 + 30


def test_own_everything(capsys):
    out = runpy.run_path(str(EXAMPLES / "own_everything.py"), run_name="__main__")
    table = capsys.readouterr().out
    for one in out["records"]:
        assert one.status.state == "finished"
        assert one.label in table
    assert out["records"][0].columns["accuracy"][-1] > 0.8  # of three classes


def test_own_data_and_network(capsys):
    runpy.run_path(str(EXAMPLES / "own_data.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "<Dataset wines: 128 train and 50 test samples of 13, 3 classes, 6 owners>" in out
    right = int(out.split("the model has ")[1].split()[0])
    assert right > 40
    assert Path("wines.safetensors").exists()


def test_streaming_cache(capsys):
    runpy.run_path(str(EXAMPLES / "streaming_cache.py"), run_name="__main__")
    assert "after a restart  the same samples" in capsys.readouterr().out


def test_compare_schedulers(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["compare_schedulers.py", "3"])
    runpy.run_path(str(EXAMPLES / "compare_schedulers.py"), run_name="__main__")
    out = capsys.readouterr().out
    for name in ("all", "random", "round-robin", "best-channel", "fastest"):
        assert f"scheduler={name}" in out
    assert "of 20 devices were heard at least once" in out


def test_resnet18(capsys):
    runpy.run_path(str(EXAMPLES / "resnet18.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "model.buffers=average" in out
    assert "model.buffers=local" in out


def test_lora(capsys):
    out = runpy.run_path(str(EXAMPLES / "lora.py"), run_name="__main__")
    whole, lora = out["whole"], out["lora"]
    assert "adapters" in capsys.readouterr().out
    n_adapted = 2 * 4 * (48 + 3 * 48 + 48 + 48)  # of two blocks: rank times what goes in and out of two layers
    np.testing.assert_allclose(lora.columns["uplink_bit"], 32 * n_adapted * lora.columns["n_selected"])
    assert lora.columns["perplexity"][-1] < lora.columns["perplexity"][0] < 0.5 * lora.chance
    assert 10 * lora.columns["uplink_bit"].sum() < whole.columns["uplink_bit"].sum()


def test_request_path(capsys):
    runpy.run_path(str(EXAMPLES / "request_path.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "30 requests, 2 periods of tags" in out
    assert "CSP: files of accounts {0: 6, 1: 6, 2: 6, 3: 6, 4: 6}; no cell" in out
    assert "base station 1: subscribers [10003, 10004] ask and get something; no content" in out
    assert "step 12" not in out  # nothing is sent in it
    assert "one changed bit: a sealed message does not open" in out


# ---------------------------------------------------------------- the method file


def test_momentum_runs_from_the_command_line(capsys):
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    assert main(["run", "fedavg", MOMENTUM, "--rounds", "3", "--quiet", "--out", "o", *settings]) == 0
    plain, mine = record.read_all("o")
    assert mine.settings["beta"] == 0.9
    assert mine.columns["outcome"] == plain.columns["outcome"]  # the same world
    assert mine.columns["loss"][0] == plain.columns["loss"][0]  # the first step has no momentum yet
    assert mine.columns["loss"][-1] != plain.columns["loss"][-1]


def test_momentum_resumes_after_an_interruption():
    config = options.override(scenarios.get("cell").config, {**SMALL, "rounds": 5})

    def interrupt(progress):
        if progress.done == 3:
            raise KeyboardInterrupt

    record.execute(config, [MOMENTUM], "straight")
    with pytest.raises(KeyboardInterrupt):
        record.execute(config, [MOMENTUM], "resumed", watch=interrupt)
    assert main(["run", "--resume", "resumed", "--quiet"]) == 0
    straight, resumed = record.read_all("straight")[0].folder, record.read_all("resumed")[0].folder
    for name in ("rounds.jsonl", "checkpoint-000005.safetensors"):
        assert (straight / name).read_bytes() == (resumed / name).read_bytes()


def test_momentum_is_the_equation(small):
    problem, method = small(), methods.parse(MOMENTUM + ",server_lr=0.5").build()
    seen = []

    def spy(problem, params, state, played):
        device, rows = played.received()
        size = torch.from_numpy(played.observation.store.size[device]).float()
        seen.append(size @ rows / size.sum())
        return method.aggregate(problem, params, state, played)

    history = [after for _, after in simulate(problem, method._replace(aggregate=spy))]
    velocity, params = torch.zeros_like(seen[0]), problem.learner.initial()
    for mean, after in zip(seen, history, strict=True):
        velocity = 0.9 * velocity + mean
        params = params + 0.5 * velocity
        assert torch.allclose(after.params, params, atol=1e-5)


@pytest.mark.parametrize("world", contract.WORLDS)
def test_momentum_keeps_the_contract_in_every_world(small, momentum, world):
    contract.test_runs_within_budgets_and_repeats(small, momentum, world)


def test_momentum_learns(small, momentum, request):
    contract.test_learns(small, momentum, request)


def test_momentum_turns_a_bad_update_away(small, momentum):
    contract.test_bad_update_is_turned_away(small, momentum)


@pytest.mark.parametrize("world", ["devices come and go, places change", "edge models and an empty cell"])
def test_momentum_is_saved_and_restored_in_mid_run(small, momentum, world, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    contract.test_saved_in_mid_run_ends_alike(small, momentum, world, tmp_path / "checkpoints")


# ---------------------------------------------------------------- FedAdam and q-FedAvg


ADAM, FAIR = str(EXAMPLES / "fed_adam.py"), str(EXAMPLES / "q_fedavg.py")
VARIATES, LARGEST = str(EXAMPLES / "control_variates.py"), str(EXAMPLES / "largest_entries.py")


def spied(method, seen):
    """The method, with what each round of it was given."""

    def aggregate(problem, params, state, played):
        seen.append((params, *played.received(), played.observation))
        return method.aggregate(problem, params, state, played)

    return method._replace(aggregate=aggregate)


def test_adam_is_the_optimiser_of_pytorch_up_to_its_correction(small):
    """Without bias correction: `torch.optim.Adam` divides the moments by `1 - beta^t`, the paper does not."""
    problem, seen = small(rounds=5), []
    method = methods.parse(f"{ADAM}:server_lr=0.02,beta1=0.8,beta2=0.95,tau=0.01").build()
    history = list(simulate(problem, spied(method, seen)))
    first, second, w = 0.0, 0.0, problem.learner.initial()
    for (_, device, rows, observation), (_, after) in zip(seen, history, strict=True):
        size = torch.from_numpy(observation.store.size[device]).float()
        gradient = -(size @ rows) / size.sum()
        first, second = 0.8 * first + 0.2 * gradient, 0.95 * second + 0.05 * gradient**2
        w = w - 0.02 * first / (second.sqrt() + 0.01)
        torch.testing.assert_close(after.params, w, rtol=1e-4, atol=1e-6)


def test_q_fedavg_is_the_equation_and_fedavg_without_fairness(small):
    problem, seen = small({"data.partition": "shards"}, rounds=3), []
    history = list(simulate(problem, spied(methods.parse(f"{FAIR}:q=2").build(), seen)))
    for (w, device, rows, observation), (_, after) in zip(seen, history, strict=True):
        above, below = torch.zeros_like(w), 0.0
        for k, row in zip(device, rows, strict=True):
            store = observation.store.items[k, : observation.store.size[k]]
            net = problem.learner.architectures[0].replica(torch.device("cpu"))
            torch.nn.utils.vector_to_parameters(w, net.parameters())
            x, y = problem.learner.train_samples.take(store)
            loss = torch.nn.functional.cross_entropy(net(x), y).item()
            moved = -row / problem.train.lr
            above += loss**2 * moved
            below += 2 * loss * float(moved.square().sum()) + loss**2 / problem.train.lr
        torch.testing.assert_close(after.params, w - above / below, rtol=1e-4, atol=1e-6)
    texts = (f"{FAIR}:q=0", "fedavg:weights=equal")
    fair, plain = (list(simulate(problem, methods.parse(text).build())) for text in texts)
    torch.testing.assert_close(fair[-1][1].params, plain[-1][1].params, rtol=1e-4, atol=1e-6)
    assert fair[0][0].uplink_bit == plain[0][0].uplink_bit + 6 * 32


@pytest.mark.parametrize(
    ("text", "built_in"),
    [(VARIATES, "scaffold"), (f"fedavg+{LARGEST}:fraction=0.05", "fedavg+topk:fraction=0.05")],
)
def test_a_newcomers_file_does_what_the_method_of_fedcell_does(small, text, built_in):
    problem = small({"data.partition": "shards", "world.availability": 0.7}, rounds=3)
    mine, theirs = (list(simulate(problem, methods.parse(one).build())) for one in (text, built_in))
    assert [row.uplink_bit for row, _ in mine] == [row.uplink_bit for row, _ in theirs]
    torch.testing.assert_close(mine[-1][1].params, theirs[-1][1].params, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("path", [ADAM, FAIR, VARIATES, LARGEST])
def test_examples_are_short(path):
    assert len(Path(path).read_text().splitlines()) < 60


@pytest.mark.parametrize("text", [ADAM, FAIR, f"{ADAM}+topk:fraction=0.2"])
@pytest.mark.parametrize("world", contract.WORLDS)
def test_they_keep_the_contract_in_every_world(small, text, world):
    contract.test_runs_within_budgets_and_repeats(small, methods.parse(text).build(), world)


@pytest.mark.parametrize("text", [ADAM, FAIR])
def test_they_learn_and_turn_a_bad_update_away(small, text, request):
    contract.test_learns(small, methods.parse(text).build(), request)
    contract.test_bad_update_is_turned_away(small, methods.parse(text).build())


# ---------------------------------------------------------------- the scheduler file


@pytest.mark.parametrize("world", contract.WORLDS)
def test_turns_keep_the_contract_in_every_world(small, world):
    contract.test_runs_within_budgets_and_repeats(small, methods.parse(TURNS).build(), world)


def test_everybody_has_a_turn_before_anybody_has_two(small):
    problem, asked = small({"world.n_devices": 6, "rounds": 6}), []
    method = methods.parse(f"{TURNS}:n_asked=2").build()

    def spy(problem, state, observation):
        found = method.decide(problem, state, observation)
        asked.append(found.selected)
        return found

    list(simulate(problem, method._replace(decide=spy)))
    for start in (0, 3):
        assert sum(asked[start : start + 3]).tolist() == [1] * 6


def test_a_method_file_may_have_its_types_as_texts(tmp_path):
    file = tmp_path / "copy.py"  # a name that another module has
    head, line, rest = (EXAMPLES / "server_momentum.py").read_text().partition("from dataclasses import")
    file.write_text(head + LATER + "from copy import copy\n" + line + rest)
    module = methods.load(str(file))
    assert methods.parse(f"{file}:beta=0.25").config.beta == 0.25
    assert [kind for _, kind, *_ in options.describe(module.Config())][-1] == "a number"
    with pytest.raises(BadInput, match=r"copy\.beta = 'much' is not a number"):
        methods.parse(f"{file}:beta=much")
    assert not [name for name in sys.modules if name.endswith(".copy") and name.startswith("file.")]
