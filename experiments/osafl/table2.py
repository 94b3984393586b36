"""Table II: best accuracy, and the loss there, of every method and model on Dataset-1 with K = 1."""

from osafl_tables import image_table

from fedcell.experiment import main

K = 1
PRINTED = {
    "fcn": {
        "central": (0.6630, 1.9497),
        "osafl": (0.6608, 2.0249),
        "m_fedavg": (0.6281, 2.2943),
        "m_afa_cd": (0.0566, 4.5856),
        "m_fednova": (0.6531, 2.1392),
        "m_fedprox": (0.5440, 2.6504),
        "m_feddisco": (0.6292, 2.2994),
    },
    "squeezenet": {
        "central": (0.6626, 1.9821),
        "osafl": (0.6598, 2.0273),
        "m_fedavg": (0.6129, 2.2838),
        "m_afa_cd": (0.0545, 4.5841),
        "m_fednova": (0.6577, 2.0054),
        "m_fedprox": (0.5965, 2.3803),
        "m_feddisco": (0.6084, 2.2796),
    },
    "cnn": {
        "central": (0.6630, 1.9543),
        "osafl": (0.6630, 1.9710),
        "m_fedavg": (0.6610, 2.0194),
        "m_afa_cd": (0.4381, 3.2412),
        "m_fednova": (0.6630, 1.9752),
        "m_fedprox": (0.6486, 2.1385),
        "m_feddisco": (0.6610, 2.0200),
    },
}

EXPERIMENT = image_table("OSAFL Table II: Dataset-1, K = 1", K, PRINTED)

if __name__ == "__main__":
    main(EXPERIMENT)
