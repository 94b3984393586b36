"""FL-GR Figure 5.4: accuracy and staleness over time of the schedulers, VGG-11; CIFAR-10 in place of CIFAR-100.

Deviation: 300 rounds instead of 1000, and a deadline of 40 s, which binds; GI-scheduling is not run.
"""

from recycling_schedulers import experiment

from fedcell.experiment import main

EXPERIMENT = experiment(["vgg tight"], "FL-GR Figure 5.4: schedulers, VGG-11", 0.0385)

if __name__ == "__main__":
    main(EXPERIMENT)
