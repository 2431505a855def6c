"""PyTorch on first use, devices and weights; and the training loop.

Epochs of mini-batches until the loss settles, fails or Ctrl-C. After each epoch the weights are
copied, so that whatever happens in the next one can be undone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError, NumericalError
from tensorcontrast.solvers.convergence import History, Monitor
from tensorcontrast.utils.optional import optional

Array = NDArray[Any]
Rows = NDArray[np.intp]

#: Kinds of devices that hold data; torch has others, such as "meta", that do not.
DEVICES = ("cpu", "cuda", "mps", "xpu")


def find_device(name: str, device: str) -> Any:
    """``torch.device`` of this text, where something can be put there; ``name`` is the caller."""
    torch = optional("torch", "neural")
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    way_out = "pass device='cpu', or 'auto' for a GPU where there is one"
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidInputError(
            f"{name}: device={device!r} is not known to torch; {way_out}"
        ) from error
    if found.type not in DEVICES:
        raise InvalidInputError(
            f"{name}: device={device!r} is not one of {', '.join(DEVICES)}; {way_out}"
        )
    try:
        torch.zeros(1, device=found)
    except Exception as error:  # torch raises AssertionError, RuntimeError or its own by build
        first = str(error).strip().partition("\n")[0]
        raise InvalidInputError(
            f"{name}: device={device!r} cannot be used on this machine ({first}); {way_out}"
        ) from error
    return found


@contextmanager
def seeded(torch: Any, seed: int) -> Iterator[None]:
    """Draw torch's random numbers on the CPU from ``seed``; the caller's state comes back after."""
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        yield


def to_arrays(module: Any) -> dict[str, Array]:
    """Weights and means of a module as plain arrays in memory of their own; counters are left."""
    state = {k: v for k, v in module.state_dict().items() if v.is_floating_point()}
    return {k: v.detach().cpu().numpy().copy() for k, v in state.items()}


def count_parameters(*modules: Any) -> int:
    """Numbers that training changes."""
    return sum(p.numel() for module in modules for p in module.parameters() if p.requires_grad)


def from_arrays(torch: Any, make: Any, weights: dict[str, Array]) -> Any:
    """Return the module of ``make()`` with these weights, without drawing any others.

    Raises
    ------
    InvalidInputError
        The weights are not those of such a module.
    """
    with torch.device("meta"):
        module = make()
    state = module.state_dict()
    wanted = {k: tuple(v.shape) for k, v in state.items() if v.is_floating_point()}
    given = {k: tuple(v.shape) for k, v in weights.items()}
    if wanted != given:
        wrong = sorted(k for k in wanted.keys() | given.keys() if wanted.get(k) != given.get(k))
        raise InvalidInputError(f"weights {wrong[:3]} do not belong to such a network")
    counters = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in state.items() if k not in wanted}
    tensors = {k: torch.from_numpy(np.array(v, dtype=np.float32)) for k, v in weights.items()}
    module.load_state_dict(counters | tensors, assign=True)
    return module.eval()


# ------------------------------------------------------------ the training loop


class LossError(ArithmeticError):
    """A loss that is not finite; caught by :func:`train`."""


@dataclass
class Outcome:
    """How a training went."""

    history: History
    #: The loss had settled.
    converged: bool = False
    #: Ctrl-C ended it; the epoch that was running is dropped.
    interrupted: bool = False
    #: What the loss became, where that was not a number; the weights are those of the epoch before.
    failed: str = ""


def batches(n: int, batch_size: int, rng: np.random.Generator) -> Iterator[Rows]:
    """All of n windows in a random order, in batches of nearly equal size, never of one window."""
    count = max(1, min(math.ceil(n / batch_size), n // 2))
    yield from np.array_split(rng.permutation(n), count)


def run_epoch(
    rows: Iterator[Rows],
    loss_of: Callable[[Rows], Any],
    optimizers: Sequence[Any],
    after_step: Callable[[], None] | None = None,
) -> float:
    """One step per batch; gives the mean loss over the windows."""
    total, seen = 0.0, 0
    for batch in rows:
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = loss_of(batch)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise LossError(f"{value}")
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        if after_step is not None:
            after_step()
        total += value * len(batch)
        seen += len(batch)
    return total / seen


def train(
    epoch: Callable[[], float],
    module: Any,
    monitor: Monitor,
    *,
    tol: float,
    patience: int,
    terms: dict[str, float],
    begun_below: float = math.inf,
) -> Outcome:
    """Run epochs until the monitor's ``max_iter``, or until the loss no longer falls.

    Parameters
    ----------
    epoch : callable
        Trains once over the data and returns the mean loss.
    module : torch.nn.Module
        Everything that training changes.
    monitor : Monitor
        Collects ``history``, shows progress, calls the callback.
    tol, patience : float, int
        The loss has settled once ``patience`` epochs in a row did not bring it below the lowest
        so far by more than ``tol`` of its size. ``tol=0`` switches this off.
    terms : dict
        Further entries of every row of the history.
    begun_below : float
        A loss that has not yet come below this is not taken for settled.

    Returns
    -------
    Outcome
        ``module`` has the weights of the last whole epoch with finite loss and weights.

    Raises
    ------
    NumericalError
        The loss was not finite in the first epoch: there is nothing to go back to.
    """
    outcome = Outcome(monitor.history)
    best, calm = math.inf, 0
    good = _copy(module)
    try:
        for _ in range(monitor.max_iter):
            loss = epoch()
            if not _finite(module):
                raise LossError("finite but weights are not")
            good = _copy(module)
            if monitor.record({"objective": loss, "loss": loss, **terms}):
                break
            # An infinite `best` has no size: the first epoch always counts as progress.
            margin = tol * abs(best) if math.isfinite(best) else 0.0
            calm = 0 if loss < best - margin else calm + 1
            best = min(best, loss)
            if tol > 0 and calm >= patience and best < begun_below:
                outcome.converged = True
                break
    except LossError as error:
        if monitor.n_iter == 0:
            raise NumericalError(
                f"{monitor.name}: the loss became {error} in the first epoch; pass a smaller "
                "learning_rate or look for extreme values in X"
            ) from None
        outcome.failed = str(error)
        module.load_state_dict(good)
    except KeyboardInterrupt:
        if monitor.n_iter == 0:
            raise
        outcome.interrupted = True
        module.load_state_dict(good)
    return outcome


def _copy(module: Any) -> dict[str, Any]:
    return {k: v.detach().clone() for k, v in module.state_dict().items()}


def _finite(module: Any) -> bool:
    return all(bool(v.isfinite().all()) for v in module.state_dict().values())
