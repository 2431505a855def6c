"""Checkpoints: a fit that was killed goes on where it was, to the same bits.

A fit is a sequence of *runs* of iterations (starts of a CPD, the descent, trials of β), in an order
that data, parameters and random numbers fix. A checkpoint is written every few iterations and at
the end of every run. It holds the outcome of every run that is over and the state of the one that
was going on: factors, what the contrast remembers, the optimiser's moments, the history and the
state of the random numbers. To go on, the fit is begun again as it was; runs that are over give
their outcome at once, and the last one continues.

A saved state is checked against the fit that is to go on from it: shapes, finite values, counts of
iterations. Checksums tell damage, not forgery: whoever can write the file can write a state that a
fit could have had.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.errors import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    InvalidInputError,
)
from tensorcontrast.io import container
from tensorcontrast.io.atomic import check_writable
from tensorcontrast.solvers import als
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.utils import checks

if TYPE_CHECKING:
    from tensorcontrast.solvers.gradient import Adam

Array = NDArray[Any]
Factors = Sequence[Array]

KIND = container.Kind(
    b"TCCHECK\0", 1, "checkpoint", "fit with checkpoint=path", frozenset({"fit", "runs"})
)
#: Parameters that do not change what a fit finds.
_FREE = {"verbose", "callback"}


class Keep:
    """What is kept of one run. The loops call it; it does nothing where no file is wanted."""

    def __init__(
        self,
        recorder: Recorder,
        saved: dict[str, Any] | None,
        *,
        monitor: Monitor,
        memory: als.Memory,
        rng: np.random.Generator,
        n_samples: int,
        whole: bool = True,
    ) -> None:
        self._recorder, self._saved = recorder, saved
        self._monitor, self._memory, self._rng = monitor, memory, rng
        self._n_samples, self._whole = n_samples, whole
        self.ended = bool(saved and saved["ended"])
        #: Reconstruction error at the end, once someone has asked for it.
        self.error: float | None = None if saved is None else saved["error"]
        self.state: dict[str, Any] = saved or {}

    def begin(self, factors: Factors, adam: Adam | None = None) -> tuple[int, Factors]:
        """Return how many iterations are done already, and the factors after them."""
        saved = self._saved
        if saved is None:
            return 0, factors
        wrong = self._contradiction(saved, factors, adam)
        if wrong:
            raise DamagedFileError(
                f"the checkpoint holds a state that this fit cannot have: {wrong}; fit without "
                "resume="
            )
        self._rng.bit_generator.state = saved["rng"]
        self._monitor.restore(saved["monitor"])
        for name, value in saved["memory"].items():
            setattr(self._memory, name, value)
        if adam is not None and saved["adam"] is not None:
            adam.step, adam._m, adam._v = (saved["adam"][key] for key in ("step", "m", "v"))
        found = saved["factors"]
        return int(saved["done"]), kernels.like(factors, found) if found else []

    def step(self, done: int, factors: Factors, adam: Adam | None = None) -> None:
        """Take note of the state after ``done`` iterations; write it when it is time to."""
        if self._recorder.path is not None:
            self._note(done, factors, adam)
            self._recorder.tick()

    def end(self, factors: Factors, done: int) -> None:
        """Take note of the outcome."""
        self.ended = True
        if self._recorder.path is not None:
            self._note(done, factors, None)
            if not self._monitor.stopped:  # what a callback has stopped may still go on
                self._recorder.write()

    def lose(self) -> None:
        """Let go of a run that another one has beaten; its numbers stay."""
        if self.state:
            nothing = {field.name: None for field in fields(als.Memory)}
            self.state.update(factors=[], memory=nothing, adam=None, error=self.error)

    def _contradiction(self, saved: dict[str, Any], factors: Factors, adam: Adam | None) -> str:
        """Say what of a saved state cannot be true of this run; "" where all can be."""
        monitor = self._monitor
        course = np.array(saved["monitor"]["history"]["objective"], dtype=np.float64)
        count = len(course) - monitor.n_iter
        before = np.array(monitor.history.get("objective", []), dtype=np.float64)
        if not 1 <= count <= monitor.max_iter or (not self.ended and saved["done"] != count):
            return f"{saved['done']} iterations, {count} in its history, of {monitor.max_iter}"
        if not np.isfinite(course).all() or not np.array_equal(course[: len(before)], before):
            return "a history that is not that of the iterations before"
        if saved["monitor"]["last"] != course[-1] or not 0 <= saved["monitor"]["calm"] <= count:
            return "a last objective that is not the last of its history"
        if self.ended and not saved["factors"]:
            return ""  # beaten by another run
        expected = [(U.shape, U.dtype) for U in factors]
        if not _are_like(saved["factors"], expected):
            return f"factors that are not finite, or not of the shapes {[s for s, _ in expected]}"
        if self.ended:
            return self._foreign_memory(saved["memory"], factors[0].shape[-1])
        if adam is not None:
            own = saved["adam"]
            if own is None or own["step"] * monitor.max_iter != adam.total * count:
                return "an optimiser that has not done the steps of its epochs"
            if not all(_are_like(own[key], expected) for key in ("m", "v")) or any(
                (v < 0).any() for v in own["v"]
            ):
                return "moments of the optimiser that do not fit the factors"
        return self._foreign_memory(saved["memory"], factors[0].shape[-1])

    def _foreign_memory(self, memory: dict[str, Array | None], rank: int) -> str:
        """Say what a contrast cannot remember of these windows; "" where all is well."""
        n = self._n_samples
        for name, array in memory.items():
            if array is None:
                continue
            rows = len(array)
            if name in ("W", "V", "labels"):
                right = rows == n if self._whole else rows <= n
            else:
                right = name != "rows" and (name == "sizes" or rows <= n)
            if name == "labels":
                right &= array.dtype.kind == "i" and array.ndim == 1
                right = right and bool(((array >= -1) & (array < n)).all())
            else:
                right &= array.dtype.kind == "f" and array.shape[-1] == rank
                right = right and array.ndim == 1 + (name != "sizes") and _finite(array)
            if not right:
                return f"{name} of shape {array.shape} that do not fit {n} windows of rank {rank}"
        return ""

    def _note(self, done: int, factors: Factors, adam: Adam | None) -> None:
        memory = {
            field.name: value if isinstance(value, np.ndarray) or _elsewhere(value) else None
            for field in fields(als.Memory)
            for value in (getattr(self._memory, field.name),)
        }
        self.state.update(
            done=done,
            ended=self.ended,
            error=self.error,
            factors=list(factors),
            memory=memory,
            monitor=self._monitor.state(),
            rng=self._rng.bit_generator.state,
            adam=None
            if adam is None
            else {
                "step": adam.step,
                "m": [m.copy() for m in adam._m],
                "v": [v.copy() for v in adam._v],
            },
        )


class Recorder:
    """The checkpoint of one fit: all its runs, and what data and parameters they belong to.

    Parameters
    ----------
    path : path or None
        Where to write; None writes nothing.
    every : int
        Iterations from one write to the next.
    saved : dict, optional
        What :func:`load` has read of a fit that is to go on.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        every: int = 10,
        saved: dict[str, Any] | None = None,
    ) -> None:
        self.path = None if path is None else Path(path)
        self.every = every
        self._saved = saved
        self._about: dict[str, Any] = {}
        self._runs: list[Keep] = []
        self._since = 0
        self._failed = self._written = self._seeded = False

    @classmethod
    def from_paths(
        cls,
        path: str | os.PathLike[str] | None,
        every: int,
        resume: str | os.PathLike[str] | bool | None,
        *,
        name: str,
        params: Mapping[str, Any],
        seeded: bool,
    ) -> Recorder:
        """Return the recorder of a fit that is about to begin.

        ``name`` and ``params`` are those of the estimator; ``seeded`` says that its random numbers
        follow from the parameters.
        """
        saved = None
        check_every(every)
        if path is not None and not isinstance(path, str | os.PathLike):
            raise InvalidInputError(f"checkpoint={path!r} is not a path")
        if resume is True and path is None:
            raise InvalidInputError(
                "resume=True goes on from the file that checkpoint= names, but there is none; "
                "pass fit(X, checkpoint=path, resume=True), or resume=path"
            )
        source = path if resume is True else resume
        if source is not None and source is not False and not isinstance(source, str | os.PathLike):
            raise InvalidInputError(f"resume={resume!r} is neither a path nor True")
        # With resume=True a job can be started by the same command the first time and later.
        if source and (resume is not True or Path(source).exists()):
            saved = load(source)
        if path is not None:
            check_place(path)
        recorder = cls(path, every, saved)
        recorder._seeded = seeded
        recorder._about = {
            "class": name,
            "params": {k: described(v) for k, v in params.items() if k not in _FREE},
        }
        if saved is not None:
            recorder._check_parameters(str(source))
        return recorder

    @property
    def active(self) -> bool:
        """Whether anything is to be read or written."""
        return self.path is not None or self._saved is not None

    def seed(self, rng: np.random.Generator) -> None:
        """Begin with the random numbers of the fit that is to go on."""
        if self._saved is not None:
            state = self._saved["fit"]["rng"]
            if self._seeded and state != rng.bit_generator.state:
                raise DamagedFileError(
                    "the checkpoint holds other random numbers than those of random_state; fit "
                    "without resume="
                )
            rng.bit_generator.state = state
        self._about["rng"] = rng.bit_generator.state

    def identify(self, *parts: Any) -> None:
        """Name the data by their contents; raise where the checkpoint is of other data."""
        if not self.active:
            return
        self._about["data"] = fingerprint(*parts)
        if self._saved is not None and self._saved["fit"]["data"] != self._about["data"]:
            raise InvalidInputError(
                "the checkpoint belongs to other data: X, y, view and sequence must be those of "
                "the fit that wrote it; pass these, or fit without resume="
            )

    def run(
        self,
        *,
        monitor: Monitor,
        memory: als.Memory,
        rng: np.random.Generator,
        n_samples: int,
        whole: bool = True,
    ) -> Keep:
        """Return what keeps the next run of the fit.

        ``n_samples`` are those that it goes over, ``whole`` or in mini-batches.
        """
        at, saved = len(self._runs), None
        if self._saved is not None and at < len(self._saved["runs"]):
            saved = self._saved["runs"][at]
        keep = Keep(
            self, saved, monitor=monitor, memory=memory, rng=rng, n_samples=n_samples, whole=whole
        )
        if self.active:
            self._runs.append(keep)
        return keep

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Write a last checkpoint where Ctrl-C ends the block."""
        try:
            yield
        except KeyboardInterrupt:
            self.write()
            raise

    def tick(self) -> None:
        """Count an iteration; write when ``every`` have passed."""
        self._since += 1
        if self._since >= self.every:
            self.write()

    def write(self) -> None:
        """Write all runs, in one piece or not at all."""
        from tensorcontrast import __version__
        from tensorcontrast.io import model_files

        runs = [_here(keep.state) for keep in self._runs if keep.state]
        if self.path is None or not runs:
            return
        self._since = 0
        data, arrays = model_files.pack({"fit": self._about, "runs": runs})
        header = {"written_by": f"tensorcontrast {__version__}", **data["dict"]}
        try:
            _refuse_foreign(self.path)
            container.write(self.path, KIND, header, arrays)
        except FileError as error:  # a full disk must not end a fit that goes well
            if not self._failed:
                checks.warn(f"no checkpoint: {error}; the fit goes on without writing one")
            self._failed = True
        else:
            self._failed, self._written = False, True

    @property
    def kept(self) -> str:
        """What an interrupted fit leaves in its checkpoint, for the end of a message."""
        if self._written:
            count = iterations([keep.state for keep in self._runs if keep.state])
            return f"; {self.path} holds {count} iterations, and fit with resume= goes on from it"
        if self._saved is not None:
            return "; the checkpoint that it went on from is as it was"
        return "" if self.path is None else f"; nothing was written to {self.path}"

    def _check_parameters(self, name: str) -> None:
        assert self._saved is not None
        theirs = self._saved["fit"]
        if theirs["class"] != self._about["class"]:
            raise InvalidInputError(
                f"{name} is a checkpoint of {theirs['class']}, not of {self._about['class']}"
            )
        ours, saved = self._about["params"], theirs["params"]
        other = [
            f"{key}={ours.get(key)} (there {saved.get(key)})"
            for key in sorted(set(ours) | set(saved))
            if ours.get(key) != saved.get(key)
        ]
        if other:
            raise InvalidInputError(
                f"{name} is a checkpoint of a fit with other parameters: {', '.join(other)}; "
                "set them as they were, or fit without resume="
            )


def iterations(runs: list[dict[str, Any]]) -> int:
    """Count the iterations up to the last of these runs, as ``n_iter_`` does."""
    return len(runs[-1]["monitor"]["history"]["objective"]) if runs else 0


def _elsewhere(value: Any) -> bool:
    """Whether this is an array that workers hold."""
    return hasattr(value, "brought")


def _here(state: dict[str, Any]) -> dict[str, Any]:
    """Bring what workers hold of a run's memory, where it is not too much to be brought."""
    memory = {
        name: value.brought() if _elsewhere(value) else value
        for name, value in state["memory"].items()
    }
    return {**state, "memory": memory}


#: Recorder of a fit without a checkpoint.
NOTHING = Recorder()


def check_every(every: Any) -> None:
    """Raise where ``every`` is no number of iterations from one write to the next."""
    if not isinstance(every, Integral) or isinstance(every, bool) or every < 1:
        raise InvalidInputError(f"every={every!r} must be an integer of at least 1")


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise where a checkpoint cannot be written, or would replace a file that is none."""
    file = Path(path)
    if file.is_dir() or not file.parent.is_dir():
        raise FileError(
            f"checkpoint={str(path)!r} cannot be written: it must be a file in a folder that exists"
        )
    _refuse_foreign(file)
    check_writable(file)


def _refuse_foreign(file: Path) -> None:
    """Raise where there is something that is no checkpoint: it is never replaced."""
    if not os.path.lexists(file):
        return
    begins = b""
    try:
        if file.is_file():  # reading a pipe would wait for ever
            with file.open("rb") as stream:
                begins = stream.read(len(KIND.magic))
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror or error}") from error
    if begins != KIND.magic:
        raise ForeignFileError(
            f"{file} exists and is not a checkpoint, so it is not replaced by one; name another "
            "file for the checkpoint, or move this one away"
        )


def check_remembered(factors: Factors) -> None:
    """Raise where a run is needed that a checkpoint says was beaten, and does not hold."""
    if not factors:
        raise DamagedFileError(
            "the checkpoint lacks the factors of a run that is needed; fit without resume="
        )


def _finite(array: Array) -> bool:
    return bool(np.isfinite(array).all())


def _are_like(arrays: Factors, expected: list[tuple[tuple[int, ...], np.dtype[Any]]]) -> bool:
    """Whether these arrays are finite, and of the expected shapes and dtypes."""
    return [(a.shape, a.dtype) for a in arrays] == expected and all(map(_finite, arrays))


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint, checked: the fit that it belongs to, and its runs.

    Raises
    ------
    DataNotFoundError
        No such file.
    ForeignFileError, TruncatedFileError, DamagedFileError, NewerFileError
        As :func:`tensorcontrast.load_model` does.
    """
    from tensorcontrast.io import model_files

    file = Path(path)
    header, arrays = container.read(file, KIND)
    try:
        saved = {key: model_files.unpack(header[key], arrays) for key in ("fit", "runs")}
        wanted = {"done", "ended", "error", "factors", "memory", "monitor", "rng", "adam"}
        about = saved["fit"]
        texts = [about.get("class"), about.get("data"), *about.get("params", {}).values()]
        if "rng" not in about or not all(isinstance(text, str) for text in texts):
            raise DamagedFileError(f"{file} does not say what fit it belongs to")
        if not all(wanted <= set(run) for run in saved["runs"]):
            raise DamagedFileError(f"{file} has a run that lacks a part of its state")
        _set_random(about["rng"])
        for run in saved["runs"]:
            _check_run(run, file)
    except DamagedFileError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise container.not_described(file, KIND, error) from error
    return saved


def _set_random(state: Any) -> None:
    """Raise where this is not the state of random numbers of the kind that fits use."""
    np.random.default_rng().bit_generator.state = state


def _check_run(run: dict[str, Any], file: Path) -> None:
    """Raise where the state of a run is not made of what a run is made of."""
    _set_random(run["rng"])
    names = {field.name for field in fields(als.Memory)}
    monitor, adam = run["monitor"], run["adam"]
    arrays = [*run["factors"], *(value for value in run["memory"].values() if value is not None)]
    if adam is not None:
        arrays += [*adam["m"], *adam["v"]]
    columns = list(monitor["history"].values())
    marks = [monitor["last"], monitor.get("reference")]
    whole = (
        type(run["done"]) is int
        and run["done"] >= 0
        and all(type(flag) is bool for flag in (run["ended"], monitor["converged"]))
        and type(monitor["stopped"]) is bool
        and type(monitor["calm"]) is int
        and all(mark is None or isinstance(mark, float) for mark in marks)
        and (run["error"] is None or isinstance(run["error"], float))
        and set(run["memory"]) == names
        and all(isinstance(array, np.ndarray) for array in arrays)
        and all(isinstance(column, list) for column in columns)
        and "objective" in monitor["history"]
        and len({len(column) for column in columns}) == 1
        and all(isinstance(value, float) for column in columns for value in column)
        and (adam is None or type(adam["step"]) is int)
    )
    if not whole:
        raise DamagedFileError(f"{file} has a run whose state is not that of a fit")


def contents(views: Any) -> list[Any]:
    """Return what tells views from others: all of them in memory, their norms elsewhere."""
    if views.fresh:  # they follow from data and random numbers
        return []
    if isinstance(views, als.Views):
        return [views.X, views.V]
    return [views.n_samples, views.norm_x, views.norm_v]


def described(value: Any) -> str:
    """Text that tells a parameter's value from another; code is reported by its name alone."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, np.integer | np.floating):
        return repr(value.item())
    if hasattr(value, "to_config"):
        return json.dumps(value.to_config(), sort_keys=True)
    if isinstance(value, np.ndarray | list | tuple):
        return fingerprint(value)
    name = getattr(value, "__qualname__", "")
    return name or type(value).__qualname__


def fingerprint(*parts: Any) -> str:
    """Hash of arrays, numbers, texts, and sequences of them."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind != "O":
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        elif isinstance(part, np.ndarray | list | tuple):
            digest.update(f"[{len(part)}".encode())
            digest.update(fingerprint(*list(part)).encode())
        elif isinstance(part, Mapping):
            digest.update(fingerprint(*[item for pair in part.items() for item in pair]).encode())
        else:
            digest.update(f"{type(part).__name__}:{part!r};".encode())
    return digest.hexdigest()
