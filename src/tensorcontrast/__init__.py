"""Class-aware features, and their explanations, from multichannel time series with few labels.

The public names are imported when they are first used, so that the command line starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorcontrast.version import __version__

if TYPE_CHECKING:
    from tensorcontrast import augment, datasets
    from tensorcontrast.classify import ContrastiveClassifier, suggest_windows
    from tensorcontrast.decompose import ATD, CPD, PLC, Algorithm1
    from tensorcontrast.errors import TensorContrastError
    from tensorcontrast.export import export_onnx
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.io.model_files import load_model
    from tensorcontrast.recordings import Recordings
    from tensorcontrast.tensorize import ConvolutionFeatures, SpectrogramTensor

__all__ = [
    "ATD",
    "CPD",
    "PLC",
    "Algorithm1",
    "ContrastiveClassifier",
    "ContrastiveFeatures",
    "ConvolutionFeatures",
    "Recordings",
    "SpectrogramTensor",
    "TensorContrastError",
    "__version__",
    "augment",
    "datasets",
    "export_onnx",
    "load_model",
    "suggest_windows",
]

#: Module of each public name; a module stands for itself.
_LAZY = {
    "Algorithm1": "decompose",
    "ATD": "decompose",
    "CPD": "decompose",
    "PLC": "decompose",
    "ContrastiveClassifier": "classify",
    "ContrastiveFeatures": "features",
    "ConvolutionFeatures": "tensorize",
    "Recordings": "recordings",
    "SpectrogramTensor": "tensorize",
    "TensorContrastError": "errors",
    "augment": "augment",
    "datasets": "datasets",
    "export_onnx": "export",
    "load_model": "io.model_files",
    "suggest_windows": "classify",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LAZY[name]}")
    value = module if _LAZY[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
