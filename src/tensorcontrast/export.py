"""Models as ONNX graphs: raw windows in, features or probabilities out, without this library.

The graph repeats the arithmetic of ``transform`` and ``predict_proba`` step by step, in the same
precision: offsets and units of signals in float64, convolutions and products in float32. What is
more exact than in the library is the Fourier transform, a product with a float64 matrix.

Shapes used throughout: n windows, c channels, t samples.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.classify import ContrastiveClassifier
from tensorcontrast.classify.block_rows import FEATURE_LENGTH
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.readout import BlockMap
from tensorcontrast.tensorize.blocks import mean_counts
from tensorcontrast.tensorize.convolution import ConvolutionFeatures
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
from tensorcontrast.tensorize.stft import quantile_weights
from tensorcontrast.utils.optional import optional
from tensorcontrast.version import __version__

__all__ = ["IR_VERSION", "OPSET", "compare_onnx", "export_onnx"]

Array = NDArray[Any]

OPSET = 18
"""Version of the ONNX operators, which every runtime since 2023 has."""

IR_VERSION = 8
"""Version of the ONNX file format that goes with it."""

MAX_WINDOWS_PER_RUN = 64
"""Windows that :func:`compare_onnx` gives a runtime at a time, which bounds the memory."""


def export_onnx(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted model as an ONNX file that takes raw windows.

    The graph has one input, ``windows``: float32, [n, channel, time] with any n. Its outputs are

    - ``features`` (n, rank), float32, of :class:`ContrastiveFeatures`: those of ``transform``;
    - ``probabilities`` (n, k), float32, and ``label`` (n,) of :class:`ContrastiveClassifier`: those
      of ``predict_proba`` and ``predict``. Labels are text or int64 as the classes are, and int64
      for truth values. An unknown answer (``abstain``) is "" or −1.

    A window with NaN, infinity or a value too large for the model has NaN in ``features`` and
    ``probabilities``, and an unknown label. The metadata of the file hold ``classes``, ``channels``
    and ``fs``, as JSON, and the version of this library.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        Fitted.
    path : path
        File to write, mostly ``*.onnx``; it is replaced where there is one.

    Raises
    ------
    InvalidInputError
        If part of the model cannot be exported; the message says which and why.
    MissingDependencyError
        If the package onnx is not installed: ``pip install 'tensorcontrast[onnx]'``.

    Examples
    --------
    >>> from tensorcontrast import export_onnx
    >>> export_onnx(model, "model.onnx")  # doctest: +SKIP
    >>> import onnxruntime  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession("model.onnx")  # doctest: +SKIP
    >>> label, probabilities = session.run(None, {"windows": X})  # doctest: +SKIP
    """
    _check_exportable(model)
    onnx = optional("onnx", "onnx")
    content = _model_proto(onnx, model).SerializeToString()
    with atomic_write(Path(path)) as file:
        file.write(content)


def compare_onnx(
    model: Any, path: str | PathLike[str], X: Any = None, *, n_timed: int = 20
) -> dict[str, Any]:
    """Run an ONNX file with onnxruntime, and compare its outputs with those of the model.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        What the file was made of.
    path : path
        File of :func:`export_onnx`.
    X : array-like [n, channel, time], optional
        Windows; they are rounded to float32 first. Default: 32 windows of noise.
    n_timed : int, default=20
        Runs with one window that are timed.

    Returns
    -------
    dict
        ``n_windows``: compared; ``max_difference``: largest one of a probability or a feature;
        ``relative_difference``: the same in units of the length of its row, for features;
        ``other_labels``: windows whose label differs; ``size_bytes``: of the file;
        ``ms_per_window``: shortest time of a run with one window, on one thread.
    """
    runtime = optional("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    windows = _noise(model) if X is None else np.ascontiguousarray(X, dtype=np.float32)
    if not len(windows):
        raise InvalidInputError("X holds no window to compare; pass at least one")
    parts = [
        session.run(None, {"windows": windows[start : start + MAX_WINDOWS_PER_RUN]})
        for start in range(0, len(windows), MAX_WINDOWS_PER_RUN)
    ]
    found = [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]
    others = 0
    if isinstance(model, ContrastiveClassifier):
        labels, values = model.answers(windows)
        others = int(np.sum(found[0] != _plain_labels(labels)))
        apart = relative = np.abs(found[1] - values).max(axis=1)
    else:
        values = model.transform(windows)
        lengths = np.linalg.norm(values.astype(np.float64), axis=1)
        apart = np.abs(found[0] - values).max(axis=1)
        relative = apart / np.where(lengths > 0, lengths, 1)
    times = []
    for i in range(n_timed):
        one = windows[i % len(windows)][np.newaxis]
        begin = time.perf_counter()
        session.run(None, {"windows": one})
        times.append(time.perf_counter() - begin)
    return {
        "n_windows": len(windows),
        "max_difference": float(apart.max()),
        "relative_difference": float(relative.max()),
        "other_labels": others,
        "size_bytes": Path(path).stat().st_size,
        "ms_per_window": 1e3 * min(times),
    }


def _noise(model: Any) -> Array:
    """White noise with about the standard deviations of the channels that were fitted."""
    features = _features_of(model)
    shape = (32, features.n_channels_in_, features.n_times_in_)
    deviation: Any = 1.0
    if features.convolution_ is not None:
        weights = features.convolution_.channel_weights_.max(axis=(0, 1))
        deviation = np.where(weights > 0, 1 / np.where(weights > 0, weights, 1), 1)[:, np.newaxis]
        deviation = deviation * features.convolution_.unit_
    noise = np.random.default_rng(0).normal(size=shape) * deviation
    return np.asarray(noise, dtype=np.float32)


def _plain_labels(labels: Array) -> Array:
    """Labels as a graph has them: truth values are numbers, and an unknown one is −1."""
    if labels.dtype.kind == "O":
        return np.array([-1 if label is None else int(label) for label in labels])
    return labels.astype(np.int64) if labels.dtype.kind == "b" else labels


# ------------------------------------------------------------------ what can be exported


def _features_of(model: Any) -> Any:
    return model.extractor_ if isinstance(model, ContrastiveClassifier) else model


def _check_exportable(model: Any) -> None:
    """Raise for what has no graph, and say why."""
    if not isinstance(model, ContrastiveFeatures | ContrastiveClassifier):
        raise InvalidInputError(
            f"{type(model).__name__} takes no raw windows, and is not exported to ONNX; export the "
            "ContrastiveFeatures or the ContrastiveClassifier that it is part of"
        )
    check_is_fitted(model)
    if getattr(model, "smooth", None) is not None:
        raise InvalidInputError(
            "smooth='viterbi' needs the other windows of a recording, but a graph sees each window "
            "for itself; export model.set_params(smooth=None), and smooth its probabilities with "
            "smooth_runs"
        )
    features = _features_of(model)
    for part in (features, *features._blocks(), features.decompose_):
        if getattr(part, "missing", "error") == "mask":
            raise InvalidInputError(
                f"missing='mask': {type(part).__name__} solves equations of its own for each "
                "pattern of missing values, which a graph cannot; fit with missing='error' and "
                "fill the gaps"
            )
    kinds = (SpectrogramTensor, ConvolutionFeatures)
    foreign = [b for b in features._blocks() if not isinstance(b, kinds)]
    if features.readout is None:
        foreign.append(features.decompose_)
    if foreign:
        raise InvalidInputError(
            f"{type(foreign[0]).__name__} is not exported to ONNX; SpectrogramTensor and "
            "ConvolutionFeatures are, with CPD, ATD and PLC that are not nonnegative"
        )


# ------------------------------------------------------------------ the graph


class _Graph:
    """Nodes and constants of a graph; methods return the name of what a node gives."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: dict[tuple[Any, ...], str] = {}

    def constant(self, value: Any) -> str:
        """Name of a constant array; equal ones are stored once."""
        array = np.ascontiguousarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            self._names[key] = f"constant_{len(self._names)}"
            stored = array.astype(object) if array.dtype.kind == "U" else array
            self.constants.append(self.onnx.numpy_helper.from_array(stored, self._names[key]))
        return self._names[key]

    def add(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Add a node of one output."""
        return self.add_many(kind, *inputs, names=[name], **attributes)[0]

    def add_many(
        self, kind: str, *inputs: str, names: Sequence[str | None], **attributes: Any
    ) -> list[str]:
        """Add a node of several outputs."""
        at = len(self.nodes)
        outputs = [name or f"{kind}_{at}_{i}" for i, name in enumerate(names)]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs

    def cast(self, x: str, dtype: Any) -> str:
        """Convert to another type."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", x, to=kind)

    def integers(self, *values: int) -> str:
        """Return a constant of axes or dimensions."""
        return self.constant(np.array(values, dtype=np.int64))

    def reshape(self, x: str, *shape: int) -> str:
        """Change the shape; 0 keeps a dimension."""
        return self.add("Reshape", x, self.integers(*shape))


def _model_proto(onnx: Any, model: Any) -> Any:
    """Return the model with its graph and metadata, checked."""
    helper, kinds = onnx.helper, onnx.TensorProto
    features = _features_of(model)
    g = _Graph(onnx)
    signals = _Signals(g, "windows")
    n_channels, n_times = features.n_channels_in_, features.n_times_in_
    given = helper.make_tensor_value_info("windows", kinds.FLOAT, ["n", n_channels, n_times])
    whole = _whole(g, _limit(features))
    properties: dict[str, Any] = {}
    if isinstance(model, ContrastiveClassifier):
        label_kind = kinds.STRING if model.classes_.dtype.kind == "U" else kinds.INT64
        _answers(g, signals, model, whole)
        made = [
            helper.make_tensor_value_info("label", label_kind, ["n"]),
            helper.make_tensor_value_info("probabilities", kinds.FLOAT, ["n", len(model.classes_)]),
        ]
        properties["classes"] = model.classes_.tolist()
        properties["abstain"] = model.abstain
    else:
        rows = g.cast(_features(g, features, _values(g, signals, features)), np.float32)
        g.add("Where", whole, rows, g.constant(np.float32(np.nan)), name="features")
        rank = int(features.decompose_.rank_)
        made = [helper.make_tensor_value_info("features", kinds.FLOAT, ["n", rank])]
    properties |= {"channels": features.channels_, "fs": features.fs_}
    graph = helper.make_graph(g.nodes, type(model).__name__, [given], made, g.constants)
    proto = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="tensorcontrast",
        producer_version=__version__,
    )
    texts = {k: json.dumps(v, ensure_ascii=False) for k, v in properties.items() if v is not None}
    own = {"model": type(model).__name__, "tensorcontrast_version": __version__}
    helper.set_model_props(proto, texts | own)
    onnx.checker.check_model(proto)
    return proto


# ------------------------------------------------------------------ signals


class _Signals:
    """Windows (n, c, t) in float32, and without their large offsets."""

    def __init__(self, g: _Graph, name: str) -> None:
        self.g, self.name = g, name
        exact = [
            g.cast(g.add(kind, name, g.integers(2), keepdims=1), np.float64)
            for kind in ("ReduceMin", "ReduceMax")
        ]
        low, high = exact  # (n, c, 1)
        span = g.add("Sub", high, low)
        nearest = g.add("Min", g.add("Abs", low), g.add("Abs", high))
        one_sign = g.add("Greater", g.add("Mul", low, high), g.constant(np.float64(0)))
        large = g.add("And", g.add("GreaterOrEqual", nearest, span), one_sign)
        middle = g.add("Add", low, g.add("Div", span, g.constant(np.float64(2))))
        #: Offsets (n, c, 1) in float64, as :func:`recordings.signals.large_offsets` has them.
        self.offset = g.add("Where", large, middle, g.constant(np.float64(0)))
        self._made: dict[tuple[float, str], tuple[str, str]] = {}

    def without_offset(self, dtype: Any, unit: float) -> tuple[str, str]:
        """Return windows less their offsets, rounded to a type, and offsets; both in units."""
        key = unit, np.dtype(dtype).str
        if key not in self._made:
            g, offset = self.g, self.offset
            values = g.add("Sub", g.cast(self.name, np.float64), offset)
            if unit != 1.0:
                values, offset = (
                    g.add("Div", x, g.constant(np.float64(unit))) for x in (values, offset)
                )
            self._made[key] = g.cast(values, dtype), offset
        return self._made[key]


def _limit(features: ContrastiveFeatures) -> float:
    """Largest magnitude of a sample that the blocks can work with."""
    limits = [float(np.finfo(np.float32).max)]
    for block in features._blocks():
        limits.append(block._engine.limit)
    return min(limits)


def _whole(g: _Graph, limit: float) -> str:
    """Truth values (n, 1): whether all samples of a window are numbers within the limit."""
    inside = g.add("LessOrEqual", g.add("Abs", "windows"), g.constant(np.float32(limit)))
    share = g.add("ReduceMin", g.cast(inside, np.float32), g.integers(1, 2), keepdims=0)
    return g.add("Unsqueeze", g.cast(share, bool), g.integers(1))


# ------------------------------------------------------------------ blocks


def _spectrogram(g: _Graph, signals: _Signals, block: SpectrogramTensor) -> str:
    """Tensors (n, c', f, frames or quantiles) of windows: what ``Frames.fill`` does."""
    frames = block._engine
    dtype, n_fft, f = frames.dtype, frames.n_fft, frames.n_fft // 2 + 1
    n_frames = len(block.times_)
    values, offset = signals.without_offset(dtype, frames.unit)
    starts = frames.hop * np.arange(n_frames, dtype=np.int64)
    cut = g.add("Gather", values, g.constant(starts[:, None] + np.arange(n_fft)), axis=2)
    if frames.window is not None:
        cut = g.add("Mul", cut, g.constant(frames.window))  # n, c, frames, n_fft
    response = scipy.fft.rfft(np.eye(n_fft), axis=1)  # n_fft, f
    columns = np.concatenate([response.real, response.imag], axis=1)
    Z = g.cast(g.add("MatMul", g.cast(cut, np.float64), g.constant(columns)), dtype)
    own = frames.offset_response
    own = np.where(np.abs(own) > 1e-14 * np.abs(own).max(), own, 0)
    lifted = g.add("Unsqueeze", offset, g.integers(3))  # n, c, 1, 1
    of_offset = g.add("Mul", lifted, g.constant(np.concatenate([own.real, own.imag])))
    # Both are rounded before they are added, as in the library: the same digits are lost.
    Z = g.add("Add", Z, g.cast(of_offset, dtype))
    real, imaginary = g.add_many("Split", Z, g.integers(f, f), names=[None, None], axis=3)
    if frames.representation == "log-real-imag":
        parts = [_log(g, g.add("Abs", part), frames) for part in (real, imaginary)]
    else:
        exact = [g.cast(part, np.float64) for part in (real, imaginary)]
        squares = g.add("Add", *(g.add("Mul", part, part) for part in exact))
        size = g.cast(g.add("Sqrt", squares), dtype)
        if frames.representation == "sqrt-magnitude":
            size = g.add("Sqrt", size)
        elif frames.representation == "log-magnitude":
            size = _log(g, size, frames)
        parts = [size]
    made = parts[0] if len(parts) == 1 else g.add("Concat", *parts, axis=1)
    made = g.add("Transpose", made, perm=[0, 1, 3, 2])  # n, c', f, frames
    if frames.n_quantiles is None:
        return made
    count = g.integers(n_frames)
    ordered, _ = g.add_many("TopK", made, count, names=[None, None], axis=-1, largest=0)
    weights = quantile_weights(n_frames, frames.n_quantiles).astype(dtype)
    return g.add("MatMul", ordered, g.constant(weights))


def _log(g: _Graph, values: str, frames: Any) -> str:
    return g.add("Log", g.add("Add", values, g.constant(frames.dtype.type(frames.floor))))


def _counts(g: _Graph, signals: _Signals, block: ConvolutionFeatures) -> str:
    """Return counts (n, v) less their means, in the order of :meth:`.SignalBlocks.values`."""
    convolve = block._engine
    c, size, pad = convolve.n_channels, convolve.positions, convolve.pad
    values, offset = signals.without_offset(np.float32, block.unit_)
    ends = g.cast(g.add("Neg", offset), np.float32)
    ends = g.add("Expand", ends, g.integers(1, 1, pad))
    padded = g.add("Concat", ends, values, ends, axis=2)
    padded = g.add("Transpose", padded, perm=[0, 2, 1])  # n, time, c
    positions = pad + convolve.stride * np.arange(size, dtype=np.int64)
    # A sum of float32 in whichever order is exact: these are counts.
    ones = g.constant(np.ones((1, size), dtype=np.float32))
    counts = []
    for i, dilation in enumerate(convolve.dilations):
        taps = g.constant(positions[:, None] + dilation * np.arange(-4, 5))  # size, 9
        # The product over taps and channels in the order of the library: the same bits.
        rows = g.reshape(g.add("Gather", padded, taps, axis=1), 0, size, 9 * c)
        outputs = g.add("MatMul", rows, g.constant(convolve.weights[i]))  # n, size, k
        for bias in block.biases_[:, i].T:
            above = g.cast(g.add("Greater", outputs, g.constant(bias)), np.float32)
            counts.append(g.add("MatMul", ones, above))  # n, 1, k
    flat = g.reshape(g.add("Concat", *counts, axis=1), 0, block.biases_.size)
    return g.add("Sub", flat, g.constant(mean_counts(block)))


def _values(g: _Graph, signals: _Signals, features: ContrastiveFeatures) -> list[str]:
    """Values (n, v_b) of each block, as :class:`.SignalBlocks` computes them."""
    return [
        g.reshape(_spectrogram(g, signals, block), 0, int(np.prod(block.output_shape_)))
        if isinstance(block, SpectrogramTensor)
        else _counts(g, signals, block)
        for block in features.signal_blocks.transformers
    ]


# ------------------------------------------------------------------ features and answers


def _mapped(g: _Graph, values: str, of_values: BlockMap) -> str:
    """Apply an affine map to the values of a block."""
    x = g.cast(values, of_values.matrix.dtype)
    if of_values.offset is not None:
        x = g.add("Sub", x, g.constant(of_values.offset))
    product = g.add("MatMul", x, g.constant(of_values.matrix))
    return g.add("Add", product, g.constant(of_values.constant))


def _features(g: _Graph, features: ContrastiveFeatures, values: list[str]) -> str:
    """Features (n, r) in the type of the decomposition: what :class:`.Readout` does."""
    assert features.readout is not None
    blocks = zip(values, features.readout.blocks, strict=True)
    parts = [_mapped(g, value, block.of_values) for value, block in blocks]
    return parts[0] if len(parts) == 1 else g.add("Sum", *parts)


def _answers(g: _Graph, signals: _Signals, model: ContrastiveClassifier, whole: str) -> None:
    """Make ``label`` and ``probabilities``: what :class:`.ClassifierRows` and ``answers`` do."""
    values = _values(g, signals, model.extractor_)
    maker = model._classifier_rows
    W = g.cast(_features(g, model.extractor_, values), np.float64)
    W = g.add("Sub", W, g.constant(maker.mean))
    W = g.add("Div", W, g.constant(maker.deviation))
    parts = [g.add("Mul", _normalised(g, W), g.constant(np.float64(FEATURE_LENGTH)))]
    for value, of_values in zip(values, maker.maps, strict=False):
        row = g.cast(_mapped(g, value, of_values), np.float64)
        length = g.constant(np.float64(1 / np.sqrt(len(maker.maps))))
        parts.append(g.add("Mul", _normalised(g, row), length))
    rows = parts[0] if len(parts) == 1 else g.add("Concat", *parts, axis=1)
    scores = g.add("MatMul", rows, g.constant(model.coef_.T))
    scores = g.add("Add", scores, g.constant(model.intercept_))
    scores = g.add("Div", scores, g.constant(np.float64(model.temperature_)))
    probability = g.add("Softmax", scores, axis=1)
    best = g.add("ArgMax", probability, axis=1, keepdims=0)
    text = model.classes_.dtype.kind == "U"
    names = model.classes_ if text else model.classes_.astype(np.int64)
    found = g.add("Gather", g.constant(names), best, axis=0)
    sure = g.add("Squeeze", whole, g.integers(1))
    if model.abstain is not None:
        largest = g.add("ReduceMax", probability, g.integers(1), keepdims=0)
        high = g.add("GreaterOrEqual", largest, g.constant(np.float64(model.abstain)))
        sure = g.add("And", sure, high)
    unknown = g.constant(np.array("") if text else np.int64(-1))
    g.add("Where", sure, found, unknown, name="label")
    single = g.cast(probability, np.float32)
    g.add("Where", whole, single, g.constant(np.float32(np.nan)), name="probabilities")


def _normalised(g: _Graph, rows: str) -> str:
    """Rows of length one; rows of zeros stay."""
    squares = g.add("ReduceSum", g.add("Mul", rows, rows), g.integers(1), keepdims=1)
    length = g.add("Sqrt", squares)
    some = g.add("Greater", length, g.constant(np.float64(0)))
    return g.add("Div", rows, g.add("Where", some, length, g.constant(np.float64(1))))
