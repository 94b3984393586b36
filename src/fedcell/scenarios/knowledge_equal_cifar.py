"""KFL against methods that share models: one convolutional network for all, CIFAR-10 shards, nothing runs out."""

from dataclasses import replace

from .knowledge_cifar import CONFIG as LIMITED
from .knowledge_equal import COMPARE as COMPARE
from .knowledge_equal import CONFIG as DENSE
from .knowledge_equal import METHODS as METHODS

CONFIG = replace(LIMITED, scenario="knowledge_equal_cifar", world=DENSE.world, model=replace(LIMITED.model, widths=()))
