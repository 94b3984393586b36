"""The settings of models and local training."""

from dataclasses import dataclass, replace

from ..errors import BadInput
from ..options import option, written


@dataclass(frozen=True)
class ModelConfig:
    """Which network is trained."""

    name: str = option("mlp", "a built-in model, see `fedcell list`")
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
        """The settings of every architecture that devices have."""
        if not self.widths:
            return [self]
        *before, _, last = self.hidden
        return [replace(self, hidden=(*before, width, last), widths=()) for width in sorted(set(self.widths))]


@dataclass(frozen=True)
class TrainConfig:
    """Local training, shared by every method of a run unless a method's own settings say otherwise."""

    lr: float = option(0.1, "local learning rate", above=0)
    steps: int = option(5, "local steps of a selected device in one round", least=1, most=10_000_000)
    batch_size: int = option(32, "samples per local step; 0: the whole store", least=0, most=10_000_000)
    momentum: float = option(0.0, "momentum of local SGD, reset each round", least=0, most=0.999)
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
    shards: int = option(0, "Ray workers that share the training of a round; 0: this process alone", least=0)
    tf32: bool = option(False, "TensorFloat-32 products on a GPU: faster, other results")
    top: tuple[int, ...] = option(
        (), "also record how often the right class is among the M first, columns top<M>", least=1
    )
    spread: bool = option(False, "also record accuracy_std over the devices, where test samples belong to devices")
