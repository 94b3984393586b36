"""Fine-tune a text model on devices by low-rank adapters: what is frozen is not sent.

A small transformer learns from the texts of some authors in one place. Then ten other authors, each on a device of its
own, fine-tune it: once whole, once by adapters of rank 4 beside the attention's dense layers (LoRA), which are plain
modules. Parameters with `requires_grad=False` stay as they are, have no place in updates and cost no uplink.

Reference: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2022.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

import torch
from torch import nn
from torch.nn import functional

import fedcell
from fedcell.data.characters import LETTERS, CharactersConfig, draw_corpus
from fedcell.learn.models import Transformer

WIDTH, RANK, STEPS = 48, 4, 100


class Adapter(nn.Module):
    """`y = W x + b + B A x` with `W` and `b` frozen; `B` starts at zero, so that nothing changes at first."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def pretrained():
    """A model of the language, from the texts of thirty authors that no device knows."""
    corpus = draw_corpus(CharactersConfig(), n_authors=30, seed=99)
    x, y = torch.from_numpy(corpus.x_train).float(), torch.from_numpy(corpus.y_train)
    net = Transformer(len(LETTERS), x.shape[1], WIDTH, layers=2, heads=4, n_classes=len(LETTERS))
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for some in torch.randint(len(x), (STEPS, 32)):
        optimiser.zero_grad()
        functional.cross_entropy(net(x[some]).flatten(0, 1), y[some].flatten()).backward()
        optimiser.step()
    return net


def adapted(net):
    """The same model with everything frozen but adapters."""
    net.requires_grad_(False)
    for block in net.blocks:
        block.mix, block.out = Adapter(block.mix, RANK), Adapter(block.out, RANK)
    return net


torch.manual_seed(1)
model = pretrained()
settings = {"rounds": 4, "train.lr": 0.05}
whole = fedcell.run("fedavg", "characters", settings, model=model, out="whole")[0]
lora = fedcell.run("fedavg", "characters", settings, model=adapted(model), out="lora")[0]
print(fedcell.report.text([whole._replace(label="whole model"), lora._replace(label="adapters")]))
