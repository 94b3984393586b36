"""Running statistics beside any method: it sees parameters alone, and this looks after the tail of the vector.

With `s` the tail of the global vector and `s_k` what training on device `k` made of it:

- `model.buffers=average`: `s <- sum_k p_k s_k` over the devices heard, the plain mean with the weights that the method
  has for one (`Method.shares`; by samples if it says nothing), as the average of `state_dict`s is. Server steps,
  scores, ages, caches and codings of a method are about parameters and leave the tail alone. If a round leaves the
  parameters as they were, such as one without a quorum, so does the tail.
- `local`: `s_k` stays on device `k` with the scale and the shift of its norm layers, is never sent, and is remembered
  also if the upload is lost. `accuracy` and `loss` are those of the shared model with each device's own norm layers, on
  the test samples of the device (`personal.judge`). A device that never trained has the norm layers of the start.

Devices that keep networks of their own keep the statistics with them in both cases. If devices send nothing, the server
trains, and the statistics are its own. Not a method itself: it has no `build`.

Reference: Li, Jiang, Zhang, Kamp, Dou, FedBN, 2021 (`local`)
"""

from ....errors import BadInput
from ....learn.tasks import refuse_without_labels
from ....types import Method, Problem
from .averaged import averaged
from .kept import kept


def with_statistics(problem: Problem, method: Method) -> Method:
    """The method for vectors with a tail; itself if networks keep no statistics."""
    if not problem.learner.n_own or method.statistics == "within":
        return method
    if method.statistics == "refused":
        raise BadInput(
            "the model keeps running statistics (batch norm), which have no place in networks that the method cuts or "
            "pairs: set model.buffers=frozen, use GroupNorm, or choose another method"
        )
    stay = not problem.learner.architectures[0].tail.sent or method.own_networks
    if not stay or method.sends == "nothing":
        return averaged(method)
    refuse_without_labels(problem.learner.task.name, "model.buffers = 'local'", "use average or frozen")
    return kept(method)
