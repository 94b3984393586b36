"""Gradients that lie as the images that they meet."""

import pytest
import torch
from test_traced import Bench
from torch import nn
from users_networks import IMAGE, N_CLASSES

from fedcell.learn.engines.cpu import layouts
from fedcell.learn.engines.cpu.fusion import needed
from fedcell.learn.engines.cpu.layouts import laid_out
from fedcell.learn.engines.cpu.native import norm_relu
from fedcell.learn.engines.cpu.native.norm_relu import with_relus
from fedcell.learn.engines.cpu.trace import aten

WIDTH = 12


class Ending(nn.Module):
    """Skips and joined parts, before a mean over pixels."""

    def __init__(self):
        super().__init__()
        self.begin, self.body = nn.Conv2d(IMAGE[0], WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.out = nn.Linear(2 * WIDTH, N_CLASSES)

    def forward(self, x):
        x = self.begin(x)
        x = x + torch.tanh(self.body(x).sigmoid() * x)
        return self.out(torch.cat([x, x.relu()], 1).mean((2, 3)))


def lists(bench):
    """The kernels of a network as they were noted, and laid out."""
    trace = bench.found().trace
    return needed(trace), laid_out(needed(trace), trace)


def turned(ops):
    """How many kernels find images that do not lie channels-last."""
    made = [op.writes[0] for op in ops if op.func.overloadpacket in layouts.ENTRYWISE]
    return sum(len(one.size) == 4 and one.stride != layouts._channels_last(one.size) for one in made)


def test_no_gradient_lies_otherwise_than_the_images_that_it_meets():
    before, after = lists(Bench(Ending, IMAGE))
    assert turned(before) > 2
    assert turned([op for op in after if op.func not in layouts.SCALED]) == 0


def test_a_mean_is_divided_before_it_is_spread():
    before, after = lists(Bench(Ending, IMAGE))
    sizes = [[op.writes[0].size for op in ops if op.func is aten.div.Scalar] for ops in (before, after)]
    assert any(size[2:] == IMAGE[1:] for size in sizes[0])
    assert not any(size[2:] == IMAGE[1:] for size in sizes[1])


@pytest.mark.parametrize("native", [True, False])
def test_such_networks_train_as_in_the_debug_engine(native, monkeypatch):
    if not native:
        monkeypatch.setattr("fedcell.learn.engines.cpu.native.lowering.library", lambda file: None)
    Bench(Ending, IMAGE).check()


class Changed(nn.Module):
    """A spread number that is scaled and then changed in place has to have an entry for every pixel."""

    def forward(self, x):
        spread = x.mean((2, 3), keepdim=True).expand(x.shape) * 2.0
        spread[:, :, 0].add_(x[:, :, 1])
        return spread + x


def test_what_changes_later_is_spread_at_once():
    pixels = (IMAGE[1] - 2) * (IMAGE[2] - 2)

    def build():
        dense = nn.Flatten(), nn.Linear(WIDTH * pixels, N_CLASSES)
        return nn.Sequential(nn.Conv2d(IMAGE[0], WIDTH, 3), Changed(), *dense)

    Bench(build, IMAGE).check()


def test_batch_norms_do_not_read_what_their_relus_found(compiler):
    def build():
        norms = (nn.Sequential(nn.Conv2d(n, 8, 3), nn.BatchNorm2d(8), nn.ReLU()) for n in (IMAGE[0], 8))
        return nn.Sequential(*norms, nn.Flatten(), nn.Linear(8 * (IMAGE[1] - 4) * (IMAGE[2] - 4), N_CLASSES))

    bench = Bench(build, IMAGE)
    ops = with_relus(lists(bench)[1])
    fused = [op for op in ops if op.func is norm_relu.BATCH_NORM_BACK and len(op.args) > norm_relu.N_ARGUMENTS]
    outputs = {op.outs[0] for op in ops if op.func is norm_relu.BATCH_NORM}
    assert len(fused) == 1  # the other gradient comes from dense layers, and lies otherwise
    assert fused[0].args[-2] is None
    assert not outputs & {*fused[0].reads}
    bench.check()
