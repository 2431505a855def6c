"""Where recordings come from: public datasets with citation and licence, and synthetic ones."""

from tensorcontrast.datasets.har import load_har
from tensorcontrast.datasets.ptbxl import load_ptbxl
from tensorcontrast.datasets.registry import data_home, info
from tensorcontrast.datasets.sleep_edf import load_sleep_edf
from tensorcontrast.datasets.synthetic import make_cp_tensor, make_synthetic
from tensorcontrast.datasets.watch import load_watch

__all__ = [
    "data_home",
    "info",
    "load_har",
    "load_ptbxl",
    "load_sleep_edf",
    "load_watch",
    "make_cp_tensor",
    "make_synthetic",
]
