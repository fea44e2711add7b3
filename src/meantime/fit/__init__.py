"""Training of heads on a few photos of each class: drawn, encoded once, fitted, saved.

fit_head("coop", "photos/", shots=4, out="heads/mine")   # then: Classifier(names, method="mta@heads/mine")
"""

from meantime.fit.draw import Draw, draw_shots, kept_draw
from meantime.fit.features import FreshViews, TrainingViews, training_views
from meantime.fit.pools import Pools, find_pools
from meantime.fit.published import import_prompt
from meantime.fit.train import Fitted, default_epochs, fit_head
from meantime.heads.saved import HeadInfo, head_info, load_head, save_head, saved_heads

__all__ = [
    "Draw",
    "Fitted",
    "FreshViews",
    "HeadInfo",
    "Pools",
    "TrainingViews",
    "default_epochs",
    "draw_shots",
    "find_pools",
    "fit_head",
    "head_info",
    "import_prompt",
    "kept_draw",
    "load_head",
    "save_head",
    "saved_heads",
    "training_views",
]
