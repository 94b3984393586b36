"""FL-GR Figure 5.3: accuracy and staleness over time of the schedulers, CNN on CIFAR-10."""

from recycling_schedulers import experiment

from fedcell.experiment import main

EXPERIMENT = experiment(["tight", "slack"], "FL-GR Figure 5.3: schedulers, CIFAR-10", 0.035)

if __name__ == "__main__":
    main(EXPERIMENT)
