"""Networks as users have them, none of which the engine was made for: what a sample is like, and how each is built."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS = 1000
CIFAR, MNIST, SPEECH, SERIES, TEXT, TABLE = (3, 32, 32), (1, 28, 28), (1, 40, 98), (9, 128), (64,), (100,)


class Net(NamedTuple):
    """A network and what it is trained on."""

    shape: tuple[int, ...]
    build: Callable[[], nn.Module]
    batch_size: int = 32
    task: str = "classification"


class Skip(nn.Module):
    """`x + body(x)`, or with another way past the body."""

    def __init__(self, body: nn.Module, past: nn.Module | None = None, then: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.past, self.then = body, past or nn.Identity(), then or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.then(self.past(x) + self.body(x))
        return found


class Beside(nn.Module):
    """Puts the outcomes of several parts side by side."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self.parts], 1)


class Do(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def normed(
    n_in: int, n_out: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> nn.Sequential:
    """A convolution, batch norm and perhaps an activation."""
    conv = nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(n_out), *([act] if act else []))


def head(width: int, n_out: int = 10) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, n_out)]


def resnet(widths: tuple[int, ...], blocks: int) -> nn.Module:
    """ResNet for small images with batch norm."""
    parts: list[nn.Module] = [normed(3, widths[0], 3, act=nn.ReLU(inplace=True))]
    n_in = widths[0]
    for place, width in enumerate(widths):
        for block in range(blocks):
            stride = 2 if place and not block else 1
            body = nn.Sequential(normed(n_in, width, 3, stride, act=nn.ReLU(inplace=True)), normed(width, width, 3))
            past = normed(n_in, width, 1, stride) if stride > 1 or n_in != width else None
            parts.append(Skip(body, past, nn.ReLU(inplace=True)))
            n_in = width
    return nn.Sequential(*parts, *head(n_in))


def mobile(act: Callable[[], nn.Module]) -> nn.Module:
    """Inverted residuals, as in MobileNetV2."""
    parts: list[nn.Module] = [normed(3, 16, 3, act=act())]
    n_in = 16
    for width, stride in ((16, 1), (24, 2), (24, 1), (40, 2), (40, 1), (80, 2), (80, 1)):
        mid = 4 * n_in
        body = nn.Sequential(
            normed(n_in, mid, 1, act=act()), normed(mid, mid, 3, stride, mid, act()), normed(mid, width, 1)
        )
        parts.append(Skip(body) if stride == 1 and n_in == width else body)
        n_in = width
    return nn.Sequential(*parts, normed(80, 160, 1, act=act()), *head(160))


def squeezed(width: int, act: nn.Module) -> nn.Module:
    """Squeeze and excite: channels are weighed by what the whole image is like."""

    class Weighed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            small = max(width // 4, 4)
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, small, 1), act, nn.Conv2d(small, width, 1), nn.Sigmoid()
            )

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = x * self.gate(x)
            return found

    return Weighed()


def excited() -> nn.Module:
    """A ResNet with squeeze and excite."""
    parts: list[nn.Module] = [normed(3, 32, 3, act=nn.SiLU())]
    for n_in, width, stride in ((32, 32, 1), (32, 64, 2), (64, 128, 2)):
        first = normed(n_in, width, 3, stride, act=nn.SiLU())
        body = nn.Sequential(first, normed(width, width, 3), squeezed(width, nn.SiLU()))
        parts.append(Skip(body, normed(n_in, width, 1, stride) if stride > 1 else None, nn.SiLU()))
    return nn.Sequential(*parts, *head(128))


def fire(n_in: int, small: int, width: int) -> list[nn.Module]:
    left = nn.Sequential(nn.Conv2d(small, width, 1), nn.ReLU())
    right = nn.Sequential(nn.Conv2d(small, width, 3, padding=1), nn.ReLU())
    return [nn.Conv2d(n_in, small, 1), nn.ReLU(), Beside(left, right)]


def squeezenet() -> nn.Module:
    begin = nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    middle = *fire(64, 16, 64), *fire(128, 16, 64), nn.MaxPool2d(3, 2, 1), *fire(128, 32, 128), *fire(256, 32, 128)
    return nn.Sequential(
        *begin, *middle, nn.MaxPool2d(3, 2, 1), *fire(256, 48, 192), nn.Conv2d(384, 10, 1), *head(10)[:2]
    )


def densenet(growth: int = 16, layers: int = 5) -> nn.Module:
    """DenseNet: what every layer finds stays beside what was there."""
    parts: list[nn.Module] = [nn.Conv2d(3, 2 * growth, 3, padding=1, bias=False)]
    width = 2 * growth
    for stage in range(3):
        for _ in range(layers):
            conv = nn.Conv2d(width, growth, 3, padding=1, bias=False)
            parts.append(Beside(nn.Identity(), nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), conv)))
            width += growth
        if stage < 2:
            parts += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    return nn.Sequential(*parts, nn.BatchNorm2d(width), nn.ReLU(), *head(width))


class ChannelNorm(nn.Module):
    """Layer norm over the channels of every pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return found


class NextBlock(nn.Module):
    """A block of ConvNeXt: depthwise 7 x 7, norm, and two dense layers at every pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depth, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.down(functional.gelu(self.up(y)))).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, 32, 4, 4), ChannelNorm(32), NextBlock(32), NextBlock(32)]
    parts += [ChannelNorm(32), nn.Conv2d(32, 64, 2, 2), NextBlock(64), NextBlock(64)]
    parts += [ChannelNorm(64), nn.Conv2d(64, 128, 2, 2), NextBlock(128)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(128), nn.Linear(128, 10))


class Attending(nn.Module):
    """A layer of a transformer, with attention by hand or as PyTorch's kernel."""

    def __init__(self, width: int, heads: int, causal: bool = False, by_hand: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.by_hand = heads, causal, by_hand
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.body = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if self.by_hand:
            weights = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
            if self.causal:
                weights = weights.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
            found = weights.softmax(-1) @ v
        else:
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.mix(found.transpose(1, 2).reshape(n, length, width))
        added: Tensor = x + self.body(self.norms[1](x))
        return added


class Patches(nn.Module):
    """Patches of an image as a sequence, behind a class token."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, size, size)
        self.token, self.places = (
            nn.Parameter(torch.zeros(1, 1, width)),
            nn.Parameter(0.02 * torch.randn(1, (32 // size) ** 2 + 1, width)),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.cut(x).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(len(x), -1, -1), y], 1) + self.places


def vit(layers: list[nn.Module], width: int) -> nn.Module:
    return nn.Sequential(Patches(width, 4), *layers, Do(lambda x: x[:, 0]), nn.LayerNorm(width), nn.Linear(width, 10))


def encoder(width: int, heads: int, depth: int, dropout: float = 0.0) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


class Words(nn.Module):
    """Tokens as vectors, with their places if asked for."""

    def __init__(self, width: int, length: int = 0) -> None:
        super().__init__()
        self.words, self.length = nn.Embedding(WORDS, width), length
        if length:
            self.places = nn.Embedding(length, width)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.words(x.long())
        return found + self.places(torch.arange(self.length)) if self.length else found


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module], width: int, layers: int, both: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 64)
        self.cells = kind(64, width, layers, batch_first=True, bidirectional=both)
        self.out = nn.Linear(width * (2 if both else 1), 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.cells(self.words(x.long()))[0][:, -1])
        return found


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, 128, mode="mean")
        self.out = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.bag(x.long()))
        return found


def series() -> nn.Module:
    """1-D convolutions over a time series."""
    parts: list[nn.Module] = []
    for n_in, n_out in ((9, 64), (64, 64), (64, 128)):
        parts += [nn.Conv1d(n_in, n_out, 5, padding=2), nn.BatchNorm1d(n_out), nn.ReLU(), nn.MaxPool1d(2)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 10))


def keywords() -> nn.Module:
    """DS-CNN: depthwise separable convolutions over spectrograms."""
    parts: list[nn.Module] = [nn.Conv2d(1, 64, (4, 10), 2, (1, 4), bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        parts += [normed(64, 64, 3, groups=64, act=nn.ReLU()), normed(64, 64, 1, act=nn.ReLU())]
    return nn.Sequential(*parts, nn.Dropout(0.0), *head(64))


def spoken() -> nn.Module:
    """1-D convolutions over the 40 bands of a spectrogram, with residuals."""

    def block() -> nn.Module:
        parts: list[nn.Module] = []
        for _ in range(2):
            parts += [nn.Conv1d(64, 64, 9, padding=4, bias=False), nn.BatchNorm1d(64), nn.ReLU()]
        return Skip(nn.Sequential(*parts[:-1]), then=nn.ReLU())

    begin = nn.Flatten(1, 2), nn.Conv1d(40, 64, 3, padding=1, bias=False)
    return nn.Sequential(*begin, block(), block(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10))


class UNet(nn.Module):
    """Down by pools, up by transposed convolutions or interpolation, with skips; then a class for the whole image."""

    def __init__(self, transposed: bool, width: int = 16) -> None:
        super().__init__()

        def twice(n_in: int, n_out: int) -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(n_in, n_out, 3, padding=1), nn.GroupNorm(4, n_out), nn.ReLU(),
                nn.Conv2d(n_out, n_out, 3, padding=1), nn.GroupNorm(4, n_out), nn.ReLU(),
            )  # fmt: skip

        def up(n_in: int, n_out: int) -> nn.Module:
            if transposed:
                return nn.ConvTranspose2d(n_in, n_out, 2, 2)
            return nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(n_in, n_out, 1)
            )

        w = width
        self.a, self.b, self.c = twice(3, w), twice(w, 2 * w), twice(2 * w, 4 * w)
        self.up_b, self.up_a = up(4 * w, 2 * w), up(2 * w, w)
        self.d, self.e = twice(4 * w, 2 * w), twice(2 * w, w)
        self.out = nn.Conv2d(w, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.a(x)
        b = self.b(functional.max_pool2d(a, 2))
        c = self.c(functional.max_pool2d(b, 2))
        d = self.d(torch.cat([b, self.up_b(c)], 1))
        e = self.e(torch.cat([a, self.up_a(d)], 1))
        found: Tensor = self.out(e).mean((2, 3))
        return found


def wide(width: int, dropout: float) -> nn.Module:
    hidden: list[nn.Module] = []
    for n_in in (784, width):
        hidden += [nn.Linear(n_in, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(dropout)]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, 10))


class Mixing(nn.Module):
    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.across = nn.Sequential(nn.Linear(length, 64), nn.GELU(), nn.Linear(64, length))
        self.within = nn.Sequential(nn.Linear(width, 256), nn.GELU(), nn.Linear(256, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        found: Tensor = x + self.within(self.norms[1](x))
        return found


def mixer() -> nn.Module:
    cut = nn.Sequential(nn.Conv2d(3, 96, 4, 4), nn.Flatten(2), Do(lambda x: x.transpose(1, 2)))
    return nn.Sequential(
        cut, *(Mixing(64, 96) for _ in range(4)), nn.LayerNorm(96), Do(lambda x: x.mean(1)), nn.Linear(96, 10)
    )


def mcmahan() -> nn.Module:
    convs: list[nn.Module] = []
    for n_in, n_out in ((1, 32), (32, 64)):
        convs += [nn.Conv2d(n_in, n_out, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*convs, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))


def vgg() -> nn.Module:
    parts: list[nn.Module] = []
    n_in = 3
    for width in (32, 64, 128):
        parts += [
            normed(n_in, width, 3, act=nn.ReLU()),
            normed(width, width, 3, act=nn.ReLU()),
            nn.MaxPool2d(2),
            nn.Dropout2d(0.1),
        ]
        n_in = width
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(2048, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))


def table() -> nn.Module:
    parts: list[nn.Module] = []
    for n_in, n_out in ((100, 256), (256, 256), (256, 128)):
        parts += [nn.Linear(n_in, n_out), nn.BatchNorm1d(n_out), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(128, 10))


def gpt(by_hand: bool) -> nn.Module:
    layers = (Attending(128, 4, True, by_hand) for _ in range(3))
    return nn.Sequential(Words(128, 64), *layers, nn.LayerNorm(128), nn.Linear(128, WORDS, bias=False))


def encoded() -> nn.Module:
    """PyTorch's encoder over words, with dropout."""
    return nn.Sequential(Words(96, 64), encoder(96, 3, 2, 0.1), Do(lambda x: x.mean(1)), nn.Linear(96, 10))


NETS = {
    "resnet8-bn": Net(CIFAR, lambda: resnet((16, 32, 64), 1)),
    "resnet20-bn": Net(CIFAR, lambda: resnet((16, 32, 64), 3), 16),
    "resnet18-narrow": Net(CIFAR, lambda: resnet((16, 32, 64, 128), 2)),
    "mobilenet-relu6": Net(CIFAR, lambda: mobile(nn.ReLU6)),
    "mobilenet-silu": Net(CIFAR, lambda: mobile(nn.SiLU)),
    "squeeze-excite": Net(CIFAR, excited),
    "squeezenet": Net(CIFAR, squeezenet),
    "densenet": Net(CIFAR, densenet, 16),
    "convnext": Net(CIFAR, convnext),
    "vgg-bn-dropout": Net(CIFAR, vgg, 16),
    "vit-sdpa": Net(CIFAR, lambda: vit([Attending(128, 4) for _ in range(3)], 128), 16),
    "vit-encoder": Net(CIFAR, lambda: vit([encoder(128, 4, 3)], 128), 16),
    "gpt": Net((64,), lambda: gpt(False), 16, "next-token"),
    "gpt-by-hand": Net((64,), lambda: gpt(True), 16, "next-token"),
    "text-encoder": Net(TEXT, encoded, 16),
    "gru": Net(TEXT, lambda: Recurrent(nn.GRU, 128, 1)),
    "lstm-2": Net(TEXT, lambda: Recurrent(nn.LSTM, 128, 2)),
    "lstm-both": Net(TEXT, lambda: Recurrent(nn.LSTM, 64, 1, True)),
    "embedding-bag": Net(TEXT, Bag),
    "series-conv1d": Net(SERIES, series),
    "keywords-dscnn": Net(SPEECH, keywords, 16),
    "keywords-conv1d": Net(SPEECH, spoken, 16),
    "unet-transposed": Net(CIFAR, lambda: UNet(True), 16),
    "unet-interpolate": Net(CIFAR, lambda: UNet(False), 16),
    "mlp-wide": Net(MNIST, lambda: wide(1024, 0.1)),
    "mlp-norm": Net(MNIST, lambda: wide(128, 0.0), 16),
    "mixer": Net(CIFAR, mixer),
    "mcmahan-cnn": Net(MNIST, mcmahan),
    "tabular-bn": Net(TABLE, table),
}  # fmt: skip
