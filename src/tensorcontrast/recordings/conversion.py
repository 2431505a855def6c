"""What conversions share: continuous signals to windows, errors without files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from tensorcontrast.errors import FileError, InvalidInputError, TensorContrastWarning
from tensorcontrast.recordings.continuous import Cutting

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn the errors of readers into those of input: there is no file to blame."""
    try:
        yield
    except FileError as error:
        raise InvalidInputError(*error.args) from error


def cutting(
    window_s: float | None,
    step_s: float | None,
    label_share: float,
    drop_unlabelled: bool,
    allow_nan: bool,
    name: str,
) -> Cutting:
    """How a recording is cut into windows, by lengths in seconds."""
    overlap = 0.0
    if step_s is not None:
        if window_s is None:
            raise InvalidInputError("step_s needs window_s; give both in seconds")
        if not 0 < step_s <= window_s:
            raise InvalidInputError(
                f"step_s={step_s} must be above 0 and at most window_s={window_s}; windows that "
                "leave time out are selected afterwards, as in rec[::2]"
            )
        overlap = 1 - step_s / window_s
    return Cutting(
        window_s=window_s,
        overlap=overlap,
        label_share=label_share,
        drop_unlabelled=drop_unlabelled,
        allow_nan=allow_nan,
        name=name,
    )


def drop_without_label(where: object, rec: Recordings) -> Recordings:
    """Leave out windows without a label, with a warning."""
    known = np.zeros(len(rec), dtype=bool) if rec.y is None else rec.y >= 0
    if not known.any():
        raise InvalidInputError(
            f"{where}: none of {len(rec)} windows has a label; pass drop_unlabelled=False, or "
            "choose labels that are there with labels= or label="
        )
    if known.all():
        return rec
    warnings.warn(
        f"{where}: left out {int((~known).sum())} of {len(rec)} windows, which have no label",
        TensorContrastWarning,
        stacklevel=2,
    )
    return rec[known]
