"""A plain PyTorch loop: one module, autograd, `torch.optim.SGD`, and the mean of the updates."""

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from work import Meter, Stored, full_precision, local_sgd, network, options, tensors


def main() -> None:
    asked = options(__doc__)
    full_precision()
    torch.set_num_threads(int(asked.setting.get("threads", asked.threads)))
    stored = Stored.read(asked.task)
    x, y = tensors(stored, asked.channels_last, asked.device)
    module = network(stored.about["model"], stored.start, asked.channels_last).to(asked.device)
    parameters, model = list(module.parameters()), torch.from_numpy(stored.start).to(asked.device)
    meter = Meter(asked.device)
    for number in range(asked.rounds):
        meter.begin()
        total = torch.zeros_like(model)
        for batches in stored.batches[number]:
            with torch.no_grad():
                vector_to_parameters(model.clone(), parameters)
            local_sgd(module, x, y, batches, stored.about["lr"])
            total += parameters_to_vector(parameters).detach() - model
        model = model + total / len(stored.batches[number])
        meter.end()
    meter.finish(asked.out, model.cpu().numpy())


if __name__ == "__main__":
    main()
