"""Table V: best accuracy, and the loss there, of every method with the LSTM on Dataset-2 with K = 2."""

from osafl_tables import history_table

from fedcell.experiment import main

K = 2
PRINTED = {
    "lstm": {
        "central": (0.2822, 2.6494),
        "osafl": (0.1789, 3.3061),
        "m_fedavg": (0.0870, 3.8716),
        "m_afa_cd": (0.0448, 4.4336),
        "m_fednova": (0.0707, 4.0016),
        "m_fedprox": (0.0806, 3.9831),
        "m_feddisco": (0.0867, 3.8724),
    },
}
RATIOS = (2.05, 0.86)  # accuracy and loss of OSAFL over those of the second best

EXPERIMENT = history_table("OSAFL Table V: Dataset-2, K = 2", K, PRINTED, *RATIOS)

if __name__ == "__main__":
    main(EXPERIMENT)
