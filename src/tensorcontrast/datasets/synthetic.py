"""Recordings and tensors with planted components, for tests, examples and documentation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings import Recordings

__all__ = ["make_cp_tensor", "make_synthetic"]

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]


def make_cp_tensor(
    n_samples: int = 200,
    dims: Sequence[int] = (6, 12, 10),
    rank: int = 4,
    *,
    noise: float = 0.1,
    n_classes: int = 3,
    n_nuisance: int = 0,
    separation: float = 3.0,
    nonnegative: bool = False,
    dtype: npt.DTypeLike = np.float64,
    random_state: int | np.random.Generator | None = None,
) -> tuple[FloatArray, IntArray, FloatArray, list[FloatArray]]:
    r"""Make a tensor of samples that is a sum of rank-one terms plus noise.

    .. math:: X_n = \sum_r F_{nr} \; a^{(1)}_r \circ a^{(2)}_r \circ \dots + E_n

    The first ``rank - n_nuisance`` columns of ``F`` have a mean that depends on the class; the
    last ``n_nuisance`` columns are drawn in the same way for all classes. The columns of every
    factor have unit norm, so that all scale is in ``F``.

    Parameters
    ----------
    n_samples : int
        Number of samples, the first mode of the tensor.
    dims : sequence of int
        Sizes of the further modes, such as channel, frequency and time.
    rank : int
        Number of rank-one terms.
    noise : float
        Norm of the Gaussian noise over the norm of the noise-free tensor; exact, so the relative
        error of the planted factors is ``noise`` (up to rounding). 0 for none.
    n_classes : int
        Number of classes; their counts differ by one at most.
    n_nuisance : int
        How many of the ``rank`` terms carry no class information. They are twice as strong.
    separation : float
        Distance between class means, in standard deviations within a class.
    nonnegative : bool
        Make features and factors non-negative (the noise may still make entries of X negative).
    dtype : dtype
        ``float32`` or ``float64``.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    X : array of shape (n_samples, *dims)
        The tensor.
    y : int array of shape (n_samples,)
        Classes, 0-based, in random order.
    features : array of shape (n_samples, rank)
        The planted ``F``.
    factors : list of arrays of shape (dims[k], rank)
        The planted factors, with columns of unit norm.

    Examples
    --------
    >>> X, y, features, factors = make_cp_tensor(20, (3, 5, 4), 2, noise=0.0, random_state=0)
    >>> X.shape, features.shape, [f.shape for f in factors]
    ((20, 3, 5, 4), (20, 2), [(3, 2), (5, 2), (4, 2)])
    >>> rebuilt = np.einsum("nr,ir,jr,kr->nijk", features, *factors)
    >>> bool(np.allclose(rebuilt, X))
    True
    """
    dims = tuple(int(d) for d in dims)
    if n_samples < 1 or rank < 1 or not dims or min(dims) < 1:
        raise InvalidInputError(
            f"n_samples={n_samples}, rank={rank} and dims={dims} must all be at least 1"
        )
    if not 1 <= n_classes <= n_samples:
        raise InvalidInputError(
            f"n_classes={n_classes} must lie between 1 and n_samples={n_samples}"
        )
    if not 0 <= n_nuisance < rank:
        raise InvalidInputError(
            f"n_nuisance={n_nuisance} must be at least 0 and smaller than rank={rank}, "
            "else no term carries the classes"
        )
    if not (np.isfinite(noise) and noise >= 0):
        raise InvalidInputError(f"noise={noise} must be a finite number of at least 0")
    out = np.dtype(dtype)
    if out not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError(f"dtype={out} is not float32 or float64")
    rng = np.random.default_rng(random_state)

    factors = []
    for dim in dims:
        factor = rng.standard_normal((dim, rank))
        if nonnegative:
            factor = np.abs(factor)
        factors.append(factor / np.linalg.norm(factor, axis=0))

    y = rng.permutation(np.arange(n_samples) % n_classes).astype(np.int64)
    features = rng.standard_normal((n_samples, rank))
    n_signal = rank - n_nuisance
    features[:, :n_signal] += _class_means(n_classes, n_signal, separation, rng)[y]
    features[:, n_signal:] *= 2.0
    if nonnegative:
        features = np.abs(features)

    # n = samples, r = rank, i = prod(dims): one matrix product gives the whole tensor.
    khatri_rao = factors[0]
    for factor in factors[1:]:
        khatri_rao = (khatri_rao[:, None, :] * factor[None, :, :]).reshape(-1, rank)
    flat = features @ khatri_rao.T
    if noise > 0:
        error = rng.standard_normal(flat.shape)
        flat += error * (noise * np.linalg.norm(flat) / np.linalg.norm(error))
    X = flat.reshape(n_samples, *dims).astype(out)
    return X, y, features.astype(out), [factor.astype(out) for factor in factors]


def make_synthetic(
    n_samples: int = 300,
    n_channels: int = 6,
    n_times: int = 200,
    *,
    n_classes: int = 3,
    n_subjects: int = 10,
    n_components: int | None = None,
    n_nuisance: int = 2,
    noise: float = 0.5,
    separation: float = 3.0,
    subject_gain: float = 0.2,
    subject_shift: float = 0.2,
    fs: float = 100.0,
    random_state: int | np.random.Generator | None = None,
) -> Recordings:
    r"""Make recordings with planted classes, nuisance components, subjects and noise.

    Each component is a pattern over channels times an oscillation of its own frequency under its
    own envelope. The strength of the class components depends on the class; that of the nuisance
    components, which are stronger, does not. The phase of each oscillation is random in every
    sample, so that classes are seen in spectrograms, not in the mean of the signals. Every subject
    has gains and shifts of its own for all channels.

    .. math:: X_{nct} = g_{sc} \sum_r A_{nr}\, p_{cr}\, e_r(t) \cos(2\pi f_r t + \varphi_{nr})
              + h_{sc} + \varepsilon_{nct}

    Parameters
    ----------
    n_samples, n_channels, n_times : int
        Size of the recordings.
    n_classes, n_subjects : int
        Number of classes, and of groups; every subject has samples of every class where there are
        enough samples.
    n_components : int, optional
        Number of components that carry the classes; by default one per class.
    n_nuisance : int
        Number of components that do not.
    noise : float
        Standard deviation of the white noise over that of the signal without noise.
    separation : float
        Distance between the strengths of classes, in standard deviations within a class.
    subject_gain, subject_shift : float
        Standard deviations of the logarithm of the gains, and of the shifts (in standard
        deviations of the signal).
    fs : float
        Samples per second.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Recordings
        float32, with ``y``, groups (1 to ``n_subjects``), names of channels and classes.

    Examples
    --------
    >>> make_synthetic(60, 4, 128, n_subjects=5, random_state=0)
    Recordings(synthetic: 60 samples, 4 channels, 128 times (1.28 s at 100 Hz), 3 classes, 5 groups)
    """
    n_components = n_classes if n_components is None else n_components
    sizes = {"n_channels": n_channels, "n_subjects": n_subjects, "n_components": n_components}
    for name, size in sizes.items():
        if size < 1:
            raise InvalidInputError(f"{name}={size} must be at least 1")
    if n_times < 8:
        raise InvalidInputError(f"n_times={n_times} is too short for oscillations; take 8 or more")
    if not 1 <= n_classes <= n_samples or n_subjects > n_samples:
        raise InvalidInputError(
            f"{n_samples} samples are too few for {n_classes} classes and {n_subjects} subjects"
        )
    if n_nuisance < 0 or not (np.isfinite(noise) and noise >= 0):
        raise InvalidInputError(f"n_nuisance={n_nuisance} and noise={noise} must be at least 0")
    rng = np.random.default_rng(random_state)
    rank = n_components + n_nuisance

    order = rng.permutation(n_samples)
    y = np.empty(n_samples, dtype=np.int64)
    subject = np.empty(n_samples, dtype=np.int64)
    y[order] = np.arange(n_samples) % n_classes
    subject[order] = np.arange(n_samples) // n_classes % n_subjects
    if n_samples < n_classes * n_subjects:
        subject[order] = np.arange(n_samples) % n_subjects

    # Frequencies apart from each other, from 4 cycles in the window up to 0.4 of the rate.
    edges = np.linspace(4.0 * fs / n_times if n_times >= 20 else 0.1 * fs, 0.4 * fs, rank + 1)
    frequency = rng.permutation(edges[:-1] + np.diff(edges) * rng.uniform(0.25, 0.75, rank))
    pattern = rng.standard_normal((n_channels, rank))
    pattern /= np.linalg.norm(pattern, axis=0) / np.sqrt(n_channels)
    time = np.arange(n_times) / fs
    centre, width = rng.uniform(0.3, 0.7, rank), rng.uniform(0.2, 0.5, rank)
    envelope = np.exp(-0.5 * ((time[:, None] * fs / n_times - centre) / width) ** 2)

    strength = rng.standard_normal((n_samples, rank))
    means = _class_means(n_classes, n_components, separation, rng)
    strength[:, :n_components] += (means - means.min(axis=0) + 2.0)[y]
    strength[:, n_components:] = 2.0 * strength[:, n_components:] + 2.0 * (separation + 2.0)
    strength = np.maximum(strength, 0.0)  # a negative strength would only turn the phase

    X = np.zeros((n_samples, n_channels, n_times), dtype=np.float32)
    for r in range(rank):
        phase = rng.uniform(0, 2 * np.pi, (n_samples, 1))
        wave = strength[:, r : r + 1] * np.cos(2 * np.pi * frequency[r] * time + phase)
        X += (pattern[:, r, None] * (wave * envelope[:, r])[:, None, :]).astype(np.float32)
    scale = float(X.std()) or 1.0
    gain = np.exp(subject_gain * rng.standard_normal((n_subjects, n_channels)))[subject]
    shift = subject_shift * scale * rng.standard_normal((n_subjects, n_channels))[subject]
    X *= gain[:, :, None].astype(np.float32)
    X += shift[:, :, None].astype(np.float32)
    X += np.float32(noise * scale) * rng.standard_normal(X.shape, dtype=np.float32)
    return Recordings(
        X,
        y,
        groups=subject + 1,
        fs=fs,
        channels=[f"ch{k}" for k in range(n_channels)],
        classes=[f"class{k}" for k in range(n_classes)],
        name="synthetic",
        licence="CC0",
    )


def _class_means(
    n_classes: int, n_terms: int, separation: float, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Draw class means in ``n_terms`` dimensions, the nearest two ``separation`` apart."""
    if n_classes == 1:
        return np.zeros((1, n_terms))
    # The most even of 32 draws, else two means close by chance would blow up all the others.
    draws = rng.standard_normal((32, n_classes, n_terms))
    gaps = np.linalg.norm(draws[:, :, None] - draws[:, None], axis=3)
    gaps = gaps[(slice(None), *np.triu_indices(n_classes, 1))]
    best = int(np.argmax(gaps.min(axis=1) / gaps.max(axis=1)))
    return np.asarray(draws[best] * (separation / gaps[best].min()))
