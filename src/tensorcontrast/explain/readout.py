"""Read-out weights in units that can be drawn: spectrogram values, and positive values of kernels.

The features of CPD, ATD and PLC are linear in the entries of the coupled blocks
(:mod:`tensorcontrast.readout`), and the convolution block is itself linear in its proportions of
positive values (PPV). So every feature is a weighted sum ::

    w = Σ_e u_e (v_e − v̄_e)

over spectrogram values v_e (channel, frequency, quantile or frame) and over PPV (kernel, dilation,
bias).

Shapes used throughout: n windows, c channels, f frequencies, q quantiles or frames, k = 84 kernels,
d dilations, b biases, r features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.cp import kernels
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.tensorize.blocks import block_names
from tensorcontrast.tensorize.convolution import ConvolutionFeatures
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor

__all__ = ["BlockReadOut", "ReadOut", "read_out"]

Array = NDArray[Any]

#: Values of blocks that are in memory at a time.
MAX_VALUES = 2**24
#: Smallest variance of a feature, relative to the largest, below which its shares are not defined.
MIN_VARIANCE = 1e-12


@dataclass(frozen=True)
class BlockReadOut:
    """Read-out weights of one block, in the units of its values.

    Attributes
    ----------
    name : str
        As :func:`.block_names` gives it.
    transformer : estimator
        That makes the values: fitted.
    weights : (*dims, r) array
        u, in float64. Dims are (c', f, q) for a spectrogram and (k, d, b) for random convolutions.
    centre : (*dims) array
        v̄, the values at which the block adds nothing to any feature.
    """

    name: str
    transformer: Any
    weights: Array
    centre: Array

    def values(self, X: Array) -> Array:
        """Return the values (n, d) of windows X (n, c, t), less ``centre``, in float64."""
        made = self.transformer
        values = made.ppv(X) if isinstance(made, ConvolutionFeatures) else made.transform(X)
        return np.asarray(values).reshape(len(X), -1) - self.centre.reshape(-1)

    @property
    def matrix(self) -> Array:
        """The weights as a matrix (d, r)."""
        return self.weights.reshape(self.centre.size, -1)


@dataclass(frozen=True)
class ReadOut:
    """Read-out weights of all blocks of a model.

    Attributes
    ----------
    blocks : list of BlockReadOut
    modelled : list of (*dims, r) arrays
        Covariance of the values of each block with each feature over the fitted windows, as the
        decomposition models it.
    variance : (r,) array
        Variance of each feature by the same model.
    """

    blocks: list[BlockReadOut]
    modelled: list[Array]
    variance: Array

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.blocks[0].weights.shape[-1])

    def of(self, features: Sequence[int]) -> ReadOut:
        """Return the read-out of some features alone."""
        some = list(features)
        blocks = [replace(block, weights=block.weights[..., some]) for block in self.blocks]
        return ReadOut(blocks, [part[..., some] for part in self.modelled], self.variance[some])


def read_out(model: ContrastiveFeatures) -> ReadOut:
    """Return the read-out weights of a fitted model.

    Raises
    ------
    InvalidInputError
        Where features are no linear function of spectrogram and kernels: those of neural networks,
        and of transformers from elsewhere.
    """
    check_is_fitted(model, "decompose_")
    core, whole = model.decompose_, model._readout
    kinds = (SpectrogramTensor, ConvolutionFeatures)
    if whole is None or not all(isinstance(b.transformer, kinds) for b in whole.blocks):
        raise InvalidInputError(
            f"features of {type(core).__name__} are no weighted sum of spectrogram and kernels, "
            "so that they cannot be explained by these; those of CPD, ATD and PLC on these can"
        )
    # The covariance of rows with features, as the decomposition models it.
    H = core.scale_ * kernels.khatri_rao(kernels.in_float64(core._factors))
    H /= core._layout.factor[:, None]
    weights = np.concatenate([block.weights for block in whole.blocks])
    gram = np.asarray(core.feature_gram_, dtype=np.float64) / max(1, core.n_samples_seen_)
    covariance = H @ (gram @ (H.T @ weights))
    blocks, modelled, at = [], [], 0
    names = block_names([block.transformer for block in whole.blocks])
    for name, block in zip(names, whole.blocks, strict=True):
        transformer, dims = block.transformer, tuple(block.transformer.output_shape_)
        own = slice(at, at + len(block.weights))
        at = own.stop
        u, mean, with_w = block.weights, block.center, covariance[own]
        if isinstance(transformer, ConvolutionFeatures):
            u, mean, with_w = _in_ppv(transformer, u, mean, with_w)
            dims = transformer.biases_.shape
        blocks.append(BlockReadOut(name, transformer, u.reshape(*dims, -1), mean.reshape(dims)))
        modelled.append(with_w.reshape(*dims, -1))
    return ReadOut(blocks, modelled, np.einsum("ir,ir->r", weights, covariance))


def _in_ppv(
    convolution: ConvolutionFeatures, u: Array, mean: Array, covariance: Array
) -> tuple[Array, Array, Array]:
    """Weights, centre and covariance of PPV from those of their principal components."""
    axes = convolution.components_.astype(np.float64)
    scale = convolution.scale_.astype(np.float64)
    centre = convolution.mean_ + scale * (axes.T @ mean)
    return (axes.T @ u) / scale[:, None], centre, scale[:, None] * (axes.T @ covariance)


# --------------------------------------------------------------------------- covariance shares


def measured_covariance(
    out: ReadOut, X: Array, max_values: int = MAX_VALUES
) -> tuple[list[Array], Array, list[Array]]:
    """Covariance of block values with features over windows X (n, c, t), some at a time.

    At most ``max_values`` values of a block are in memory.

    Returns
    -------
    covariance : list of (*dims, r) arrays
    variance : (r,) array
        Of each feature.
    means : list of (*dims) arrays
        Mean values of each block.
    """
    n, r = len(X), out.n_features
    sums = [np.zeros((block.centre.size, r + 1)) for block in out.blocks]
    moments = np.zeros((r + 1, r + 1))
    step = max(1, max_values // max(block.centre.size for block in out.blocks))
    for start in range(0, n, step):
        values = [block.values(X[start : start + step]) for block in out.blocks]
        parts = [v @ block.matrix for v, block in zip(values, out.blocks, strict=True)]
        W = np.insert(sum(parts[1:], start=parts[0]), r, 1.0, axis=1)  # and a column of ones
        moments += W.T @ W / n
        for total, v in zip(sums, values, strict=True):
            total += v.T @ W / n
    mean = moments[r, :r]
    covariance = [
        (total[:, :r] - np.outer(total[:, r], mean)).reshape(block.weights.shape)
        for total, block in zip(sums, out.blocks, strict=True)
    ]
    means = [
        total[:, r].reshape(block.centre.shape) + block.centre
        for total, block in zip(sums, out.blocks, strict=True)
    ]
    return covariance, np.diagonal(moments)[:r] - np.square(mean), means


def covariance_shares(weights: Array, covariance: Array, variance: Array) -> Array:
    """Share (*dims, r) of each value in the variance of each feature: u·cov(v, w) / var(w).

    Shares of all values of all blocks sum to 1. A negative share takes back what others add.
    Features without variance have shares of 0.
    """
    floor = MIN_VARIANCE * max(float(np.max(variance, initial=0.0)), np.finfo(float).tiny)
    inverse = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > floor)
    return np.asarray(weights * covariance * inverse)


# --------------------------------------------------------------------------- frequencies


def power_responses(taps: Array, dilations: Array, frequencies: Array) -> Array:
    """Power |K(f·d)|² (k, d, f) of kernels ``taps`` (k, 9) at their dilations.

    ``frequencies`` (f,) are in cycles per sample, with K(ν) = Σ_j taps_j exp(−2πiνj).
    """
    at = np.arange(taps.shape[1])
    phase = np.exp(-2j * np.pi * np.einsum("d,f,j->dfj", dilations, frequencies, at))
    return np.asarray(np.abs(np.einsum("kj,dfj->kdf", taps, phase)) ** 2)


def output_spectra(responses: Array, mixing: Array, spectra: Array) -> Array:
    """Share (k, d, f) of each frequency in the power of the output of each kernel.

    ``mixing`` (k, d, c) are the weights with which a kernel sums channels, ``spectra`` (c, f) the
    power of the channels. Channels count as if they were uncorrelated. Rows sum to 1; a kernel
    without output has a flat row.
    """
    power = responses * np.einsum("kdc,cf->kdf", mixing.astype(np.float64) ** 2, spectra)
    total = power.sum(axis=2, keepdims=True)
    flat = np.full_like(power, 1.0 / power.shape[2])
    return np.asarray(np.divide(power, total, out=flat, where=total > 0))


def on_axis(fine: Array, axis: Array) -> NDArray[np.intp]:
    """Place of the nearest value of an increasing ``axis`` for each of the fine values."""
    middle = (axis[1:] + axis[:-1]) / 2
    return np.searchsorted(middle, fine, side="right")


# --------------------------------------------------------------------------- doubled amplitude


def doubling_of_ppv(biases: Array) -> Array:
    """Change (k, d, b) of each PPV when the amplitude of the kernel's output doubles.

    The biases are the quantiles (i + 1/2) / b of the outputs z. With F their distribution
    function, the change is P(2z > bias) − P(z > bias) = F(bias) − F(bias / 2).
    """
    n_biases = biases.shape[-1]
    levels = (np.arange(n_biases) + 0.5) / n_biases
    rows = biases.reshape(-1, n_biases).astype(np.float64)
    out = np.empty_like(rows)
    for row, change in zip(rows, out, strict=True):
        change[:] = levels - np.interp(row / 2, row, levels)
    return out.reshape(biases.shape)


def doubling_of_magnitudes(values: Array, representation: str) -> Array:
    """Change of spectrogram values when the amplitude of the signal doubles."""
    if representation == "sqrt-magnitude":
        return np.asarray((np.sqrt(2.0) - 1.0) * values)
    if representation.startswith("log"):
        return np.full_like(values, np.log(2.0))
    return np.asarray(values)


def even_part(weights: Array) -> Array:
    """Part of weights (k, d, b, r) that is equal for a bias and its mirror image.

    Outputs of twice the amplitude pass high biases more often and low ones less often, in equal
    parts: the even part does not notice. It measures the form of the wave, such as which way up a
    spike points; the odd part measures its strength.
    """
    return np.asarray((weights + weights[:, :, ::-1]) / 2)
