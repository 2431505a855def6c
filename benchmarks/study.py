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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import RESULTS
from benchmarks.variants import RANK, VARIANTS, Variant
from tensorcontrast import CPD, PLC, Recordings, SpectrogramTensor, augment
from tensorcontrast.datasets import load_har, load_ptbxl, load_sleep_edf
from tensorcontrast.evaluate.protocol import Split, label_budget, linear_probe, subject_split

SEEDS, DRAWS = range(4), 6
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
    if "split" in rec.columns:  # HAR: windows of a subject in the order of time
        return np.asarray(rec.groups)
    return None


def measure(
    name: str, rec: Recordings, variant: Variant, seed: int, state: int | None = None
) -> dict[str, Any]:
    """Fit on the unlabelled development subjects and probe.

    The ``seed`` is that of the split and, unless another ``state`` is given, that of the fit.
    """
    assert rec.y is not None and rec.fs is not None
    state = seed if state is None else state
    split = split_of(name, rec, seed)
    X = rec.X
    if variant.prepare is not None:
        X = variant.prepare(X[split.unlabelled], X).astype(np.float32)
    if variant.tensors is None:
        spectrogram = SpectrogramTensor(rec.fs, **variant.spectrogram).fit(X[split.unlabelled])
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
            model: Any = PLC(RANK, random_state=state, **variant.settings)
            model.fit(tensors(fitted), y, view=view(np.random.default_rng(seed)))
            W = model.transform(T)
            few.append(probe(W, at))
            whole.append(probe(W, train))
            errors.append(model.reconstruction_error_)
        seconds = (time.perf_counter() - begin) / 2
        return _cell(few, float(np.mean(whole)), float(np.mean(errors)), seconds)
    kept = (name, seed, state, replace(variant, after=None))
    if _LAST.get("key") != kept:
        if variant.cpd:
            model = CPD(RANK, random_state=state).fit(T[split.unlabelled])
        else:
            model = PLC(RANK, random_state=state, **variant.settings).fit(
                T[split.unlabelled],
                rec.y[split.unlabelled] if variant.y else None,
                view=view if variant.fresh else view(np.random.default_rng(seed)),
                **options,
            )
        seconds = time.perf_counter() - begin
        _LAST.update(key=kept, model=model, W=model.transform(T), seconds=seconds)
    model, W = _LAST["model"], _LAST["W"]
    if variant.after is not None:
        W = variant.after(model, W)
    few = [probe(W, at) for at in draws]
    error = float(model.reconstruction_error_)
    return _cell(few, probe(W, train), error, _LAST["seconds"])


#: The last fit: variants that differ in what is done with the features share it.
_LAST: dict[str, Any] = {}


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
        for seed in range(arguments.seeds):
            for variant in wanted:
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
