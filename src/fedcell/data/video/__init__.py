"""Video requests: users who watch one file after another, and the task of naming the next file.

A catalogue of files in genres, users with tastes, request chains, stores that change from round to round, feature
rows made from a few integers, and the exact accuracy no predictor can beat. `problem.video_problem_parts` puts it
all together; it stands apart because it needs the rooms `world` and `learn`.
"""

from .catalogue import Catalogue, build_catalogue, similarity, zipf_mandelbrot
from .ceilings import (
    bayes_accuracy,
    genre_shares,
    loss_floor,
    most_requested_share,
    most_similar_accuracy,
    stationary_law,
    top_accuracy,
    transition_matrix,
)
from .features import FeatureTable, feature_table, sample_bit
from .requests import draw_arrivals, draw_requests
from .settings import OSAFL, PRESETS, RAWHFL, VideoConfig
from .users import Profiles, draw_profiles, leave_law

__all__ = [
    "OSAFL",
    "PRESETS",
    "RAWHFL",
    "Catalogue",
    "FeatureTable",
    "Profiles",
    "VideoConfig",
    "bayes_accuracy",
    "build_catalogue",
    "draw_arrivals",
    "draw_profiles",
    "draw_requests",
    "feature_table",
    "genre_shares",
    "leave_law",
    "loss_floor",
    "most_requested_share",
    "most_similar_accuracy",
    "sample_bit",
    "similarity",
    "stationary_law",
    "top_accuracy",
    "transition_matrix",
    "zipf_mandelbrot",
]
