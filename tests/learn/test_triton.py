"""Kernels of our own on a real GPU, held to double precision, to the draws of a CPU, and to its training."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedcell.learn.architecture import Architecture
from fedcell.learn.batches import draw_batches
from fedcell.learn.engines import batched
from fedcell.learn.engines.common import Job
from fedcell.learn.engines.gpu.cuda_graphs import Replays
from fedcell.learn.engines.gpu.kernels import kernels
from fedcell.learn.samples import Samples
from fedcell.learn.work import Work
from fedcell.machine import precision
from fedcell.types import Store

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

LAYERS = {  # batch, channels, height, width, channels behind, kernel, padding
    "LeNet 1": (32, 1, 28, 28, 10, 5, 0),
    "LeNet 2": (32, 10, 12, 12, 20, 5, 0),
    "CNN 1": (32, 3, 32, 32, 32, 3, 1),
    "CNN 2": (32, 32, 16, 16, 64, 3, 1),
    "wide": (8, 40, 9, 7, 130, 3, 1),
    "single pixels": (3, 5, 6, 6, 7, 1, 0),
    "large kernel": (2, 3, 20, 11, 4, 7, 3),
}
MODES = {"float32": (False, 1e-6), "tf32": (True, 3e-3)}


def apart(found, wanted):
    return float((found.double() - wanted).norm().detach() / wanted.norm().detach())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_rows", [2, 300])
@pytest.mark.parametrize("layer", LAYERS)
def test_convolutions_agree_with_double_precision(layer, n_rows, mode):
    tf32, most = MODES[mode]
    batch, n_in, height, width, n_out, kernel, padding = LAYERS[layer]
    way = kernels("pooled_conv", torch.device("cuda"))
    torch.manual_seed(1)
    x = torch.randn(n_rows, batch, height, width, n_in, device="cuda")
    weight = torch.randn(n_rows, n_out, n_in, kernel, kernel, device="cuda") / (n_in * kernel**2) ** 0.5
    bias = torch.randn(n_rows, n_out, device="cuda")
    with precision(tf32):
        out, place = way.forward(x, weight, bias, padding)
        gradient = torch.where(out > 0, torch.randn_like(out), 0.0)
        towards = way.spread(gradient, place)
        found = way.towards_weight(x, weight, towards, padding)
        back = way.towards_input(towards, weight, padding, height, width)
    for row in (0, n_rows - 1):
        image, own = (value[row].double().requires_grad_() for value in (x.movedim(-1, 2), weight))
        whole = functional.conv2d(image, own, bias[row].double(), padding=padding)
        assert apart(out[row].movedim(-1, 1), functional.max_pool2d(whole, 2).relu()) < most
        at = towards[row].movedim(-1, 1).double()
        wanted = torch.autograd.grad(whole[:, :, : at.shape[2], : at.shape[3]], (image, own), at)
        assert apart(back[row].movedim(-1, 1), wanted[0]) < most
        assert apart(found[row], wanted[1]) < most
    taken = functional.avg_pool2d(towards.flatten(0, 1).movedim(-1, 1), 2) * 4
    assert torch.equal(taken.movedim(1, -1).unflatten(0, (n_rows, batch)), gradient)


@pytest.mark.parametrize("most", [1, 40, 300, 2048])
def test_shuffles_are_those_of_a_cpu(most):
    rng, way = np.random.default_rng(most), kernels("shuffles", torch.device("cuda"))
    store = Store(rng.integers(0, 9999, (200, most)), rng.integers(1, most + 1, 200))
    work = Work(rng.permutation(10**6)[:200], store, rng.integers(1, 6, 200), lr=0.1, batch_size=16, round=7)
    assert way.fits(work)
    flat, start = draw_batches(store, work.device, work.steps * 16, "shuffle", 3, 7)
    found = way.draw(work, 3, torch.device("cuda")).cpu().numpy()
    for row, steps in enumerate(work.steps):
        wanted = flat[start[row] : start[row] + 16 * steps].reshape(steps, 16)
        np.testing.assert_array_equal(found[:steps, row], wanted)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("n_in", "n_out", "batch_size"), [(784, 10, 10), (70, 3, 1), (200, 62, 64)])
def test_regression_trains_as_on_a_cpu(n_in, n_out, batch_size, bias, together):
    rng = np.random.default_rng(1)
    layout = Architecture.of(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(n_in, n_out, bias=bias)))
    x, y = rng.random((500, n_in)).astype(np.float32), rng.integers(0, n_out, 500)
    store = Store(rng.integers(0, 500, (90, 20)), rng.integers(5, 21, 90))
    work = Work(np.arange(90), store, rng.integers(1, 6, 90), lr=0.05, batch_size=batch_size, round=0)
    points = torch.randn(1 if together else 4, layout.n_params, generator=torch.Generator().manual_seed(1)) * 0.1
    of_row, found = rng.integers(0, len(points), 90), []
    for name in ("cpu", "cuda"):
        device = torch.device(name)
        out = torch.full((90, layout.n_params), 9.0, device=device)
        job = Job(layout, Samples(x, y, device), points.to(device), of_row, work, "shuffle", 1, out, Replays())
        batched.train(job)
        found.append(out.cpu())
        assert not job.replays._kept, "one kernel does it all"
    assert float(((found[1] - found[0]).norm(dim=1) / found[0].norm(dim=1)).max()) < 1e-4
