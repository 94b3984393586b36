"""The settings of data sets, their split over devices, and how samples arrive there."""

from dataclasses import dataclass

from ..errors import BadInput
from ..options import Law, option
from .scaling import SCALINGS


@dataclass(frozen=True)
class DataConfig:
    """Which samples there are, and which device holds which."""

    name: str = option(
        "digits", "digits, mnist, fashion-mnist, cifar10, video (see the video section), or the path of an .npz file"
    )
    scaling: str = option(
        "unit",
        "unit: inputs as they are loaded, bytes in [0, 1]; half: from [0, 1] to [-1, 1]; standard: mean 0 and "
        "deviation 1 over the training samples, per channel or feature",
        choices=SCALINGS,
    )
    partition: str = option(
        "dirichlet", "how samples are split over devices", choices=("iid", "dirichlet", "shards", "classes", "counts")
    )
    alpha: float = option(0.3, "concentration: small is more skewed (dirichlet)", above=0, needs="partition=dirichlet")
    shards_per_device: int = option(
        2, "single-label shards each device gets (shards)", least=1, needs="partition=shards"
    )
    classes_per_device: int = option(2, "different labels on each device (classes)", least=1, needs="partition=classes")
    counts: tuple[int, ...] = option(
        (), "samples of each device, drawn without regard to label (counts)", least=0, needs="partition=counts"
    )


@dataclass(frozen=True)
class StreamConfig:
    """How samples reach a device during the run, and which of them it keeps."""

    kind: str = option(
        "static",
        "static: the split of the data, ever; markov: labels wander between states; binomial: a device walks through "
        "its part of the split",
        choices=("static", "markov", "binomial"),
    )
    cache: str = option(
        "drsr", "what a full cache keeps (markov, binomial)", choices=("fifo", "srsr", "drsr", "lazy", "full")
    )
    capacity: Law = option(Law((300.0,)), "samples a device can keep", least=1)
    batch: Law = option(Law((150.0,)), "samples that arrive in a round; at most so many (binomial)", least=0)
    activity: Law = option(
        Law((1.0,)), "probability that each of the batch arrives (binomial)", least=0, most=1, needs="kind=binomial"
    )
    theta: float = option(2 / 3, "weight of new label shares (srsr)", least=0, most=1, needs="cache=srsr")
    initial: str = option("prefill", "caches start empty, or filled", choices=("cold", "prefill"))
    fill: float = option(
        1.0, "share of the capacity that is filled at the start (prefill)", above=0, most=1, needs="initial=prefill"
    )

    n_states: int = option(10, "label laws a device wanders between (markov)", least=1, needs="kind=markov")
    classes_per_device: int = option(3, "labels a device ever meets (markov)", least=1, needs="kind=markov")
    classes: str = option(
        "cyclic",
        "device k meets labels k, k+1, ..., or any that together cover all",
        choices=("cyclic", "random"),
        needs="kind=markov",
    )
    alpha: float = option(
        1.0, "concentration of the label laws: small is more skewed (markov)", above=0, needs="kind=markov"
    )
    beta: float = option(
        2.0, "a step costs exp(-beta * KL divergence): large wanders slowly (markov)", least=0, needs="kind=markov"
    )
    smoothing: float = option(
        1e-3, "added to label shares before their divergence is taken (markov)", above=0, needs="kind=markov"
    )
    full_refresh: str = option(
        "stream",
        "instances that change each round (full): as many as arrive, all, none",
        choices=("stream", "all", "none"),
        needs="cache=full",
    )

    def __post_init__(self) -> None:
        if self.kind != "static" and max(self.batch.values) > min(self.capacity.values):
            raise BadInput(
                f"stream.batch = {self.batch} can exceed stream.capacity = {self.capacity}: "
                "let no more samples arrive in a round than a cache holds"
            )
        if self.kind == "binomial" and self.cache == "full":
            raise BadInput(
                "stream.cache = 'full' needs a long-term label law, which stream.kind = 'binomial' has not: use markov"
            )
