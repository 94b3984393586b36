"""AMP-FL Figure 6.5: schedulers with VGG-11 on CIFAR-10, accuracy and age over time.

The printed saving is that at 70 %; 50 % is judged beside it.
"""

from pruning_schedulers import experiment

from fedcell.experiment import main

EXPERIMENT = experiment(
    "vgg",
    "AMP-FL Figure 6.5: schedulers, VGG-11 on CIFAR-10",
    {0.7: 0.1587, 0.5: 0.1587},
    0.021,
    "at least 15.87 % saved at 70 %",
)

if __name__ == "__main__":
    main(EXPERIMENT)
