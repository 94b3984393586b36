"""AMP-FL Figure 6.7: AMP-FL, synchronous, regularised and personalised FL with VGG-11 on CIFAR-10 over time.

Deviation: the target is 0.5 instead of 70 and 75 %, which fewer rounds reach.
"""

from pruning_systems import experiment

from fedcell.experiment import main

EXPERIMENT = experiment(
    "vgg", "AMP-FL Figure 6.7: whole systems, VGG-11 on CIFAR-10", {2: (0.0, 1.6), 3: (0.0, 1.75)}, 0.5, " at 70 %"
)

if __name__ == "__main__":
    main(EXPERIMENT)
