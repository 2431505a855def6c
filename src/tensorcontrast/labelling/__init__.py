"""Label windows in a browser: the project file, the background classifier, the local page."""

from tensorcontrast.labelling.project import ConflictError, Project
from tensorcontrast.labelling.session import Labelling

__all__ = ["ConflictError", "Labelling", "Project"]
