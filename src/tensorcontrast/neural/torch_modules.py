"""Where torch is imported: on first use, with errors that name the way out."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError, MissingDependencyError

Array = NDArray[Any]

#: Kinds of devices that hold data; torch has others, such as "meta", that do not.
DEVICES = ("cpu", "cuda", "mps", "xpu")


def require_torch(name: str) -> Any:
    """Import torch, or say which extra ``name`` needs."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} needs torch; install it with pip install 'tensorcontrast[neural]' ({error})"
        ) from error


def find_device(name: str, device: str) -> Any:
    """``torch.device`` of this text, where something can be put there; ``name`` is the caller."""
    torch = require_torch(name)
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
