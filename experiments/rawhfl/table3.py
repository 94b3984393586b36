"""Table III: final accuracy and energy of every method, upsilon = 0.7."""

from rawhfl_tables import accuracy_table

from fedcell.experiment import main

STAY = "0.7"
GAP = 0.0  # of Central-SGD over RawHFL, printed
MARGIN = 0.03
PRINTED = {
    "rawhfl Z=2": (0.7013, 0.0142),
    "rawhfl Z=4": (0.7013, 0.0142),
    "rawhfl Z=6": (0.7013, 0.0142),
    "central": (0.7013, 0.0141),
    "h_fedavg m1": (0.1289, 0.0309),
    "h_fedavg m2": (0.3483, 0.0636),
    "h_fedavg ub": (0.7013, 0.0142),
    "h_fedavg relay": (0.7013, 0.0142),
    "top_popular": (0.0591, 0.0322),
}

EXPERIMENT = accuracy_table("RawHFL Table III: upsilon = 0.7", STAY, PRINTED, GAP, MARGIN)

if __name__ == "__main__":
    main(EXPERIMENT)
