"""Built-in networks; norms come with `model.norm` and keep no running statistics.

A new model is a function `name(settings, input_shape, n_classes) -> nn.Module` in `BUILDERS`.
"""

import itertools
from collections.abc import Callable
from functools import partial
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import BadInput, choose_one
from . import model_files
from .engines.gpu.batchable import lstm_cell
from .norms import norm
from .settings import ModelConfig, in_file

Shape = tuple[int, ...]


def names() -> list[str]:
    """The names `model.name` takes."""
    return list(BUILDERS)


def build(settings: ModelConfig, input_shape: Shape, n_classes: int) -> nn.Module:
    """The network of the settings for samples of `input_shape` (channels first, no batch axis)."""
    if in_file(settings.name):
        return model_files.build(settings, input_shape, n_classes)
    if settings.name not in BUILDERS:
        raise BadInput(
            f"model.name = {settings.name!r} is unknown{choose_one(settings.name, [*names(), 'net.py:function'])}"
        )
    for key in ("args", "sha256"):
        if value := getattr(settings, key):
            what = f"model.{key} = {value} is for a model file and model.name = {settings.name}"
            raise BadInput(f"{what}: drop it, or set model.name=net.py:function")
    return BUILDERS[settings.name](settings, input_shape, n_classes)


def logistic(settings: ModelConfig, input_shape: Shape, n_classes: int) -> nn.Module:
    """Multinomial logistic regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), n_classes))


def mlp(settings: ModelConfig, input_shape: Shape, n_classes: int) -> nn.Module:
    """Fully connected layers of `model.hidden` units with ReLU."""
    return nn.Sequential(nn.Flatten(), *_dense((prod(input_shape), *settings.hidden, n_classes)))


def cnn(settings: ModelConfig, input_shape: Shape, n_classes: int) -> nn.Module:
    """`model.channels` convolutions, each with ReLU and a 2x2 max-pool, then `model.hidden` dense layers."""
    channels, height, width = _image(settings, input_shape)
    layers: list[nn.Module] = []
    for out in settings.channels:
        layers += [nn.Conv2d(channels, out, settings.kernel, padding=settings.padding), *norm(settings.norm, out)]
        layers += [nn.MaxPool2d(2), nn.ReLU()]
        shrink = settings.kernel - 1 - 2 * settings.padding
        channels, height, width = out, (height - shrink) // 2, (width - shrink) // 2
    if min(height, width) < 1:
        raise BadInput(
            f"model.kernel = {settings.kernel} in {len(settings.channels)} convolutions leaves no pixels of a "
            f"{input_shape} input: use a smaller kernel, fewer model.channels or more model.padding"
        )
    widths = channels * height * width, *settings.hidden, n_classes
    return nn.Sequential(*layers, nn.Flatten(), *_dense(widths, settings.norm))


def vgg11(settings: ModelConfig, input_shape: Shape, n_classes: int) -> nn.Module:
    """VGG-11 features (3x3 convolutions, five max-pools) and `model.hidden` dense layers."""
    channels, height, width = _image(settings, input_shape)
    if min(height, width) < 32:
        raise BadInput(f"model.name = 'vgg11' needs images of 32x32 or more, not {input_shape}: use cnn")
    layers: list[nn.Module] = []
    for out in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):  # 0 is a max-pool
        if not out:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, out, 3, padding=1), *norm(settings.norm, out), nn.ReLU()]
        channels = out
    pixels = (height // 32) * (width // 32)
    widths = channels * pixels, *settings.hidden, n_classes
    net = nn.Sequential(*layers, nn.Flatten(), *_dense(widths, settings.norm))
    _start_deep(net)
    return net


def squeezenet(settings: ModelConfig, input_shape: Shape, n_classes: int) -> nn.Module:
    """SqueezeNet 1.1 (fire modules, a 1x1 convolution as classifier), without dropout."""
    channels, height, width = _image(settings, input_shape)
    if min(height, width) < 32:
        raise BadInput(f"model.name = 'squeezenet' needs images of 32x32 or more, not {input_shape}: use cnn")
    pool, fire = nn.MaxPool2d(3, 2, ceil_mode=True), partial(Fire, norm_kind=settings.norm)
    net = nn.Sequential(
        *(nn.Conv2d(channels, 64, 3, stride=2), *norm(settings.norm, 64), nn.ReLU(), pool),
        *(fire(64, 16, 64), fire(128, 16, 64), pool, fire(128, 32, 128), fire(256, 32, 128), pool),
        *(fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256)),
        *(nn.Conv2d(512, n_classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    _start_deep(net)
    return net


class Fire(nn.Module):
    """Squeeze to few channels, expand with 1x1 and 3x3 kernels side by side; a norm follows the expansion."""

    def __init__(self, channels: int, squeeze: int, expand: int, norm_kind: str = "none") -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeeze, 1)
        self.expand1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.norm = nn.Sequential(*norm(norm_kind, 2 * expand))

    def forward(self, x: Tensor) -> Tensor:
        squeezed = functional.relu(self.squeeze(x))
        return functional.relu(self.norm(torch.cat([self.expand1(squeezed), self.expand3(squeezed)], dim=1)))


def lstm(settings: ModelConfig, input_shape: Shape, n_classes: int) -> nn.Module:
    """Embedding of integer tokens `[history]`, `model.layers` LSTM layers of `model.width`, a dense output."""
    if len(input_shape) != 1:
        raise BadInput(f"model.name = 'lstm' needs token sequences, not samples of shape {input_shape}: use mlp or cnn")
    return TokenLSTM(settings.vocabulary or n_classes, settings.embedding, settings.width, settings.layers, n_classes)


class TokenLSTM(nn.Module):
    """Predict a class from the last state of an LSTM over token ids."""

    def __init__(self, vocabulary: int, embedding: int, width: int, layers: int, n_classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, width, layers, batch_first=True)
        self.output = nn.Linear(width, n_classes)
        self.unrolled = False  # plain matrix products instead of the fused kernel, which cannot be batched over models

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embedding(x.long())
        last = self._unroll(tokens) if self.unrolled else self.lstm(tokens)[0][:, -1]
        return self.output(last)

    def _unroll(self, tokens: Tensor) -> Tensor:
        """The last state of `nn.LSTM`, computed step by step with its parameters."""
        inputs = tokens.transpose(0, 1)  # time first, so that each step is contiguous
        for layer in range(self.lstm.num_layers):
            w_in, w_state, b_in, b_state = (
                getattr(self.lstm, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            drive = functional.linear(inputs, w_in, b_in + b_state)
            state = cell = drive.new_zeros(drive.shape[1], w_state.shape[1])
            states = []
            for gates in drive.unbind(0):
                state, cell = lstm_cell(gates, state @ w_state.T, cell)
                states.append(state)
            inputs = torch.stack(states)
        return inputs[-1]


def transformer(settings: ModelConfig, input_shape: Shape, n_classes: int) -> nn.Module:
    """Scores of the next token at every place of a token sequence: `model.layers` blocks of causal attention."""
    if len(input_shape) != 1:
        raise BadInput(f"model.name = 'transformer' needs token sequences, not samples of shape {input_shape}: use cnn")
    if settings.width % settings.heads:
        raise BadInput(
            f"model.width = {settings.width} is no multiple of model.heads = {settings.heads}: choose one that is"
        )
    vocabulary = settings.vocabulary or n_classes
    return Transformer(vocabulary, input_shape[0], settings.width, settings.layers, settings.heads, n_classes)


class Transformer(nn.Module):
    """Embeddings of tokens and places, blocks, and a dense output at every place, `[n, length, n_classes]`."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int, n_classes: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(AttentionBlock(width, heads) for _ in range(layers)))
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, n_classes)
        for embedding in (self.token, self.place):
            nn.init.normal_(embedding.weight, std=width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        return self.output(self.norm(self.blocks(self.token(x.long()) + self.place(places))))


class AttentionBlock(nn.Module):
    """Causal self-attention, then two dense layers, each with a norm in front and a residual connection.

    Attention is written as matrix products, which batch over models.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.mix, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attend(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))

    def _attend(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        query, key, value = self.mix(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = (query @ key.transpose(2, 3) * (width // self.heads) ** -0.5).masked_fill(later, -torch.inf)
        return self.out((scores.softmax(3) @ value).transpose(1, 2).reshape(n, length, width))


def _start_deep(net: nn.Module) -> None:
    """Start convolutions so that they keep the size of signals: by default ten layers without norms learn nothing."""
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


def _dense(widths: Shape, norm_kind: str = "none") -> list[nn.Module]:
    """Linear layers between the widths, with ReLU between them; a norm follows the first hidden layer."""
    layers: list[nn.Module] = []
    for place, (width_in, width_out) in enumerate(itertools.pairwise(widths)):
        normed = norm(norm_kind, width_out) if place == 0 and len(widths) > 2 else []
        layers += [nn.Linear(width_in, width_out), *normed, nn.ReLU()]
    return layers[:-1]


def _image(settings: ModelConfig, input_shape: Shape) -> tuple[int, int, int]:
    if len(input_shape) != 3:
        raise BadInput(
            f"model.name = {settings.name!r} needs images (channels, height, width), not {input_shape}: use mlp"
        )
    return input_shape[0], input_shape[1], input_shape[2]


BUILDERS: dict[str, Callable[[ModelConfig, Shape, int], nn.Module]] = {
    build.__name__: build for build in (logistic, mlp, cnn, vgg11, squeezenet, lstm, transformer)
}
