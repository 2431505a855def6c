"""Class-aware, interpretable features from multichannel time series with few labels."""

from tensorcontrast.errors import TensorContrastError

__version__ = "0.1.0.dev0"

__all__ = ["TensorContrastError", "__version__"]
