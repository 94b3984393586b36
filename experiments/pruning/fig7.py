"""AMP-FL Figure 6.7: AMP-FL, synchronous, regularised and personalised FL with VGG-11 on CIFAR-10 over time.

The printed targets are 70 and 75 %; 50 % is judged beside them with the printed factor of 70 %.
"""

from pruning_systems import experiment

from fedcell.experiment import main

EXPERIMENT = experiment(
    "vgg",
    "AMP-FL Figure 6.7: whole systems, VGG-11 on CIFAR-10",
    {2: (0.0, {0.7: 1.6, 0.75: 1.5, 0.5: 1.6}), 3: (0.0, {0.7: 1.75, 0.75: 1.7, 0.5: 1.75})},
)

if __name__ == "__main__":
    main(EXPERIMENT)
