"""One controlled comparison each: ``python -m benchmarks.study [--data har …] [variant …]``.

What decides the defaults. Every variant differs in one thing from ``base``, or from the variant
that its name begins with. Only development subjects take part: those that are in no test set of
``python -m benchmarks.accuracy``, whichever split and seed. They are split by subject into
unlabelled (60 %), train (20 %) and validation (20 %), four times. A cell is the accuracy of a
logistic probe on 32 features, with 60 labels (mean of six draws) and with all.

Results go to ``benchmarks/results/study.jsonl``, a line a fit; what is there is not done again.
Needs the recordings named by TENSORCONTRAST_DATA.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import RESULTS
from tensorcontrast import CPD, PLC, Recordings, SpectrogramTensor, augment
from tensorcontrast.datasets import load_har, load_ptbxl, load_sleep_edf
from tensorcontrast.evaluate.protocol import Split, label_budget, linear_probe, subject_split

RANK, SEEDS, DRAWS = 32, range(4), 6
#: ``har-mixed`` is made as the split of the ATD authors: windows of the same subjects, which
#: overlap by half, are in train and validation.
NAMES = ("har", "har-mixed", "sleep-edf", "ptb-xl")


def _ptbxl() -> Recordings:
    """PTB-XL has a few records with artefacts of up to 30 mV; no heart makes 5 mV."""
    rec = load_ptbxl(download=False)
    rec.X = np.clip(rec.X, -5, 5)
    return rec


LOADERS: dict[str, Callable[[], Recordings]] = {
    "har": lambda: load_har(download=False),
    "sleep-edf": lambda: load_sleep_edf(download=False),
    "ptb-xl": _ptbxl,
}


def development(name: str) -> Recordings:
    """Return recordings of the subjects that no test set of the accuracy table holds."""
    rec = LOADERS[name.removesuffix("-mixed")]()
    assert rec.groups is not None
    seen: set[Any] = set()
    for seed in SEEDS:
        seen |= set(np.unique(rec.groups[subject_split(rec, seed=seed).test]).tolist())
    keep = ~np.isin(rec.groups, list(seen))
    if name.startswith("har"):  # the official test subjects are the test of the other protocols
        keep &= rec.columns["split"] == 0
    return rec[np.flatnonzero(keep)]


def split_of(name: str, rec: Recordings, seed: int) -> Split:
    """Split the development subjects."""
    split = subject_split(rec, 0.6, 0.2, 0.2, seed=seed)
    if not name.endswith("-mixed"):
        return split
    rest = np.random.default_rng(seed).permutation(np.concatenate([split.train, split.test]))
    half = len(rest) // 2
    return Split(split.unlabelled, np.sort(rest[:half]), np.sort(rest[half:]), "mixed")


def neighbours(rec: Recordings) -> np.ndarray | None:
    """Give an id for each run of consecutive windows; None where windows have no order."""
    if "recording" in rec.columns:
        return np.asarray(rec.columns["recording"])
    if "epoch" in rec.columns:
        night = np.asarray(rec.groups).astype(np.int64) * 10 + np.asarray(rec.columns["night"])
        broken = np.diff(np.asarray(rec.columns["epoch"]), prepend=-5) != 1
        return night * 100_000 + np.cumsum(broken)
    return None


PLAIN = {"mean_row": False, "polarity": False}


@dataclass
class Variant:
    """What a variant changes."""

    tensor: dict[str, Any] = field(default_factory=lambda: dict(PLAIN))
    plc: dict[str, Any] = field(default_factory=dict)
    cpd: bool = False
    fresh: bool = False
    prepare: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    tensors: Callable[[np.ndarray, float], np.ndarray] | None = None
    sequence: bool = False
    #: Whether the labels of the probe are in the graph too; a fit for each of two draws then.
    labels: bool = False
    after: Callable[[Any, np.ndarray], np.ndarray] | None = None
    y: bool = False


def equal_channels(fit: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Each channel divided by its root mean square over the unlabelled windows."""
    centred = fit - fit.mean(axis=2, keepdims=True)
    return X / np.sqrt((centred**2).mean(axis=(0, 2), keepdims=True))


def stacked(X: np.ndarray, fs: float) -> np.ndarray:
    """Several resolutions, each averaged over the same few pieces of time, stacked as rows."""
    base = SpectrogramTensor(fs, **PLAIN).fit(X[:1])
    parts = []
    for share in (2, 1, 0.5):
        n_fft = min(int(base.n_fft_ * share), X.shape[2])
        options = {"n_fft": n_fft, "hop": max(1, n_fft // 8), "mean_row": share == 1}
        made = SpectrogramTensor(fs, polarity=False, **options)
        T = made.fit_transform(X)
        cuts = np.array_split(np.arange(T.shape[3]), min(4, T.shape[3]))
        cuts = cuts if len(cuts) == 4 else [np.arange(T.shape[3])] * 4
        parts.append(np.stack([T[..., c].mean(axis=3) for c in cuts], axis=3) / n_fft**0.25)
    return np.concatenate(parts, axis=2)


def signed_dc(X: np.ndarray, fs: float) -> np.ndarray:
    """√|Z| with the sign of Z in the row of frequency zero, where it is real."""
    T = SpectrogramTensor(fs, **MEAN).fit_transform(X)
    T[:, :, 0] *= np.sign(T[:, :, -1])
    return np.ascontiguousarray(T[:, :, :-1])


def heavy_mean(X: np.ndarray, fs: float) -> np.ndarray:
    """Give the row of the signed mean twice the size it has."""
    T = SpectrogramTensor(fs, **MEAN).fit_transform(X)
    T[:, :, -1] *= 2
    return T


def cross_spectrum(X: np.ndarray, fs: float) -> np.ndarray:
    """Signed fourth root of the squared real cross-spectra: channel × channel × frequency."""
    n_fft = SpectrogramTensor(fs, **PLAIN).fit(X[:1]).n_fft_
    window = np.hanning(n_fft).astype(np.float32)
    out = []
    for start in range(0, len(X), 256):
        frames = np.lib.stride_tricks.sliding_window_view(X[start : start + 256], n_fft, axis=2)
        Z = np.fft.rfft(frames[:, :, :: n_fft // 4] * window, axis=3).astype(np.complex64)
        Z = np.moveaxis(Z, 3, 1)  # (m, frequency, channel, frame)
        S = (Z @ np.conj(np.swapaxes(Z, 2, 3))).real / Z.shape[3]
        S = np.moveaxis(S, 1, 3)
        out.append((np.sign(S) * np.abs(S) ** 0.25).astype(np.float32))
    return np.concatenate(out)


def prototypes(model: Any, W: np.ndarray) -> np.ndarray:
    """Softmax of the cosines to 32 centres of the fitted features."""
    from sklearn.cluster import KMeans

    mean, sd = model.features_.mean(axis=0), model.features_.std(axis=0)
    Z, fitted = (W - mean) / sd, (model.features_ - mean) / sd
    centres = KMeans(RANK, n_init=3, random_state=0).fit(fitted).cluster_centers_
    unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (Z, centres)]
    return unit[0] @ unit[1].T


def signed_root(model: Any, W: np.ndarray) -> np.ndarray:
    """sign(w)√|w| of standardised features."""
    Z = (W - model.features_.mean(axis=0)) / model.features_.std(axis=0)
    return np.sign(Z) * np.sqrt(np.abs(Z))


def unit_length(model: Any, W: np.ndarray) -> np.ndarray:
    """Standardised features of unit length: what the contrast compares."""
    Z = (W - model.features_.mean(axis=0)) / model.features_.std(axis=0)
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def half_whitened(model: Any, W: np.ndarray) -> np.ndarray:
    """Standardised features, times the fourth root of the inverse of their correlations."""
    mean, sd = model.features_.mean(axis=0), model.features_.std(axis=0)
    values, vectors = np.linalg.eigh(np.cov(((model.features_ - mean) / sd).T))
    return ((W - mean) / sd) @ (vectors * np.maximum(values, 1e-9) ** -0.25) @ vectors.T


MEAN = {"mean_row": True, "polarity": False}
POLARITY = {"mean_row": "auto", "polarity": True}
VARIANTS: dict[str, Variant] = {
    "cpd": Variant(cpd=True),
    "base": Variant(plc={"beta": 0.3}),
    "base, β 0.15": Variant(plc={"beta": 0.15}),
    "base, β 0.2": Variant(plc={"beta": 0.2}),
    "base, β 0.6": Variant(plc={"beta": 0.6}),
    "mean row, cpd": Variant(tensor=MEAN, cpd=True),
    "mean row": Variant(tensor=MEAN, plc={"beta": 0.3}),
    "mean row, β 0.15": Variant(tensor=MEAN, plc={"beta": 0.15}),
    "mean row, β 0.2": Variant(tensor=MEAN, plc={"beta": 0.2}),
    "mean row, β 0.6": Variant(tensor=MEAN, plc={"beta": 0.6}),
    "mean row, 30 clusters": Variant(tensor=MEAN, plc={"n_clusters": 30}),
    "mean row, 200 clusters": Variant(tensor=MEAN, plc={"n_clusters": 200}),
    "mean row, τ 0.1": Variant(tensor=MEAN, plc={"temperature": 0.1}),
    "mean row, τ 0.5": Variant(tensor=MEAN, plc={"temperature": 0.5}),
    "mean row, 50 epochs": Variant(tensor=MEAN, plc={"n_epochs": 50}),
    "mean row, views drawn anew": Variant(tensor=MEAN, fresh=True),
    "mean row, equal channels, cpd": Variant(tensor=MEAN, prepare=equal_channels, cpd=True),
    "mean row, equal channels": Variant(tensor=MEAN, prepare=equal_channels),
    "mean row, three starts": Variant(tensor=MEAN, plc={"n_init": 3}),
    "mean row, log": Variant(tensor=MEAN | {"representation": "log-magnitude"}),
    "mean row, cosine to prototypes": Variant(tensor=MEAN, after=prototypes),
    "mean row, signed root": Variant(tensor=MEAN, after=signed_root),
    "mean row, unit length": Variant(tensor=MEAN, after=unit_length),
    "signed zero row, cpd": Variant(tensors=signed_dc, cpd=True),
    "signed zero row": Variant(tensors=signed_dc),
    "signed zero row, τ 0.1": Variant(tensors=signed_dc, plc={"temperature": 0.1}),
    "mean row twice, cpd": Variant(tensors=heavy_mean, cpd=True),
    "mean row twice": Variant(tensors=heavy_mean),
    "mean row, equal channels, τ 0.1": Variant(
        tensor=MEAN, prepare=equal_channels, plc={"temperature": 0.1}
    ),
    "mean row, τ 0.1, β 0.15": Variant(tensor=MEAN, plc={"temperature": 0.1, "beta": 0.15}),
    "base, τ 0.1": Variant(plc={"temperature": 0.1}),
    "cross-spectrum, cpd": Variant(tensors=cross_spectrum, cpd=True),
    "cross-spectrum": Variant(tensors=cross_spectrum),
    "three resolutions, cpd": Variant(tensors=stacked, cpd=True),
    "three resolutions": Variant(tensors=stacked),
    "mean row, neighbours as views": Variant(
        tensor=MEAN, plc={"neighbour_weight": 0.5}, sequence=True
    ),
    "mean row, neighbours as views, always": Variant(
        tensor=MEAN, plc={"neighbour_weight": 1.0}, sequence=True
    ),
    "mean row, 60 labels in the graph": Variant(tensor=MEAN, labels=True),
    "mean row, β 1, 60 labels in the graph": Variant(tensor=MEAN, plc={"beta": 1.0}, labels=True),
    "polarity, cpd": Variant(tensor=POLARITY, cpd=True),
    "polarity": Variant(tensor=POLARITY),
    "default": Variant(tensor={}),
    "default, unit length": Variant(tensor={}, after=unit_length),
    "default, cpd": Variant(tensor={}, cpd=True),
    "default, cpd, unit length": Variant(tensor={}, cpd=True, after=unit_length),
    "default, unit length, τ 0.1": Variant(tensor={}, after=unit_length, plc={"temperature": 0.1}),
    "default, unit length, τ 0.5": Variant(tensor={}, after=unit_length, plc={"temperature": 0.5}),
    "default, unit length, mean row twice": Variant(tensors=heavy_mean, after=unit_length),
    "default, half whitened": Variant(tensor={}, after=half_whitened),
    "mean row, true labels": Variant(tensor=MEAN, plc={"graph": "true"}, y=True),
}


def measure(name: str, rec: Recordings, variant: Variant, seed: int) -> dict[str, Any]:
    """Fit on the unlabelled development subjects and probe."""
    assert rec.y is not None and rec.fs is not None
    split = split_of(name, rec, seed)
    X = rec.X
    if variant.prepare is not None:
        X = variant.prepare(X[split.unlabelled], X).astype(np.float32)
    if variant.tensors is None:
        spectrogram = SpectrogramTensor(rec.fs, **variant.tensor).fit(X[split.unlabelled])
        tensors = spectrogram.transform
    else:
        make = variant.tensors

        def tensors(signals: np.ndarray) -> np.ndarray:
            return make(signals, float(rec.fs or 1))

    T = tensors(X)
    gentle = augment.gentle(n_times=rec.n_times)
    fitted = X[split.unlabelled]

    def view(rng: np.random.Generator) -> np.ndarray:
        return np.asarray(tensors(gentle(fitted, rng)))

    begin = time.perf_counter()
    options: dict[str, Any] = {}
    ids = neighbours(rec)
    if variant.sequence and ids is not None:
        options["sequence"] = ids[split.unlabelled]
    train, test = split.train, split.test
    draws = [train[label_budget(rec.y[train], 60, seed=d)] for d in range(DRAWS)]

    def probe(W: np.ndarray, at: np.ndarray) -> float:
        return linear_probe(W[at], rec.y[at], W[test], rec.y[test]).accuracy

    if variant.labels:
        few, errors, whole = [], [], []
        for at in draws[:2]:
            fitted = X[np.concatenate([split.unlabelled, at])]
            y = np.concatenate([np.full(len(split.unlabelled), -1), rec.y[at]])
            model: Any = PLC(RANK, random_state=seed, **variant.plc)
            model.fit(tensors(fitted), y, view=view(np.random.default_rng(seed)))
            W = model.transform(T)
            few.append(probe(W, at))
            whole.append(probe(W, train))
            errors.append(model.reconstruction_error_)
        seconds = (time.perf_counter() - begin) / 2
        return _cell(few, float(np.mean(whole)), float(np.mean(errors)), seconds)
    if variant.cpd:
        model = CPD(RANK, random_state=seed).fit(T[split.unlabelled])
    else:
        model = PLC(RANK, random_state=seed, **variant.plc).fit(
            T[split.unlabelled],
            rec.y[split.unlabelled] if variant.y else None,
            view=view if variant.fresh else view(np.random.default_rng(seed)),
            **options,
        )
    seconds = time.perf_counter() - begin
    W = model.transform(T)
    if variant.after is not None:
        W = variant.after(model, W)
    few = [probe(W, at) for at in draws]
    return _cell(few, probe(W, train), float(model.reconstruction_error_), seconds)


def _cell(few: list[float], full: float, error: float, seconds: float) -> dict[str, Any]:
    return {
        "60 labels": float(np.mean(few)),
        "draws": few,
        "all labels": full,
        "error": error,
        "seconds": seconds,
    }


def read(path: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Results so far."""
    out = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            out[row["data"], row["variant"], row["seed"]] = row["cell"]
    return out


def cells_of(found: dict[tuple[str, str, int], dict[str, Any]]) -> list[list[str]]:
    """Rows of the table: a variant, then a text for every dataset, "" where there is none."""
    rows = []
    for variant in [v for v in VARIANTS if any(key[1] == v for key in found)]:
        row = [variant]
        for name in NAMES:
            cells = {s: c for (d, v, s), c in found.items() if d == name and v == variant}
            base = {s: c for (d, v, s), c in found.items() if d == name and v == "base"}
            lines = []
            for key in ("60 labels", "all labels"):
                if not cells:
                    continue
                mean = np.mean([c[key] for c in cells.values()])
                both = [cells[s][key] - base[s][key] for s in cells if s in base]
                text = f"{mean:.3f}"
                if len(both) > 1 and variant != "base":
                    error = np.std(both, ddof=1) / np.sqrt(len(both))
                    text += f" ({np.mean(both):+.3f} ± {error:.3f})"
                lines.append(text)
            if cells:
                lines.append(f"error {np.mean([c['error'] for c in cells.values()]):.3f}")
                if len(cells) < len(SEEDS):
                    lines.append(f"{len(cells)} of {len(SEEDS)} splits")
            row.append("\n".join(lines))
        rows.append(row)
    return rows


def show(found: dict[tuple[str, str, int], dict[str, Any]], console: Console) -> None:
    """Print every variant on every dataset, and how it differs from ``base``, seed by seed."""
    table = Table(
        title="Development subjects, 60 labels / all labels: mean over the splits, difference to "
        "base ± its standard error; reconstruction error",
        title_justify="left",
    )
    table.add_column("variant")
    for name in NAMES:
        table.add_column(name, justify="right")
    for row in cells_of(found):
        table.add_row(*row)
    console.print(table)


def markdown(found: dict[tuple[str, str, int], dict[str, Any]]) -> str:
    """Return the same table for the documentation."""
    lines = ["| | " + " | ".join(NAMES) + " |", "| --- |" + " --- |" * len(NAMES)]
    for row in cells_of(found):
        lines.append("| " + " | ".join(cell.replace("\n", ", ") for cell in row) + " |")
    return "\n".join(lines)


def main() -> int:
    """Do what is missing, then print everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study", description=__doc__)
    parser.add_argument("variants", nargs="*", help="all by default; a name ending in * is a start")
    parser.add_argument("--data", nargs="*", default=list(NAMES), choices=NAMES)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--show", action="store_true", help="only print what is there")
    parser.add_argument("--markdown", action="store_true", help="print it for the documentation")
    arguments = parser.parse_args()
    console, path = Console(width=160), RESULTS / "study.jsonl"
    wanted = [
        v
        for v in VARIANTS
        if not arguments.variants
        or any(v == a or (a.endswith("*") and v.startswith(a[:-1])) for a in arguments.variants)
    ]
    RESULTS.mkdir(exist_ok=True)
    for name in [] if arguments.show or arguments.markdown else arguments.data:
        rec = development(name)
        console.print(f"{name}: {rec!r}", highlight=False)
        for variant in wanted:
            for seed in range(arguments.seeds):
                if (name, variant, seed) in read(path):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    cell = measure(name, rec, VARIANTS[variant], seed)
                row = {"data": name, "variant": variant, "seed": seed, "cell": cell}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    if arguments.markdown:
        print(markdown(read(path)))
    else:
        show(read(path), console)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
