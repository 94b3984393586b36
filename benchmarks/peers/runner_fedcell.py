"""fedcell: settings, data and a network of one's own, FedAvg, and the loop of `fedcell.simulate`.

Clients, cohorts and mini-batches are not read from the task but drawn here, as in any run: the driver stored the same
draws for the others.

The comparison evaluates after the last round alone, on ten samples. A published benchmark that evaluates on the way is
played with `--setting eval_every=10 --setting test=10000`, which takes made-up samples for a test set.
"""

from work import Meter, Stored, network, options

import fedcell
from fedcell import methods
from fedcell.options import override
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import simulate


def main() -> None:
    asked = options(__doc__)
    stored = Stored.read(asked.task)
    about = stored.about
    n_test = int(asked.setting.get("test", 10))
    few = stored.x[:n_test], stored.y[:n_test]  # a test set is asked for; the last round is always evaluated
    dataset = fedcell.from_arrays(stored.x, stored.y, *few)
    config = override(Config(), {**about["settings"], "rounds": asked.rounds, "train.workers": asked.threads})
    config = override(config, {"train.device": asked.device})
    if "eval_every" in asked.setting:
        config = override(config, {"eval_every": int(asked.setting["eval_every"])})
    problem = build_problem(config, dataset, network(about["model"], stored.start))
    method, meter = methods.parse(about["method"]).build(), Meter(asked.device)
    meter.begin()
    for _, after in simulate(problem, method):
        meter.end()
        if after.round == asked.keep:
            model = after.params.cpu().numpy()
        meter.begin()
    meter.finish(asked.out, model)


if __name__ == "__main__":
    main()
