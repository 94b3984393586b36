"""Table III: best accuracy, and the loss there, of every method and model on Dataset-1 with K = 2."""

from osafl_tables import image_table

from fedcell.experiment import main

K = 2
PRINTED = {
    "fcn": {
        "central": (0.3419, 2.4209),
        "osafl": (0.3384, 2.5252),
        "m_fedavg": (0.3052, 2.9924),
        "m_afa_cd": (0.0447, 4.5930),
        "m_fednova": (0.3312, 2.6785),
        "m_fedprox": (0.2394, 3.4538),
        "m_feddisco": (0.3075, 3.0451),
    },
    "squeezenet": {
        "central": (0.3428, 2.4587),
        "osafl": (0.3381, 2.5211),
        "m_fedavg": (0.2847, 2.9985),
        "m_afa_cd": (0.0447, 4.5920),
        "m_fednova": (0.3351, 2.5044),
        "m_fedprox": (0.2713, 3.1139),
        "m_feddisco": (0.2761, 3.0152),
    },
    "cnn": {
        "central": (0.3435, 2.4344),
        "osafl": (0.3441, 2.4537),
        "m_fedavg": (0.3385, 2.5272),
        "m_afa_cd": (0.1460, 3.8666),
        "m_fednova": (0.3435, 2.4622),
        "m_fedprox": (0.3260, 2.7175),
        "m_feddisco": (0.3401, 2.5209),
    },
}

EXPERIMENT = image_table("OSAFL Table III: Dataset-1, K = 2", K, PRINTED)

if __name__ == "__main__":
    main(EXPERIMENT)
