"""Table IV: best accuracy, and the loss there, of every method with the LSTM on Dataset-2 with K = 1."""

from osafl_tables import history_table

from fedcell.experiment import main

K = 1
PRINTED = {
    "lstm": {
        "central": (0.5808, 2.0792),
        "osafl": (0.4037, 2.7313),
        "m_fedavg": (0.1786, 3.5879),
        "m_afa_cd": (0.0566, 4.3486),
        "m_fednova": (0.1088, 3.7873),
        "m_fedprox": (0.1182, 3.7455),
        "m_feddisco": (0.1700, 3.5930),
    },
}
RATIOS = (2.26, 0.76)  # accuracy and loss of OSAFL over those of the second best

EXPERIMENT = history_table("OSAFL Table IV: Dataset-2, K = 1", K, PRINTED, *RATIOS)

if __name__ == "__main__":
    main(EXPERIMENT)
