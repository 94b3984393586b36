"""Your own data, model and method, compared with two built-in methods in one radio cell.

The code below is that of the README.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

import torch
from sklearn.datasets import load_wine

import fedcell
from fedcell.methods import fedavg

x, y = load_wine(return_X_y=True)  # 178 bottles, 13 measurements, 3 growers
x = ((x - x.mean(0)) / x.std(0)).astype("float32")
data = fedcell.from_arrays(x[::2], y[::2], x[1::2], y[1::2], name="wine")
torch.manual_seed(1)  # the run starts from the weights that the model has
model = torch.nn.Sequential(torch.nn.Linear(13, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def median(problem, params, state, played):
    device, rows = played.received()  # who was heard, and one flat update from each
    return (params + rows.median(dim=0).values if len(device) else params), state


mine = fedavg.build(fedavg.Config())._replace(aggregate=median)  # FedAvg with the median instead of the mean
settings = {"rounds": 20, "world.n_devices": 8, "world.radius_m": 250}
records = fedcell.run([("median", mine), "fedavg", "central"], "cell", settings, dataset=data, model=model)
print(fedcell.report.text(records))
