"""AMP-FL Figure 6.2: pruning rules on MNIST, accuracy by round and by pruning ratio."""

from pruning_rules import experiment

from fedcell.experiment import main

EXPERIMENT = experiment("mnist", "AMP-FL Figure 6.2: pruning rules, MNIST", {5: 0.109, 10: 0.033})

if __name__ == "__main__":
    main(EXPERIMENT)
