"""Options of local training in every method: they count, or are refused by name before anything is simulated."""

import numpy as np
import pytest
import torch

import fedcell
from fedcell import methods, radio, world
from fedcell.errors import BadInput
from fedcell.learn.learner import Learner
from fedcell.learn.settings import TrainConfig
from fedcell.methods.parts.contributions import rows_of
from fedcell.methods.parts.resources import epoch_steps
from fedcell.options import from_dict, to_dict
from fedcell.record import tree
from fedcell.simulate import begin, simulate

SETTINGS = {
    "weight_decay": {"train.weight_decay": 0.1},
    "clip": {"train.clip": 0.05},
    "optimiser": {"train.optimiser": "adamw", "train.lr": 0.01},
    "augment": {"train.augment": "crop_flip", "train.crop_padding": 2},
    "schedule": {"train.schedule": "step", "train.lr_every": 1, "train.lr_factor": 0.3},
    "epochs": {"train.epochs": 3},
}
REFUSED = {
    *((name, "optimiser") for name in ("osafl", "m_fednova", "m_afa_cd", "fednova", "scaffold", "cafe", "recycling")),
    *((name, "optimiser") for name in ("pruning", "representativity")),
    *((name, "epochs") for name in ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco")),
    *((name, "epochs") for name in ("rawhfl", "h_fedavg")),
    ("apfl", "clip"),
}
WORLD = {"model.name": "mlp", "model.hidden": (12,), "data.partition": "dirichlet", "rounds": 2, "train.lr": 0.1}


def end_of(problem, method):
    *_, (_, after) = simulate(problem, methods.parse(method).build())
    return after


def values(after):
    """All numbers of a model and of what its method remembers."""
    _, found = tree.pack(after.method, tree.classes(after.method), torch.device("cpu"))
    return {"params": after.params} | found


def test_new_methods_are_in_the_table():
    assert {name for name, _ in REFUSED} <= set(methods.names())


@pytest.mark.parametrize("name", [name for name in methods.names() if name != "top_popular"])
@pytest.mark.parametrize("option", SETTINGS)
def test_every_option_counts_or_is_refused(small, name, option):
    problem = small(WORLD | SETTINGS[option])
    if (name, option) in REFUSED:
        with pytest.raises(BadInput, match=f"train.{option} = ") as refusal:
            begin(problem, methods.parse(name).build())
        assert name in str(refusal.value) or "the m_* methods" in str(refusal.value)
        assert ": " in str(refusal.value)
        return
    plain = WORLD | ({"train.lr": 0.01} if option == "optimiser" else {})
    ends = [end_of(small(settings), name) for settings in (plain, plain | SETTINGS[option])]
    before, after = map(values, ends)
    assert before.keys() == after.keys()
    moved = [
        key for key in after if before[key].shape != after[key].shape or not torch.allclose(before[key], after[key])
    ]
    assert moved, "the option must matter"
    assert all(part.isfinite().all() for part in after.values())


@pytest.mark.parametrize("name", [name for name in methods.names() if name != "top_popular"])
def test_a_scheduled_rate_is_the_rate_of_its_round(small, name):
    """In the only round of a run, half of the rate by a ramp is half of the rate: also for what is divided by it."""
    ramp = small(WORLD | {"rounds": 1, "train.lr": 0.2, "train.warmup": 1})
    half = small(WORLD | {"rounds": 1, "train.lr": 0.1})
    found, expected = values(end_of(ramp, name)), values(end_of(half, name))
    assert found.keys() == expected.keys()
    for key in found:
        assert torch.equal(found[key], expected[key]), key


def test_gradients_of_earlier_rounds_are_used_at_the_rate_of_the_present(small):
    """FL-GR keeps gradients: `w - lr_1 mean(G)` of all devices, those that were heard in round 0 alone included."""
    step = {"train.schedule": "step", "train.lr_every": 1, "train.lr_factor": 0.3, "world.availability": 0.6}
    problem = small(WORLD | step)
    (_, first), (row, second) = simulate(problem, methods.parse("recycling").build())
    kept, everyone = second.method.kept, np.arange(problem.world.n_devices)
    assert kept.seen.sum() > row.n_delivered > 0, "some gradient must be an old one"
    mean = rows_of(kept, everyone, first.params).sum(dim=0) / problem.world.n_devices
    torch.testing.assert_close(second.params, first.params - 0.1 * 0.3 * mean)
    old = np.setdiff1d(np.flatnonzero(kept.seen), [k for k, letter in enumerate(row.outcome) if letter == "D"])
    torch.testing.assert_close(
        rows_of(kept, old, first.params), rows_of(first.method.kept, old, first.params), rtol=0, atol=0
    )


# ---------------------------------------------------------------- epochs


@pytest.mark.parametrize("batch_size", [0, 7])
def test_epochs_are_steps_by_the_size_of_a_store(small, batch_size):
    problem = small(WORLD | {"train.epochs": 3, "train.batch_size": batch_size})
    method = methods.parse("fedavg").build()
    observation, _ = world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, 0)
    decision = method.decide(problem, None, observation)
    size = observation.store.size
    assert len(set(size.tolist())) > 1
    for device, n in enumerate(size.tolist()):
        walked = 3 * n  # samples of three passes, in batches of seven
        expected = 3 if batch_size == 0 else len(range(0, walked, batch_size))
        assert decision.steps[device] == expected
    uplink = radio.transmit(problem.world, observation, decision, problem.seed)
    cycles = decision.steps * (size if batch_size == 0 else batch_size) * observation.devices.cycles_per_sample
    np.testing.assert_allclose(uplink.compute_s, cycles / decision.cpu_hz)
    np.testing.assert_allclose(uplink.compute_joule, observation.devices.capacitance * cycles * decision.cpu_hz**2)


@pytest.mark.parametrize(
    "name", ["fedavg", "fednova", "scaffold", "knowledge:batch_size=8", "recycling", "representativity", "cafe"]
)
def test_epochs_of_equal_stores_are_steps(small, name):
    """Twelve samples each, in batches of eight: two passes are three steps."""
    counts = {"data.partition": "counts", "data.counts": "12,12,12,12,12,12", "train.batch_size": 8, "rounds": 2}
    epochs, steps = (small(WORLD | counts | more) for more in ({"train.epochs": 2}, {"train.steps": 3}))
    (one, end), (other, same) = (list(simulate(problem, methods.parse(name).build())) for problem in (epochs, steps))
    assert [row for row, _ in (one, end)] == [row for row, _ in (other, same)]
    assert torch.equal(end[1].params, same[1].params)


def test_central_epochs_are_passes_over_all_samples(small):
    counts = {"data.partition": "counts", "data.counts": "12,12,12,12,12,12", "train.batch_size": 4}
    epochs, steps = (small(WORLD | counts | more) for more in ({"train.epochs": 2}, {"train.steps": 6}))
    assert torch.equal(end_of(epochs, "central").params, end_of(steps, "central").params)


def test_epoch_steps_by_hand():
    assert epoch_steps(2, np.array([0, 1, 8, 9]), 8).tolist() == [1, 1, 2, 3]
    assert epoch_steps(2, np.array([0, 1, 8, 9]), 0).tolist() == [2, 2, 2, 2]


def test_steps_of_a_method_and_epochs_of_the_run_are_refused(small):
    problem = small(WORLD | {"train.epochs": 2})
    with pytest.raises(BadInput, match=r"train.epochs = 2 and fedavg.steps = 5 both say .*: set train.epochs=0 or"):
        end_of(problem, "fedavg:steps=5")


@pytest.mark.parametrize("method", ["fedavg", "central"])
def test_momentum_of_a_method_and_adamw_are_refused(small, method):
    problem = small(WORLD | SETTINGS["optimiser"])
    with pytest.raises(BadInput, match=rf"{method}.momentum = 0.9 does not go with train.optimiser = 'adamw'"):
        end_of(problem, f"{method}:momentum=0.9")


# ---------------------------------------------------------------- masks, records


def test_agreed_scores_are_those_of_samples_as_they_are(small, monkeypatch):
    """FedKD's devices learn the scores of public samples, which belong to unchanged images in their order."""
    problem, seen, train = small(WORLD | SETTINGS["augment"]), [], Learner.train

    def watched(self, start, work):
        seen.append((work.objective is not None, work.augment))
        return train(self, start, work)

    monkeypatch.setattr(Learner, "train", watched)
    end_of(problem, "fedkd")
    assert set(seen) == {(True, False), (False, True)}


def test_frozen_parts_do_not_decay(small):
    """FedRep's head stands still while the body trains, and the other way round."""
    kept = end_of(small(WORLD | {"train.weight_decay": 5.0, "train.lr": 0.02}), "fedrep")
    plain = end_of(small(WORLD | {"train.lr": 0.02}), "fedrep")
    assert kept.params.norm() < plain.params.norm()


def test_settings_travel_into_the_record(tmp_path):
    asked = {"train.weight_decay": 5e-4, "train.schedule": "cosine", "train.epochs": 1, "train.clip": 1, "rounds": 2}
    (record,) = fedcell.run("fedavg", "cell", {**asked, "world.n_devices": 4}, out=str(tmp_path / "out"))
    train = record.config["train"]
    assert {
        f"train.{key}": train[key] for key in ("weight_decay", "schedule", "epochs", "clip")
    }.items() <= asked.items()


def test_records_from_before_have_the_defaults():
    old = {"lr": 0.3, "steps": 4, "batch_size": 8, "momentum": 0.5}
    assert from_dict(TrainConfig(), old) == TrainConfig(lr=0.3, steps=4, batch_size=8, momentum=0.5)
    assert from_dict(TrainConfig(), to_dict(TrainConfig(optimiser="adamw", clip=2.0))).clip == 2.0


@pytest.mark.parametrize(
    ("key", "value"), [("clip", -1), ("schedule", "cosin"), ("beta2", 1), ("epochs", 1.5), ("augment", "cutout")]
)
def test_values_out_of_range_are_refused(small, key, value):
    with pytest.raises(BadInput, match=f"train.{key} = "):
        small({f"train.{key}": value})
