"""AMP-FL Figure 6.3: pruning rules with VGG-11 on CIFAR-10."""

from pruning_rules import experiment

from fedcell.experiment import main

EXPERIMENT = experiment("vgg", "AMP-FL Figure 6.3: pruning rules, VGG-11 on CIFAR-10", {5: 0.0513, 10: 0.0356})

if __name__ == "__main__":
    main(EXPERIMENT)
