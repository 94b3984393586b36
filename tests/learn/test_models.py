"""Built-in networks have the parameter counts the papers print."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from fedcell.errors import BadInput
from fedcell.learn import architecture
from fedcell.learn.architecture import Architecture
from fedcell.learn.models import build
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig
from fedcell.learn.setup import check_fits

MNIST, CIFAR, VIDEO = (1, 28, 28), (3, 32, 32), (3, 32, 33)
COUNTS = {
    "representativity MLP": (ModelConfig(name="mlp", hidden=(512, 256, 64)), MNIST, 10, 550_346),
    "representativity CNN": (ModelConfig(name="cnn", channels=(64, 64), hidden=(120, 64)), CIFAR, 10, 307_842),
    "knowledge CNN": (ModelConfig(name="cnn", hidden=(128, 64)), CIFAR, 10, 63_106),
    "recycling MLP": (ModelConfig(name="mlp", hidden=(128,)), MNIST, 10, 101_770),
    "recycling CNN": (ModelConfig(name="cnn", hidden=(256, 64)), CIFAR, 10, 122_626),
    "recycling VGG-11": (ModelConfig(name="vgg11", hidden=(256,)), CIFAR, 100, 9_377_508),
    "pruning CNN": (ModelConfig(name="cnn", hidden=(128,)), MNIST, 10, 36_758),
    "pruning VGG-11": (ModelConfig(name="vgg11", hidden=(128,)), CIFAR, 10, 9_287_434),
    "rawhfl": (ModelConfig(name="mlp", hidden=(512, 256)), (43,), 256, 219_648),
    "osafl FCN": (ModelConfig(name="mlp", hidden=(640, 256)), (3168,), 100, 2_217_956),
    "osafl CNN": (
        ModelConfig(name="cnn", channels=(32, 64), kernel=3, padding=1, hidden=(240,)),
        VIDEO,
        100,
        1_026_772,
    ),
    "osafl SqueezeNet1": (ModelConfig(name="squeezenet"), VIDEO, 100, 773_796),
    "osafl LSTM": (ModelConfig(name="lstm"), (10,), 100, 1_414_500),
    "logistic": (ModelConfig(name="logistic"), MNIST, 10, 7_850),
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts_and_outputs(name):
    config, shape, n_classes, expected = COUNTS[name]
    module = build(config, shape, n_classes)
    assert Architecture.of(module).n_params == expected
    assert module(torch.ones(2, *shape)).shape == (2, n_classes)


def test_flops_count_two_per_multiply_add():
    mlp = Architecture.of(build(ModelConfig(name="mlp", hidden=(7,)), (5,), 3))
    assert mlp.flops_per_sample(torch.ones(5)) == 2 * (5 * 7 + 7 * 3)
    lstm = Architecture.of(build(ModelConfig(name="lstm", width=8, layers=1, embedding=4), (6,), 3))
    assert lstm.flops_per_sample(torch.ones(6)) == 2 * (6 * 4 * 8 * (4 + 8) + 8 * 3)


def test_unrolled_lstm_is_the_same_function():
    net = build(ModelConfig(name="lstm", layers=2, width=12), (9,), 20)
    tokens = torch.randint(0, 20, (4, 9))
    fused = net(tokens)
    net.unrolled = True
    torch.testing.assert_close(net(tokens), fused)


def test_flat_vector_round_trip():
    architecture = Architecture.of(build(ModelConfig(name="cnn"), MNIST, 10))
    vector = architecture.flat(architecture.module)
    for view, parameter in zip(architecture.views(vector), architecture.module.parameters(), strict=True):
        assert torch.equal(view, parameter)


def spoilt(layer):
    with torch.no_grad():
        layer.bias[1] = np.nan
    return layer


def without_weights(layer):
    layer.weight = nn.Parameter(torch.zeros(0, 4))
    return layer


class Faulty(nn.Module):
    """Raises an exception when it is called."""

    def __init__(self, error):
        super().__init__()
        self.error, self.layer = error, nn.Linear(4, 3)

    def forward(self, x):
        raise self.error


class Tokens(nn.Module):
    """Sums the vectors of tokens from a vocabulary of 20."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 3)

    def forward(self, x):
        return self.words(x.long()).sum(dim=1)


class Detached(nn.Module):
    """Gives scores that cannot be trained."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x.flatten(1)).detach()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 3).double()), "float64"),
        (nn.Flatten(), "no trainable parameters"),
        (nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), "lazy layers.*call it once on a sample first"),
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), "2 outputs but the labels name 3 classes"),
        (nn.Sequential(nn.Flatten(), nn.Linear(5, 3)), "cannot read samples"),
        (nn.Linear(2, 3), "one row of class scores"),
        (Faulty(KeyError("mask")), "cannot read samples of shape .* \\(KeyError: 'mask'\\)"),
        (Faulty(RuntimeError()), "cannot read samples of shape .* \\(RuntimeError\\): change the model"),
        (Detached(), "scores that no trained parameter has a part in: leave out detach"),
        (nn.Sequential(nn.Flatten(), without_weights(nn.Linear(4, 3))), "has '1.weight' of shape \\(0, 4\\): give it"),
        (nn.Sequential(nn.Flatten(), spoilt(nn.Linear(4, 3))), "numbers in '1.bias' that are not finite"),
    ],
)
def test_unusable_models_are_refused(module, words):
    samples = Samples(np.ones((6, 1, 2, 2), dtype=np.float32), np.arange(6) % 3, torch.device("cpu"))
    with pytest.raises(BadInput, match=words):
        check_fits(Architecture.of(module), samples, 3)


def test_a_device_without_samples_may_have_a_model_with_an_embedding():
    nothing = Samples(np.zeros((0, 5), dtype=np.float32), np.zeros(0, dtype=np.int64), torch.device("cpu"))
    check_fits(Architecture.of(Tokens()), nothing, 3)


@pytest.mark.parametrize("token", [20.0, -1.0])
def test_a_token_outside_the_vocabulary_is_found_wherever_it_is(token):
    """Two samples are read before a run; the one with the strange token is among them."""
    x = np.arange(60, dtype=np.float32).reshape(12, 5) % 20
    model, labels = Tokens(), np.arange(12) % 3
    check_fits(Architecture.of(model), Samples(x, labels, torch.device("cpu")), 3)
    x[7, 3] = token
    with pytest.raises(BadInput, match=r"cannot read samples of shape .*IndexError"):
        check_fits(Architecture.of(model), Samples(x, labels, torch.device("cpu")), 3)


@pytest.mark.parametrize(
    ("config", "shape", "words"),
    [
        (ModelConfig(name="mpl"), MNIST, "did you mean 'mlp'"),
        (ModelConfig(name="resnet"), MNIST, "'resnet' is unknown: choose one of logistic, mlp, cnn"),
        (ModelConfig(name="cnn", kernel=50), MNIST, "model.kernel = 50 in 2 convolutions leaves no pixels"),
        (ModelConfig(name="cnn"), (64,), "needs images"),
        (ModelConfig(name="cnn"), (1, 8, 8), "leaves no pixels"),
        (ModelConfig(name="vgg11"), MNIST, "32x32"),
        (ModelConfig(name="squeezenet"), MNIST, "32x32"),
        (ModelConfig(name="lstm"), MNIST, "token sequences"),
    ],
)
def test_impossible_models_are_refused(config, shape, words):
    with pytest.raises(BadInput, match=words):
        build(config, shape, 10)


@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn", "vgg11"])
def test_operations_counted_by_layer_are_those_that_torch_counts(name):
    shape = (3, 32, 32)
    module = build(ModelConfig(name=name, hidden=(12, 7)), shape, 10).eval()
    sample = torch.zeros(shape)
    assert architecture._is_plain(module)
    found = architecture._counted_by_torch(deepcopy(module), sample)
    assert architecture._counted_by_layer(module, sample) == found > 0


def test_a_network_with_code_of_its_own_is_counted_by_torch():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6, bias=False)

        def forward(self, x):
            return x.flatten(1) @ self.layer.weight @ self.layer.weight

    layout = Architecture.of(Twice())
    assert not architecture._is_plain(layout.module)
    assert layout.flops_per_sample(torch.zeros(1, 2, 3)) == 2 * 2 * 36
