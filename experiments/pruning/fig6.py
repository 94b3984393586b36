"""AMP-FL Figure 6.6: AMP-FL, synchronous, regularised and personalised FL on MNIST over time."""

from pruning_systems import experiment

from fedcell.experiment import main

EXPERIMENT = experiment(
    "mnist", "AMP-FL Figure 6.6: whole systems, MNIST", {2: (0.043, {0.9: 1.7}), 3: (0.0363, {0.9: 1.9})}
)

if __name__ == "__main__":
    main(EXPERIMENT)
