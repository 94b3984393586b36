"""AMP-FL Figure 6.4: schedulers on MNIST, accuracy and age over time."""

from pruning_schedulers import experiment

from fedcell.experiment import main

EXPERIMENT = experiment(
    "mnist",
    "AMP-FL Figure 6.4: schedulers, MNIST",
    {0.85: 0.319},
    0.0397,
    "85 % in 10.42 s against 15.3 s (PR), 31.9 %",
    ((10.42, 0.85, "Proposed"), (15.3, 0.85, "PR")),
)

if __name__ == "__main__":
    main(EXPERIMENT)
