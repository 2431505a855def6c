"""Answers for recordings, block by block; a command that was stopped goes on where it stopped.

The probabilities of each block are kept in a folder next to the output until that is written. They
are named by the contents of the model and of the block. Blocks of a store are in memory one at a
time.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cli.shared import stored
from tensorcontrast.cli.shared.session import Session
from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.io.atomic import atomic_write

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier, Timeline
    from tensorcontrast.recordings import Recordings

__all__ = ["KeptAnswers", "answered", "explained"]

Array = NDArray[Any]

#: Windows that are answered and kept at a time; fewer are not kept, as they take no time.
BLOCK_WINDOWS = 512


@dataclass
class KeptAnswers:
    """Probabilities of blocks that were answered before, in a folder next to the output.

    Attributes
    ----------
    folder : Path
        Made with the first block, and removed once the output is written.
    model : Path
        File of the model; answers of another one are not used.
    n_found : int
        Windows whose answers were there already.
    """

    folder: Path
    model: Path
    n_found: int = 0
    n_kept: int = 0
    _seed: bytes = field(default=b"", repr=False)

    @classmethod
    def next_to(cls, target: Path, model: Path) -> KeptAnswers:
        """Answers on their way to ``target``."""
        folder = target.with_name(f"{target.name}.parts")
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder} is in the way of answers that are kept; move it elsewhere")
        digest = hashlib.blake2b(model.expanduser().read_bytes(), digest_size=16).digest()
        return cls(folder, model, _seed=digest)

    def get(self, block: Recordings, answer: Callable[[Recordings], Array]) -> Array:
        """Probabilities of a block: those that are kept, or new ones, which are kept then."""
        key = hashlib.blake2b(self._seed, digest_size=16)
        key.update(np.ascontiguousarray(block.X).tobytes())
        key.update(repr((block.X.shape, block.fs, block.channels)).encode())
        file = self.folder / f"{key.hexdigest()}.npy"
        found = _read(file, len(block))
        if found is not None:
            self.n_found += len(block)
        else:
            found = answer(block)
            buffer = io.BytesIO()
            np.save(buffer, found)
            self.folder.mkdir(exist_ok=True)
            with atomic_write(file) as stream:
                stream.write(buffer.getvalue())
        self.n_kept += len(block)
        return found

    def clear(self) -> None:
        """Remove what was kept, once the output is there."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _read(file: Path, n_windows: int) -> Array | None:
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    good = found.ndim == 2 and len(found) == n_windows and found.dtype == np.float64
    return np.asarray(found) if good and np.isfinite(found).all() else None


def answered(
    session: Session, model: ContrastiveClassifier, rec: Any, kept: KeptAnswers | None = None
) -> Timeline:
    """Answers of a model for recordings in memory or in a store, as ``model.timeline`` gives them.

    Parameters
    ----------
    kept : KeptAnswers, optional
        Where blocks are kept, for recordings of more than some hundred windows.
    """
    from tensorcontrast.classify import Timeline

    single = copy(model)
    single.smooth = None  # which needs the windows of all blocks

    def answer(block: Recordings) -> Array:
        return np.asarray(single.predict_proba(block), dtype=np.float64)

    if len(rec) <= BLOCK_WINDOWS:
        kept = None
    runs = None
    if model.smooth is not None:
        runs = _runs(rec)
        model.transitions()  # an error where nothing was learned
    parts, done = [], 0
    gaps = getattr(model.extractor_, "missing", "error") == "mask"
    with session.progress("answers", total=len(rec)) as update:
        try:
            for block in stored.window_blocks(rec, gaps=gaps, most=BLOCK_WINDOWS):
                parts.append(answer(block) if kept is None else kept.get(block, answer))
                done += len(block)
                update(done=done)
        except KeyboardInterrupt:
            message = "the answers were stopped; nothing was written"
            if kept is not None and kept.n_kept:
                message = (
                    f"the answers were stopped after {kept.n_kept:,} of {len(rec):,} windows; "
                    f"{kept.folder} keeps them, and the same command goes on from there"
                )
            raise KeyboardInterrupt(message) from None
    if kept is not None and kept.n_found:
        session.note(f"{kept.n_found:,} of {len(rec):,} windows were answered before the stop")
    probability = np.concatenate(parts)
    path = probability.argmax(axis=1)
    if runs is not None:
        probability, path = model.smooth_runs(probability, runs)
    names = np.array([str(name) for name in model.classes_.tolist()])
    labels = names[path]
    if model.abstain is not None:
        labels[probability[np.arange(len(path)), path] < model.abstain] = ""
    return Timeline.from_answers(rec, labels, probability, names.tolist())


def explained(session: Session, model: ContrastiveClassifier, rec: Any) -> dict[str, Array]:
    """Contributions to the log odds of each answer, as columns by name."""
    from tensorcontrast.explain import explain_predictions

    parts, done = [], 0
    gaps = getattr(model.extractor_, "missing", "error") == "mask"
    with session.progress("explanations", total=len(rec)) as update:
        for block in stored.window_blocks(rec, gaps=gaps, most=BLOCK_WINDOWS):
            parts.append(explain_predictions(model, block).columns())
            done += len(block)
            update(done=done)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _runs(rec: Any) -> list[NDArray[np.intp]]:
    """Windows that follow each other, in the order of time."""
    from tensorcontrast.classify.smoothing import runs_of

    if "recording" not in rec.columns:
        raise InvalidInputError(
            "--smooth needs to know which windows follow each other, but these do not say where "
            "they are from; use continuous recordings, cut with --window S, or pass --no-smooth"
        )
    return list(runs_of(rec.columns["recording"], rec.columns.get("start"), rec.n_times))
