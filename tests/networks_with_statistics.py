"""Networks that keep running statistics, written as people write them: ResNet-18, MobileNetV2, and small ones."""

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

from resnet18 import resnet18

__all__ = ["Centred", "MobileNetV2", "resnet18", "small"]


def small(n_classes=7, relu=nn.Tanh):
    """Both kinds of batch norm, smooth: a ReLU that flips by rounding shows in the updates."""
    first = nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5, momentum=0.3), relu(), nn.AvgPool2d(2)
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(125, 6), nn.BatchNorm1d(6), relu(), nn.Linear(6, n_classes))


class Centred(nn.Module):
    """A layer of somebody's own: it takes away a running mean, and puts a new tensor in the place of the old one."""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))

    def forward(self, x):
        if self.training:
            self.mean = 0.8 * self.mean + 0.2 * x.detach().mean(0)
        return x - self.mean


class Inverted(nn.Module):
    """MobileNetV2's block: widen, a convolution of each channel by itself, narrow, and a way around."""

    def __init__(self, n_in, n_out, stride, expand):
        super().__init__()
        wide = n_in * expand
        layers = []
        if expand != 1:
            layers += [nn.Conv2d(n_in, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True)]
        layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide)]
        layers += [nn.ReLU6(inplace=True), nn.Conv2d(wide, n_out, 1, bias=False), nn.BatchNorm2d(n_out)]
        self.conv = nn.Sequential(*layers)
        self.around = stride == 1 and n_in == n_out

    def forward(self, x):
        return x + self.conv(x) if self.around else self.conv(x)


class MobileNetV2(nn.Module):
    """The whole of it at `width` 1, with `n_classes` outputs; `stages` are (expand, channels, blocks, stride)."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, n_classes=10, width=1.0, channels=3, stages=STAGES, dropout=0.0):
        super().__init__()
        n, last = max(int(32 * width), 1), max(int(1280 * width), 4)
        layers = [nn.Conv2d(channels, n, 3, 1, 1, bias=False), nn.BatchNorm2d(n), nn.ReLU6(inplace=True)]
        for expand, wide, blocks, stride in stages:
            for place in range(blocks):
                out = max(int(wide * width), 1)
                layers.append(Inverted(n, out, 1 if place else stride, expand))
                n = out
        layers += [nn.Conv2d(n, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, n_classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))
