"""Former place of :mod:`tensorcontrast.io.model_files`; its public names stay here."""

from tensorcontrast.io.model_files import load_model, save_model

__all__ = ["load_model", "save_model"]
