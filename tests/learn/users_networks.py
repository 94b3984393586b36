"""Networks as users have them, for tests of the engines: the shape of a sample, and how to build them."""

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

N_CLASSES = 5
IMAGE, ROW, TOKENS, SERIES = (3, 8, 10), (12,), (7,), (5, 32)


class Residual(nn.Module):
    """A block with two norms and a skip, as in ResNets."""

    def __init__(self, n_in, n_out, stride, norm):
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False),
            nn.Conv2d(n_out, n_out, 3, padding=1),
        )
        self.norms = nn.ModuleList([norm(n_out), norm(n_out)])
        self.skip = nn.Identity() if n_in == n_out else nn.Conv2d(n_in, n_out, 1, stride)

    def forward(self, x):
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.skip(x))


def resnet(norm, *ending):
    end = ending or (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, N_CLASSES))
    begin = nn.Conv2d(3, 8, 3, padding=1), norm(8), nn.ReLU(inplace=True)
    return nn.Sequential(*begin, Residual(8, 8, 1, norm), Residual(8, 16, 2, norm), *end)


class Dense(nn.Module):
    """Features that are put beside those before them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(11, 5, 1), nn.Linear(16, N_CLASSES)

    def forward(self, x):
        x = torch.cat([x, torch.tanh(self.a(x))], 1)
        x = torch.cat([x, torch.sigmoid(self.b(x))], 1)
        return self.out(x.mean((2, 3)))


class Grown(nn.Module):
    """Wide features beside those before them, so that gradients are parts of others; and halves that go two ways."""

    def __init__(self):
        super().__init__()
        self.begin, self.depth = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.norm, self.more = nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, padding=1)
        self.narrow, self.out = nn.Conv2d(16, 8, 1), nn.Linear(24, N_CLASSES)

    def forward(self, x):
        x = self.begin(x)
        x = torch.cat([self.depth(x), self.more(functional.relu(self.norm(x)))], 1)
        left, right = x.chunk(2, 1)
        return self.out(torch.cat([self.narrow(left).sigmoid(), right], 1).mean((2, 3)))


class Attention(nn.Module):
    """Attention written out with PyTorch's kernel, on tokens."""

    def __init__(self, causal=False):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 12), nn.Parameter(0.1 * torch.randn(7, 12))
        self.norm, self.qkv, self.mix = nn.LayerNorm(12), nn.Linear(12, 36), nn.Linear(12, 12)
        self.out, self.causal = nn.Linear(12, N_CLASSES), causal

    def forward(self, tokens):
        x = self.words(tokens.long()) + self.places
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 3, 4).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out((x + self.mix(found.transpose(1, 2).flatten(2))).mean(1))


class Multihead(nn.Module):
    """PyTorch's own attention, which gives weights, too."""

    def __init__(self):
        super().__init__()
        self.words, self.heads = nn.Embedding(20, 12), nn.MultiheadAttention(12, 3, batch_first=True)
        self.out = nn.Linear(12, N_CLASSES)

    def forward(self, tokens):
        x = self.words(tokens.long())
        found, weights = self.heads(x, x, x)
        return self.out((x + found).amax(1)) + weights.mean((1, 2))[:, None]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 12)
        self.layer = nn.TransformerEncoderLayer(12, 2, 20, 0.0, "gelu", batch_first=True)
        self.out = nn.Linear(12, N_CLASSES)

    def forward(self, tokens):
        return self.out(self.layer(self.words(tokens.long()))[:, 0])


class Recurrent(nn.Module):
    def __init__(self, kind, n_found=9):
        super().__init__()
        self.words, self.cells = nn.Embedding(20, 6), kind(6, 9, batch_first=True)
        self.out = nn.Linear(n_found, N_CLASSES)

    def forward(self, tokens):
        return self.out(self.cells(self.words(tokens.long()))[0][:, -1])


class Parts(nn.Module):
    """Parts of a tensor that go different ways, some of them twice."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(12, 12), nn.Linear(6, N_CLASSES)

    def forward(self, x):
        y = torch.tanh(self.a(x)).view(-1, 3, 4)
        parts = y[:, 0] * y[:, -1] + y[:, 1] * y[:, 0] + y[:, 2, 1:2]
        return self.out(torch.cat([parts, y[:, 1:, ::3].prod(1)], 1)) + y[:, 1:].sum((1, 2))[:, None]


class Tied(nn.Module):
    """One weight in two places, and one of a shape of its own."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.scale = nn.Linear(12, 9), nn.Linear(9, 12, bias=False), nn.Parameter(torch.ones(9))
        self.out = nn.Linear(12, N_CLASSES)

    def forward(self, x):
        return self.out(self.b(self.a(torch.relu(self.b(self.a(x) * self.scale))) ** 2))


class InPlace(nn.Module):
    """Kernels that write over what they read, views that are written to, and constants."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(12, 8), nn.Linear(8, N_CLASSES)
        self.register_buffer("mask", torch.arange(8.0) % 2, persistent=False)
        self.factor = torch.tensor(1.5)

    def forward(self, x):
        y = self.a(x).mul_(self.factor).add_(1)
        z = torch.zeros_like(y)
        z[:, :4] = y[:, 4:] * self.mask[:4]
        z[:, 4:].copy_(y[:, :4]).clamp_(min=-0.5)
        return self.out(z.t().contiguous().t())


class Moving(nn.Module):
    """A norm of somebody's own: one statistic is changed in place, one is put anew."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(12, 8), nn.Linear(8, N_CLASSES)
        self.register_buffer("level", torch.zeros(8))
        self.register_buffer("spread", torch.ones(8))

    def forward(self, x):
        y = self.a(x)
        self.level.mul_(0.9).add_(0.1 * y.detach().mean(0))
        self.spread = 0.8 * self.spread + 0.2 * y.detach().var(0)
        return self.out((y - self.level) / self.spread.sqrt())


def frozen():
    net = nn.Sequential(nn.Linear(12, 9), nn.SiLU(), nn.Linear(9, 9), nn.LayerNorm(9), nn.Linear(9, N_CLASSES))
    net[2].requires_grad_(False)
    return net


def group(n):
    return nn.GroupNorm(2, n)


class Turned(nn.Module):
    """Images that are shifted and turned by what is learned, and channels as a third axis."""

    def __init__(self):
        super().__init__()
        self.way, self.conv = (
            nn.Parameter(torch.tensor([[1.0, 0.1, 0.0], [0.0, 0.9, 0.05]])),
            nn.Conv3d(1, 4, (2, 3, 3)),
        )
        self.out = nn.Linear(4, N_CLASSES)

    def forward(self, x):
        places = functional.affine_grid(self.way.expand(len(x), 2, 3), x.shape, align_corners=False)
        x = functional.grid_sample(x, places, align_corners=False)
        return self.out(functional.relu(self.conv(x[:, None])).mean((2, 3, 4)))


NETWORKS = {
    "turned images, three axes": (IMAGE, Turned),
    "resnet, group norm": (IMAGE, lambda: resnet(group)),
    "resnet, batch norm": (IMAGE, lambda: resnet(nn.BatchNorm2d)),
    "group norm of the images": (
        IMAGE,
        lambda: nn.Sequential(
            *(nn.GroupNorm(1, 3), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
            *(nn.Flatten(), nn.Linear(8, N_CLASSES)),
        ),
    ),
    "resnet, norm of one group without scale": (IMAGE, lambda: resnet(lambda n: nn.GroupNorm(1, n, affine=False))),
    "resnet, instance norm": (IMAGE, lambda: resnet(lambda n: nn.InstanceNorm2d(n, affine=True))),
    "mobile": (
        IMAGE,
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6(), nn.Conv2d(16, 16, 3, 1, 1, groups=16)),
            *(nn.Hardswish(), nn.Conv2d(16, 24, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(96, N_CLASSES)),
        ),
    ),
    "mobile, ReLU6 of every kind": (
        IMAGE,
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU6(), nn.Conv2d(16, 16, 3, 1, 1, groups=16)),
            *(nn.BatchNorm2d(16), nn.Hardtanh(0, 0.5, inplace=True), nn.Conv2d(16, 24, 1), nn.GroupNorm(3, 24)),
            *(nn.Hardtanh(0, 0.8), nn.Conv2d(24, 8, 1), nn.BatchNorm2d(8), nn.Hardtanh(), nn.Conv2d(8, 8, 1)),
            *(nn.BatchNorm2d(8), nn.Hardtanh(-0.2, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, N_CLASSES)),
        ),
    ),
    "odd convolutions": (
        IMAGE,
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 8, (3, 2), (2, 1), (0, 1)), nn.GELU(), nn.Conv2d(8, 16, 3, dilation=(1, 2)), nn.ELU()),
            *(nn.Conv2d(16, 24, 1, groups=4), nn.PReLU(), nn.ConvTranspose2d(24, 8, 2, 2), nn.MaxPool2d(3, 2, 1)),
            *(nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten(), nn.Linear(16, N_CLASSES)),
        ),
    ),
    "pools": (
        IMAGE,
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding="same"), nn.AvgPool2d(3, 2, 1), nn.LeakyReLU(), nn.AdaptiveMaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32, N_CLASSES)),
        ),
    ),
    "one dimension": (
        IMAGE,
        lambda: nn.Sequential(nn.Flatten(2), nn.Conv1d(3, 6, 5, 3), nn.Mish(), nn.Flatten(), nn.Linear(156, N_CLASSES)),
    ),
    "series": (
        SERIES,
        lambda: nn.Sequential(
            *(nn.Conv1d(5, 16, 5, 2, 2, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2)),
            *(
                nn.Conv1d(16, 24, 3, padding=2, dilation=2),
                nn.GroupNorm(3, 24),
                nn.ReLU(),
                nn.Conv1d(24, 24, 3, groups=24),
            ),
            *(nn.AdaptiveAvgPool1d(2), nn.Flatten(), nn.Linear(48, 16), nn.BatchNorm1d(16), nn.ReLU()),
            nn.Linear(16, N_CLASSES),
        ),
    ),
    "series of sequences": (
        SERIES,
        lambda: nn.Sequential(
            *(nn.BatchNorm1d(5), nn.Linear(32, 8), nn.BatchNorm1d(5, track_running_stats=False), nn.GELU()),
            *(nn.Conv1d(5, 8, 3, padding="same"), nn.Flatten(), nn.Linear(64, N_CLASSES)),
        ),
    ),
    "concatenation": (IMAGE, Dense),
    "grown": (IMAGE, Grown),
    "attention": (TOKENS, Attention),
    "causal attention": (TOKENS, lambda: Attention(True)),
    "multihead": (TOKENS, Multihead),
    "encoder": (TOKENS, Encoder),
    "GRU": (TOKENS, lambda: Recurrent(nn.GRU)),
    "LSTM": (TOKENS, lambda: Recurrent(nn.LSTM)),
    "parts": (ROW, Parts),
    "tied": (ROW, Tied),
    "in place": (ROW, InPlace),
    "statistics of its own": (ROW, Moving),
    "frozen": (ROW, frozen),
    "batch norm of rows": (
        ROW,
        lambda: nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Softplus(), nn.Linear(8, N_CLASSES)),
    ),
}


class Skip(nn.Module):
    def __init__(self, inner, after):
        super().__init__()
        self.inner, self.after = inner, after

    def forward(self, x):
        return torch.relu(x + self.inner(x)) if self.after else x + torch.relu(self.inner(x))


WRITABLE = (nn.Conv2d, nn.GroupNorm, nn.BatchNorm2d)  # PyTorch keeps what others return, such as ReLU, for gradients


@st.composite
def random_networks(draw):
    """A chain of random layers on `IMAGE`, with skips."""
    layers, channels, side = [nn.Conv2d(3, 8, 3, padding=1)], 8, (8, 10)
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["conv", "depthwise", "norm", "activation", "pool", "skip"]))
        if kind == "conv":
            n_out, stride = draw(st.sampled_from([4, 8, 16, 24])), draw(st.sampled_from([1, 2]))
            layers.append(
                nn.Conv2d(channels, n_out, draw(st.sampled_from([1, 3])), stride, 1, bias=draw(st.booleans()))
            )
            channels = n_out
        elif kind == "depthwise":
            layers.append(nn.Conv2d(channels, channels, 3, 1, 1, groups=channels))
        elif kind == "norm":
            norms = nn.GroupNorm(draw(st.sampled_from([1, 2, 4])), channels), nn.BatchNorm2d(channels)
            layers.append(draw(st.sampled_from(norms)))
        elif kind == "activation":
            in_place = draw(st.booleans()) and isinstance(layers[-1], WRITABLE)
            made = nn.ReLU(in_place), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.Hardtanh()
            layers.append(draw(st.sampled_from(made)))
        elif kind == "pool" and min(side) > 3:
            layers.append(draw(st.sampled_from([nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 1, 1)])))
        else:
            layers.append(Skip(nn.Conv2d(channels, channels, 3, padding=1), draw(st.booleans())))
        with torch.no_grad():
            side = nn.Sequential(*layers)(torch.zeros(2, 3, 8, 10)).shape[2:]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, N_CLASSES))
