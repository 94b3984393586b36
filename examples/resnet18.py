"""ResNet-18 with batch norm for small images: a model of one's own, in plain PyTorch.

The stem is the usual one for CIFAR-10: one 3x3 convolution, no max-pool. Running statistics of its batch norms are
averaged with the parameters, kept on the devices (FedBN) or frozen, as `model.buffers` says. FedAvg and FedBN on
CIFAR-10, 20 devices with skewed labels, 3 seeds:

    fedcell sweep fedavg --model examples/resnet18.py:resnet18 --grid model.buffers=average local --seeds 1..3 \\
        --rounds 50 --set data.name=cifar10 --set data.scaling=standard --set data.partition=dirichlet \\
        --set data.alpha=0.3 --set world.n_devices=20 --set world.deadline_s=inf --set train.steps=8 \\
        --set train.batch_size=32 --set train.lr=0.05 --set train.weight_decay=5e-4 --set train.augment=crop_flip \\
        --set train.tf32=true --set eval_every=5 --out resnet

An update has 358 Mbit, which no device of the scenario `cell` sends within its 2 s: hence `world.deadline_s=inf`.

Reference: He, Zhang, Ren, Sun, Deep Residual Learning for Image Recognition, 2016.
"""

from torch import Tensor, nn


class Block(nn.Module):
    """Two 3x3 convolutions and a way around them."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, x: Tensor) -> Tensor:
        around = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + around)


class ResNet(nn.Module):
    """Four stages of blocks, each with twice the channels and half the pixels of the one before."""

    def __init__(self, blocks: tuple[int, ...], width: int, channels: int, n_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        stages: list[nn.Module] = []
        n_in = width
        for stage, count in enumerate(blocks):
            n_out = width << stage
            for place in range(count):
                stages.append(Block(n_in, n_out, stride=2 if stage and not place else 1))
                n_in = n_out
        self.layers = nn.Sequential(*stages)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(n_in, n_classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        return self.fc(self.avgpool(self.layers(x)).flatten(1))


def resnet18(n_classes: int = 10, in_shape: tuple[int, ...] = (3, 32, 32), width: int = 64) -> nn.Module:
    """ResNet-18: 11.2 million parameters and 9600 running statistics at its usual width."""
    return ResNet((2, 2, 2, 2), width, in_shape[0], n_classes)


if __name__ == "__main__":  # a narrow one on the digits of scikit-learn: FedAvg, and FedBN
    import torch

    import fedcell

    for buffers in ("average", "local"):
        torch.manual_seed(1)  # the run starts from the weights that the model has
        settings = {"rounds": 3, "world.n_devices": 6, "model.buffers": buffers}
        records = fedcell.run("fedavg", "cell", settings, model=resnet18(in_shape=(1, 8, 8), width=4))
        print(f"model.buffers={buffers}\n{fedcell.report.text(records)}")
