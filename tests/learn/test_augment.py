"""Random crops and flips: the same for every engine, and those of a plain loop over pixels."""

import numpy as np
import pytest
import torch
from test_engines import MODELS, N_CLASSES, agree, architecture, as_cohort, learner, points, samples, work
from torch import nn

from fedcell.errors import BadInput
from fedcell.learn.architecture import trainable
from fedcell.learn.augment import Augmented, Changes
from fedcell.learn.batches import draw_batches
from fedcell.learn.engines import batched
from fedcell.learn.engines.sharded import Packed
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.rng import uniforms
from fedcell.types import Start

N_ROWS = 6
KINDS = {"crop": Changes(2, False), "flip": Changes(0, True), "crop_flip": Changes(2, True)}


def by_hand(image, change, changes):
    """One changed image, pixel by pixel: `change` counts shifts to the right, then down, then flips."""
    n = 2 * changes.padding + 1
    flipped, shift = divmod(change, n * n)
    down, right = (part - changes.padding for part in divmod(shift, n))
    _, height, width = image.shape
    out = np.zeros_like(image)
    for i in range(height):
        for j in range(width):
            y, x = i + down, (width - 1 - j if flipped else j) + right
            if 0 <= y < height and 0 <= x < width:
                out[:, i, j] = image[:, y, x]
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 5, 6), (1, 4, 4)])
def test_every_change_is_a_shift_and_a_flip(kind, shape):
    changes = KINDS[kind]
    images = np.random.default_rng(1).standard_normal((changes.n, *shape)).astype(np.float32)
    found = changes.apply(torch.from_numpy(images), torch.arange(changes.n))
    assert changes.n == {"crop": 25, "flip": 2, "crop_flip": 50}[kind]
    for number, image in enumerate(images):
        np.testing.assert_array_equal(found[number].numpy(), by_hand(image, number, changes))


def test_all_changes_are_drawn_and_depend_on_device_and_place_alone():
    changes = KINDS["crop_flip"]
    device, place = np.repeat(np.arange(40), 100), np.tile(np.arange(100), 40)
    drawn = changes.draw(1, 2, device, place)
    counts = np.bincount(drawn, minlength=changes.n)
    assert len(counts) == changes.n
    assert counts.min() > 40  # 80 on average
    some = np.random.default_rng(2).permutation(len(drawn))[:50]
    np.testing.assert_array_equal(changes.draw(1, 2, device[some], place[some]), drawn[some])
    assert (changes.draw(1, 3, device, place) != drawn).mean() > 0.9


VARIANTS = {"batches": {}, "full batch": {"batch_size": 0}, "momentum": {"momentum": 0.8, "steps": np.full(N_ROWS, 3)}}


def start_of(model):
    return Start(points(model, 3), np.array([0, 2, 1, 1, 0, 2]))


def cases():
    for model in ("mlp", "cnn"):
        for engine in ("sequential", "vmap", *(["batched", "cohort"] if model == "mlp" else [])):
            for variant in VARIANTS:
                yield model, engine, variant


@pytest.mark.parametrize(("model", "engine", "variant"), list(cases()))
def test_agrees_with_debug(model, engine, variant, monkeypatch):
    if engine == "cohort":
        monkeypatch.setattr(batched, "_train_chunk", as_cohort)
        engine = "batched"
    settings = {"augment": "crop_flip", "crop_padding": 2, "workers": 1}
    start, fast, slow = start_of(model), learner(model, engine, **settings), learner(model, "debug", **settings)
    for round in range(2):
        job = work(**VARIANTS[variant], round=round, augment=True)
        expected = slow.train(start, job).delta
        agree(fast.train(start, job).delta, expected)
        plain = slow.train(start, job._replace(augment=False)).delta
        agree(fast.train(start, job._replace(augment=False)).delta, plain)
        assert not torch.allclose(expected, plain, atol=1e-3), "changes must matter"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_size", [8, 0])
def test_the_plain_loop_sees_the_images_that_were_drawn(kind, batch_size):
    """Every sample is changed anew in every step, by its place among the draws of its device."""
    start, job = start_of("cnn"), work(augment=True, batch_size=batch_size)
    data, layout = samples(MODELS["cnn"][1]), architecture("cnn")
    one = learner("cnn", "debug", augment=kind, crop_padding=2)
    found = one.train(start, job).delta
    images = data.at(torch.arange(len(data))).contiguous().numpy()
    draws, first = draw_batches(job.store, job.device, job.steps * max(batch_size, 1), "shuffle", 4, job.round)
    for row in range(N_ROWS):
        size = batch_size or int(job.store.size[row])
        module, begin = layout.replica(torch.device("cpu")), start.points[start.of_row[row]]
        nn.utils.vector_to_parameters(begin.clone(), trainable(module))
        optimizer = torch.optim.SGD(module.parameters(), job.lr)
        for step in range(job.steps[row]):
            index = draws[first[row] + step * size :][:size] if batch_size else job.store.items[row, :size]
            place = np.arange(step * size, (step + 1) * size)
            chance = uniforms(4, job.round, "augment", np.full(size, job.device[row]), place)
            change = (chance * KINDS[kind].n).astype(int)
            x = np.stack([by_hand(images[i], int(c), KINDS[kind]) for i, c in zip(index, change, strict=True)])
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(torch.from_numpy(x)), data.y[index]).backward()
            optimizer.step()
        agree(found[row], nn.utils.parameters_to_vector(module.parameters()).detach() - begin)


def test_inputs_that_repeat_are_changed_each_by_itself():
    rng = np.random.default_rng(6)
    inputs = rng.integers(0, 12, 90)
    x = rng.standard_normal((12, 3, 8, 8)).astype(np.float32)[inputs]
    data = Samples(x, rng.integers(0, N_CLASSES, 90), torch.device("cpu"))
    found = []
    for data.inputs in (None, inputs):
        settings = TrainConfig(device="cpu", workers=1, augment="crop")
        one = Learner([architecture("mlp")], data, data, settings, seed=4)
        found.append(one.train(start_of("mlp"), work(augment=True)).delta.clone())
    assert torch.equal(*found)


@pytest.mark.parametrize("batch_size", [8, 0])
def test_a_rule_of_ones_own_gets_the_same_images(batch_size):
    job, one = work(augment=True, batch_size=batch_size), learner("cnn", "debug", augment="crop_flip")

    def descend(device, module, batches):
        optimizer = torch.optim.SGD(module.parameters(), job.lr)
        for x, y in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            optimizer.step()

    found = one.train(start_of("cnn"), job._replace(rule=descend)).delta
    agree(found, one.train(start_of("cnn"), job).delta)


def test_samples_that_travel_to_other_workers_keep_their_changes():
    data = samples((3, 8, 8))
    changed = Augmented.of(data, TrainConfig(augment="crop_flip"))
    back = Packed.of(changed).unpack()
    index = torch.arange(0, 90 * changed.changes.n, 77)
    for ours, theirs in zip(changed.take(index), back.take(index), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(changed.y_at(index), data.y[index % 90])


def test_what_is_no_image_is_refused():
    with pytest.raises(BadInput, match=r"train.augment = 'flip' needs images and samples have shape \(5,\)"):
        learner("lstm", "auto", augment="flip")
