"""Networks of the tasks that are no plain chain of layers."""

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS, LENGTH = 1500, 20  # a vocabulary, and the words of a sample


class Block(nn.Module):
    """Two convolutions with group norms beside a skip, as in ResNets for CIFAR-10."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.GroupNorm(n_out // 4, n_out) for _ in range(2)])
        self.skip = nn.Sequential()
        if stride > 1:
            self.skip = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.GroupNorm(n_out // 4, n_out))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.skip(x))


def resnet() -> list[nn.Module]:
    """ResNet-8 with 16, 32 and 64 channels and group norms of four channels."""
    begin = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(4, 16), nn.ReLU()
    blocks = Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)
    return [*begin, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]


class Layer(nn.Module):
    """Attention and two dense layers, each beside a skip and behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(*parts)
        x = x + self.mix(found.transpose(1, 2).reshape(n, length, width))
        return x + self.back(functional.gelu(self.wide(self.norms[1](x))))


class Words(nn.Module):
    """From the numbers of words to vectors that know their places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Parameter(torch.zeros(LENGTH, width))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.words(x.long()) + self.places
        return found


class Mean(nn.Module):
    """Over the words of a sample."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def transformer() -> list[nn.Module]:
    """Four layers of 128 numbers and 4 heads over 20 words: 989,194 parameters."""
    return [Words(128), *(Layer(128, 4) for _ in range(4)), nn.LayerNorm(128), Mean(), nn.Linear(128, 10)]
