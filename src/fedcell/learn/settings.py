"""The settings of models and local training."""

from dataclasses import dataclass, replace

from ..errors import BadInput
from ..options import option, written


def in_file(name: str) -> bool:
    """Whether a model name refers to a file of the user, as `net.py:function` does.

    >>> in_file("./net.py:wide"), in_file("net.py"), in_file("cnn")
    (True, True, False)
    """
    return name.endswith(".py") or ".py:" in name


@dataclass(frozen=True)
class ModelConfig:
    """Which network is trained."""

    name: str = option(
        "mlp", "a built-in model, see `fedcell list`; or a function in a file of your own, `net.py:function`"
    )
    args: str = option("", "arguments of the function of a model file, as `width=32,depth=2`; empty: none")
    sha256: str = option("", "checksum of the model file; filled in when a run begins, and another file is refused")
    hidden: tuple[int, ...] = option(
        (64,), "widths of the hidden dense layers (mlp, cnn, vgg11)", least=1, needs="name=mlp|cnn|vgg11"
    )
    widths: tuple[int, ...] = option(
        (),
        "each device draws one of these for the hidden dense layer before its last one (mlp, cnn); empty: all alike",
        least=1,
    )
    flops: str = option(
        "products",
        "operations of a sample: two for each multiply-add; or that for convolutions and one for each parameter of a "
        "dense layer",
        choices=("products", "parameters"),
    )
    norm: str = option(
        "none",
        "norm after every convolution, the first hidden dense layer and every fire module (cnn, vgg11, squeezenet): by "
        "the statistics of the batch, in training and evaluation; or of groups of channels of a sample",
        choices=("none", "batch", "group"),
        needs="name=cnn|vgg11|squeezenet",
    )
    buffers: str = option(
        "average",
        "running statistics of a model of your own, such as those of batch norms: averaged with the parameters; kept "
        "on the device, norm layers and all, and judged there (FedBN); or never moved",
        choices=("average", "local", "frozen"),
    )
    channels: tuple[int, ...] = option((6, 16), "output channels of the convolutions (cnn)", least=1, needs="name=cnn")
    kernel: int = option(5, "kernel size of the convolutions (cnn)", least=1, needs="name=cnn")
    padding: int = option(0, "padding of the convolutions (cnn)", least=0, needs="name=cnn")
    vocabulary: int = option(
        0, "number of tokens; 0: as many as classes (lstm, transformer)", least=0, needs="name=lstm|transformer"
    )
    embedding: int = option(64, "width of the token embedding (lstm)", least=1, needs="name=lstm")
    width: int = option(
        256,
        "width of the recurrent layers, or of the blocks (lstm, transformer)",
        least=1,
        needs="name=lstm|transformer",
    )
    layers: int = option(3, "recurrent layers, or blocks (lstm, transformer)", least=1, needs="name=lstm|transformer")
    heads: int = option(4, "heads of the attention (transformer)", least=1, needs="name=transformer")
    train: str = option(
        "all",
        "which parameters are trained and sent: all, or those whose names match this regular expression; the others "
        "stay as they start",
    )

    def __post_init__(self) -> None:
        if self.widths and (self.name not in ("mlp", "cnn") or len(self.hidden) < 2):
            widths = written(self.widths)
            raise BadInput(f"model.widths = {widths} needs an mlp or cnn with two hidden layers: set model.hidden")

    def variants(self) -> "list[ModelConfig]":
        """The settings of each architecture among the devices, one per width."""
        if not self.widths:
            return [self]
        *before, _, last = self.hidden
        return [replace(self, hidden=(*before, width, last), widths=()) for width in sorted(set(self.widths))]


@dataclass(frozen=True)
class TrainConfig:
    """Local training, shared by every method of a run unless a method's own settings say otherwise."""

    lr: float = option(0.1, "local learning rate", above=0)
    schedule: str = option(
        "constant",
        "how the learning rate changes over the rounds: cut by lr_factor every lr_every rounds, times lr_decay every "
        "round, or down to lr_floor in a line or along a cosine",
        choices=("constant", "step", "exponential", "linear", "cosine"),
    )
    lr_every: int = option(30, "rounds between two cuts of the rate", least=1, needs="schedule=step")
    lr_factor: float = option(0.1, "what each cut leaves of the rate", above=0, most=1, needs="schedule=step")
    lr_decay: float = option(0.99, "what each round leaves of the rate", above=0, most=1, needs="schedule=exponential")
    lr_floor: float = option(
        0.0,
        "share of the rate towards which it falls until the last round",
        least=0,
        most=1,
        needs="schedule=linear|cosine",
    )
    warmup: int = option(0, "first rounds, in which the rate rises to lr in a line, before the schedule", least=0)
    steps: int = option(5, "local steps of a selected device in one round", least=1, most=10_000_000, needs="epochs=0")
    epochs: int = option(
        0,
        "passes over its samples that a selected device makes in one round instead of steps; 0: steps",
        least=0,
        most=10_000,
    )
    batch_size: int = option(32, "samples per local step; 0: the whole store", least=0, most=10_000_000)
    optimiser: str = option(
        "sgd", "rule of local steps; what adamw remembers is reset each round", choices=("sgd", "adamw")
    )
    momentum: float = option(0.0, "momentum of local SGD, reset each round", least=0, most=0.999, needs="optimiser=sgd")
    beta1: float = option(
        0.9, "weight of the past in adamw's mean gradient", least=0, most=0.9999, needs="optimiser=adamw"
    )
    beta2: float = option(
        0.999, "weight of the past in adamw's mean squared gradient", least=0, most=0.99999, needs="optimiser=adamw"
    )
    eps: float = option(1e-8, "added to the root of adamw's mean square", above=0, needs="optimiser=adamw")
    weight_decay: float = option(0.0, "pull of weights towards zero; with adamw apart from the gradient", least=0)
    clip: float = option(0.0, "norm that the gradient of a local step is cut to; 0: none", least=0)
    augment: str = option(
        "none",
        "random changes of the images of every local step: shifts by up to crop_padding pixels, left and right swapped",
        choices=("none", "crop", "flip", "crop_flip"),
    )
    crop_padding: int = option(
        4,
        "pixels of zeros around an image before it is cropped to its size",
        least=1,
        most=1000,
        needs="augment=crop|crop_flip",
    )
    sampling: str = option(
        "shuffle", "mini-batches walk a shuffled store, or are drawn with replacement", choices=("shuffle", "replace")
    )
    engine: str = option(
        "auto",
        "local training engine; debug is slow and obvious",
        choices=("auto", "sequential", "batched", "vmap", "debug"),
    )
    device: str = option(
        "auto", "where models are trained; auto: a CUDA GPU when present", choices=("auto", "cpu", "cuda")
    )
    workers: int = option(0, "training threads on a CPU; 0: one per core", least=0)
    shards: int = option(
        0, "Ray workers that share the training of a round; 0: this process alone", least=0, most=10_000
    )
    gpu_gib: float = option(
        0.0,
        "GPU memory that a run plans with, and that a sweep sets aside for it; 0: all, estimated by sweeps",
        least=0,
    )
    tf32: bool = option(False, "TensorFloat-32 products on a GPU: faster, other results")
    bf16: bool = option(False, "products of local training in bfloat16: faster for some networks, other results")
    top: tuple[int, ...] = option(
        (), "also record how often the right class is among the M first, columns top<M>", least=1
    )
    spread: bool = option(False, "also record accuracy_std over the devices, if test samples belong to devices")
