"""Your own data with natural owners and your own network: run, swept, compared, and taken home.

Six laboratories have measured wines, each with instruments that are off by a little. A laboratory is a device.
"""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_wine

import fedcell

NETWORK = f"{Path(__file__).with_name('small_network.py')}:residual"

x, y = load_wine(return_X_y=True)  # 178 bottles, 13 measurements, 3 growers
x = (x - x.mean(0)) / x.std(0)
labs = np.array([f"laboratory {n % 6}" for n in range(len(x))])
x += np.random.default_rng(0).normal(0, 0.3, (6, 13))[np.arange(len(x)) % 6]  # what each laboratory is off by
is_test = np.random.default_rng(1).random(len(x)) < 0.3
data = fedcell.from_arrays(
    *(x[~is_test], y[~is_test], x[is_test], y[is_test]), name="wines", owners=labs[~is_test], test_owners=labs[is_test]
)
print(data)

settings = {"rounds": 15, "world.n_devices": 6, "data.partition": "given", "world.radius_m": 200, "train.spread": True}
infos = fedcell.sweep(
    ["fedavg", "fedprox:mu=0.1"], seeds=[1, 2], settings=settings, model=NETWORK, dataset=data, out="wines", workers=1
)
print(fedcell.report.comparison_text(fedcell.compare("wines")))

record = fedcell.read(infos[0].folder)
print(record)
network = fedcell.load_model(record)  # a torch.nn.Module, ready to predict
with torch.no_grad():
    right = network(torch.from_numpy(data.x_test)).argmax(1).numpy() == data.y_test
print(f"the model has {right.sum()} of {len(right)} test bottles right")
print(f"weights by the names of the layers: {fedcell.export(record, 'wines.safetensors')}")
