"""FL-GR Figure 5.4: accuracy and staleness over time of the schedulers, VGG-11; CIFAR-10 in place of CIFAR-100."""

from recycling_schedulers import experiment

from fedcell.experiment import main

EXPERIMENT = experiment(["vgg"], "FL-GR Figure 5.4: schedulers, VGG-11", 0.0385)

if __name__ == "__main__":
    main(EXPERIMENT)
