"""FedLab: a synchronous server and a serial trainer in its standalone pipeline, on the stored cohorts and batches."""

from collections.abc import Iterator
from typing import Any

import torch
from work import Meter, Stored, as_vector, network, options, tensors

# FedLab imports torchvision for its data sets, and published torchvision does not load its operators beside a PyTorch
# for CPUs: without these two names its import fails. Nothing here calls them.
vision: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
for operator in ("nms", "qnms"):
    vision.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # type: ignore[import-not-found] # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # type: ignore[import-not-found] # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # type: ignore[import-not-found] # noqa: E402


def main() -> None:
    asked = options(__doc__)
    torch.set_num_threads(int(asked.setting.get("threads", asked.threads)))
    stored = Stored.read(asked.task)
    x, y = tensors(stored, asked.channels_last)
    about, meter = stored.about, Meter()

    class Server(SyncServerHandler):  # type: ignore[misc]
        def sample_clients(self) -> list[int]:
            meter.begin()
            return [int(client) for client in stored.cohort[self.round]]

    class Data:
        def get_dataloader(self, client: int, batch_size: int) -> Iterator[tuple[Any, Any]]:
            number = server.round
            place = int((stored.cohort[number] == client).argmax())
            for batch in torch.from_numpy(stored.batches[number, place]):
                yield x[batch], y[batch]

    class Pipeline(StandalonePipeline):  # type: ignore[misc]
        def evaluate(self) -> None:
            meter.end()

    module = network(about["model"], stored.start, asked.channels_last)
    server = Server(module, asked.rounds, stored.cohort.shape[1] / about["n_clients"])
    trainer = SGDSerialClientTrainer(module, about["n_clients"])
    trainer.setup_dataset(Data())
    trainer.setup_optim(1, about["batch_size"], about["lr"])
    Pipeline(server, trainer).main()
    meter.finish(asked.out, as_vector(server.model))


if __name__ == "__main__":
    main()
