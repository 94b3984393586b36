"""FedJAX: client steps by `fedjax.for_each_client` (one compiled step), the mean by `fedjax.tree_util.tree_mean`."""

from collections.abc import Iterator
from typing import Any

import jax  # type: ignore[import-not-found]
import jax.numpy as jnp  # type: ignore[import-not-found]
import numpy as np
from work import Meter, Stored, options

jax.tree_map = jax.tree_util.tree_map  # the last FedJAX calls it by this name, which newer JAX has dropped

import fedjax  # type: ignore[import-not-found] # noqa: E402

SHAPES: dict[str, list[tuple[int, ...]]] = {  # of PyTorch's parameters, in their order
    "logistic": [(10, 784), (10,)],
    "2nn": [(200, 784), (200,), (200, 200), (200,), (10, 200), (10,)],
    "lenet": [(10, 1, 5, 5), (10,), (20, 10, 5, 5), (20,), (50, 320), (50,), (10, 50), (10,)],
    "cifar": [(32, 3, 3, 3), (32,), (64, 32, 3, 3), (64,), (128, 12544), (128,), (10, 128), (10,)],
}
POOLED = {"logistic": (), "2nn": (), "lenet": (True, True), "cifar": (False, True)}  # max-pool after each convolution


def split(name: str, vector: Any) -> list[Any]:
    """The parameters of a network from one flat vector."""
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES[name]])
    return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), SHAPES[name], strict=True)]


def scores(name: str, parameters: list[Any], x: Any) -> Any:
    """The network of a task; images lie channels-last."""
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    for (kernel, bias), pooled in zip(pairs, POOLED[name], strict=False):
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "OIHW", "NHWC")) + bias
        x = jax.nn.relu(x)
        if pooled:
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    if POOLED[name]:
        x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    *hidden, (kernel, bias) = pairs[len(POOLED[name]) :]
    for weight, shift in hidden:
        x = jax.nn.relu(x @ weight.T + shift)
    return x @ kernel.T + bias


def main() -> None:
    asked = options(__doc__)
    stored = Stored.read(asked.task)
    name, lr, meter = stored.about["model"], stored.about["lr"], Meter()
    x = np.ascontiguousarray(stored.x.transpose(0, 2, 3, 1)) if stored.x.ndim == 4 else stored.x

    def loss(parameters: list[Any], batch: dict[str, Any]) -> Any:
        chosen = jax.nn.log_softmax(scores(name, parameters, batch["x"]))
        return -jnp.take_along_axis(chosen, batch["y"][:, None], axis=1).mean()

    def step(parameters: list[Any], batch: dict[str, Any]) -> list[Any]:
        change = jax.grad(loss)(parameters, batch)
        return jax.tree_util.tree_map(lambda value, slope: value - lr * slope, parameters, change)

    each = fedjax.for_each_client(
        client_init=lambda shared, _: shared, client_step=step, client_final=lambda shared, end: end
    )

    def clients(number: int) -> Iterator[tuple[Any, Any, Any]]:
        for client, batches in zip(stored.cohort[number], stored.batches[number], strict=True):
            yield int(client), [{"x": x[batch], "y": stored.y[batch]} for batch in batches], None

    model = [jnp.asarray(part) for part in split(name, stored.start)]
    for number in range(asked.rounds):
        meter.begin()
        model = fedjax.tree_util.tree_mean((end, 1.0) for _, end in each(model, clients(number)))
        jax.block_until_ready(model)
        meter.end()
    meter.finish(asked.out, np.concatenate([np.asarray(part).ravel() for part in model]))


if __name__ == "__main__":
    main()
