"""More networks as users have them, of kinds that `zoo.py` has none of, to see how far its times carry over."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from zoo import CIFAR, SERIES, Beside, Net, Skip, head, normed, squeezed


def bottleneck() -> nn.Module:
    """A ResNet whose blocks narrow their channels first, as ResNet-50."""
    parts: list[nn.Module] = [normed(3, 32, 3, act=nn.ReLU(inplace=True))]
    n_in = 32
    for width, stride in ((16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        first = normed(n_in, width, 1, act=nn.ReLU(inplace=True))
        middle = normed(width, width, 3, stride, act=nn.ReLU(inplace=True))
        past = normed(n_in, 4 * width, 1, stride) if stride > 1 or n_in != 4 * width else None
        parts.append(Skip(nn.Sequential(first, middle, normed(width, 4 * width, 1)), past, nn.ReLU(inplace=True)))
        n_in = 4 * width
    return nn.Sequential(*parts, *head(n_in))


def inverted(act: Callable[[], nn.Module], excite: bool, first_stride: int) -> nn.Module:
    """Inverted residuals with kernels of 3 and 5, as in EfficientNet or MobileNetV3."""
    n_in = 24 if excite else 16
    parts: list[nn.Module] = [normed(3, n_in, 3, first_stride, act=act())]
    for width, stride, kernel in ((16, 1, 3), (24, 2, 3), (24, 1, 3), (40, 2, 5), (40, 1, 5)):
        mid = 4 * n_in
        body: list[nn.Module] = [normed(n_in, mid, 1, act=act()), normed(mid, mid, kernel, stride, mid, act())]
        body += [squeezed(mid, nn.SiLU())] if excite else []
        block = nn.Sequential(*body, normed(mid, width, 1))
        parts.append(Skip(block) if stride == 1 and n_in == width else block)
        n_in = width
    return nn.Sequential(*parts, normed(40, 160, 1, act=act()), *head(160))


def gelu_net() -> nn.Module:
    """Group norms and GELUs, halved by convolutions with steps of 2."""
    parts: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1)]
    n_in = 32
    for width in (32, 64, 128):
        parts += [nn.GroupNorm(8, n_in), nn.GELU(), nn.Conv2d(n_in, width, 3, padding=1)]
        parts += [nn.GroupNorm(8, width), nn.GELU(), nn.Conv2d(width, width, 3, 2, 1)]
        n_in = width
    return nn.Sequential(*parts, nn.GroupNorm(8, n_in), nn.GELU(), *head(n_in))


def inception() -> nn.Module:
    """Branches beside each other, with kernels of 1 x 7 and 7 x 1, average pools and odd numbers of channels."""

    def mixed(n_in: int) -> nn.Module:
        long = nn.Sequential(nn.Conv2d(n_in, 20, (1, 7), padding=(0, 3)), nn.Conv2d(20, 20, (7, 1), padding=(3, 0)))
        pooled = nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(n_in, 12, 1))
        branches = normed(n_in, 18, 1), nn.Sequential(normed(n_in, 14, 1), normed(14, 22, 3)), long, pooled
        return nn.Sequential(Beside(*branches), nn.BatchNorm2d(72), nn.LeakyReLU(0.1))

    parts = mixed(3), nn.MaxPool2d(3, 2, 1), mixed(72), nn.MaxPool2d(3, 2, 1), mixed(72)
    return nn.Sequential(*parts, *head(72))


class Dilated(nn.Module):
    """A temporal convolutional network: kernels of 3 whose taps lie further apart from layer to layer."""

    def __init__(self, width: int = 64, depth: int = 5) -> None:
        super().__init__()
        sizes = [9] + [width] * (depth - 1)
        self.layers = nn.ModuleList(
            nn.Conv1d(n_in, width, 3, padding=2**at, dilation=2**at) for at, n_in in enumerate(sizes)
        )
        self.drop, self.out = nn.Dropout(0.1), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        for place, layer in enumerate(self.layers):
            y = self.drop(functional.relu(layer(x)))
            x = x + y if place else y
        found: Tensor = self.out(x.mean(-1))
        return found


class ConvolutionalCell(nn.Module):
    """An LSTM whose gates are convolutions, over the four quarters of an image."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width, self.gates, self.out = width, nn.Conv2d(3 + width, 4 * width, 3, padding=1), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(len(x), self.width, 16, 16)
        for down, right in ((0, 0), (0, 16), (16, 0), (16, 16)):
            part = x[:, :, down : down + 16, right : right + 16]
            take, keep, show, new = self.gates(torch.cat([part, h], 1)).chunk(4, 1)
            c = keep.sigmoid() * c + take.sigmoid() * new.tanh()
            h = show.sigmoid() * c.tanh()
        found: Tensor = self.out(h.mean((2, 3)))
        return found


NETS = {
    "resnet-bottleneck": Net(CIFAR, bottleneck),
    "efficientnet": Net(CIFAR, lambda: inverted(nn.SiLU, True, 2)),
    "mobilenet-hardswish": Net(CIFAR, lambda: inverted(nn.Hardswish, False, 1)),
    "gelu-groupnorm": Net(CIFAR, gelu_net, 16),
    "inception-odd": Net(CIFAR, inception, 16),
    "tcn": Net(SERIES, Dilated),
    "conv-lstm": Net(CIFAR, ConvolutionalCell, 16),
}
