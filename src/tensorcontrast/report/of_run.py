"""A report of a benchmark run: its tables, what the models learned, the paper's evidence."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.report import evidence_figures as evidence
from tensorcontrast.report.comparison import comparison_tables, rank_diagrams
from tensorcontrast.report.data import FigureItem, ModelView, ReportData, Windows, all_findings
from tensorcontrast.report.of_model import label_curve, model_view
from tensorcontrast.report.scores import budget_name
from tensorcontrast.report.tables import ScoreTable, run_tables
from tensorcontrast.report.text import plain

if TYPE_CHECKING:
    from tensorcontrast.evaluate.run import Run

__all__ = ["report_from_run"]

Array = NDArray[Any]

#: Whose components and features are shown, the first of these that the run kept.
PREFERRED = ("PLC", "PLC (default)", "PLC (paper)", "ATD", "CPD")


def report_from_run(run: Run | str | Path, *, metric: str = "accuracy") -> ReportData:
    """Gather what the report of a run shows.

    Parameters
    ----------
    run : Run or path
        A run, or its folder.
    metric : {"accuracy", "balanced_accuracy", "macro_f1"}
        Score of the tables.

    Examples
    --------
    >>> import tempfile
    >>> from tensorcontrast.evaluate import BenchConfig
    >>> from tensorcontrast.evaluate.runner import run
    >>> data = {"name": "synthetic", "options": {"n_samples": 60, "n_channels": 2, "n_times": 64}}
    >>> few = {"methods": [{"name": "cpd"}], "seeds": 1, "budgets": [6], "draws": 1, "rank": 3}
    >>> config = BenchConfig.from_data({"datasets": [data], **few})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = report_from_run(run(config, folder, n_jobs=1))
    >>> report.title, [table.dataset for table in report.tables]
    ('Benchmark', ['synthetic'])
    """
    if isinstance(run, str | Path):
        from tensorcontrast.evaluate.run import Run

        run = Run.load(run)
    tables = run_tables(run, metric=metric)
    if not tables:
        raise InvalidInputError(
            f"{plain(run.folder)}: the run has no finished cell to report; run it again to resume"
        )
    main = [name for name in _methods(tables) if not _is_ablation(name)]
    figures = []
    many = any(dataset.half is not None for dataset in run.config.datasets)
    if many:
        figures += rank_diagrams(run)
    if any(len(table.budgets) > 1 for table in tables):
        figures.append(label_curve(tables, main))
    views = [view for label in run.datasets for view in _view(run, label, len(run.datasets))]
    config = run.config
    return ReportData(
        title=str(config.title) or "Benchmark",
        question=_question(run, tables),
        facts=_facts(run, tables),
        comparisons=comparison_tables(run) if many else (),
        tables=tables,
        findings=all_findings(tables),
        figures=figures,
        views=views,
        evidence=[item for table in tables for item in _evidence(run, table, len(tables))],
        notes=_notes(run),
        config=toml_text(config.model_dump(mode="json")),
        environment=_environment(run),
        command=_command(run),
    )


def _methods(tables: Sequence[ScoreTable]) -> list[str]:
    return list(dict.fromkeys(row.method for table in tables for row in table.rows))


def _is_ablation(method: str) -> bool:
    return method.startswith("w/o") or "true graph" in method or "labels in graph" in method


def _question(run: Run, tables: Sequence[ScoreTable]) -> list[str]:
    names = _listed([table.dataset for table in tables])
    few = budget_name(tables[0].budgets[0])
    splits = list(dict.fromkeys(facts.split for facts in run.datasets.values() if facts.split))
    split = f" Split: {'; '.join(splits)}." if splits else ""
    return [
        f"How well can a linear classifier tell the classes of {names} apart from features that "
        f"were learned without labels, when only {few} are at hand, and with more?",
        "Each method learns from unlabelled recordings. A logistic classifier is then trained on "
        "the features of a few labelled windows and judged on test windows it has never seen."
        f"{split}",
    ]


def _facts(run: Run, tables: Sequence[ScoreTable]) -> list[tuple[str, str]]:
    facts = [
        ("datasets", str(len(tables))),
        ("methods", str(len(_methods(tables)))),
        ("repeats", str(len(run.config.seeds))),
        ("features", str(run.config.rank)),
    ]
    if len(tables) == 1:
        about = run.datasets[tables[0].dataset]
        length = f"{about.n_times} points"
        if about.fs:
            length = f"{about.n_times / about.fs:.3g} s at {about.fs:g} Hz"
        facts[:1] = [
            ("dataset", tables[0].dataset),
            ("windows", f"{about.n_samples:,}"),
            ("length", length),
            ("channels", str(about.n_channels)),
            ("classes", str(len(about.classes or ()))),
            ("subjects", str(about.n_groups)),
        ]
    return facts


def _notes(run: Run) -> list[str]:
    notes = []
    if run.missing:
        notes.append(
            f"{len(run.missing)} cells have not run yet; run the same command again to resume."
        )
    if run.failed:
        reasons = dict.fromkeys(f"{c.dataset}, {c.method}: {c.message}" for c in run.failed)
        notes.append(f"{len(run.failed)} cells failed: {'; '.join(list(reasons)[:5])}.")
    for label, about in run.datasets.items():
        said = [f"{label}: {part}" for part in (about.citation, about.licence) if part]
        notes += said
    return notes


def _environment(run: Run) -> list[tuple[str, str]]:
    rows = []
    for k, session in enumerate(run.environment, 1):
        before = f"session {k}, " if len(run.environment) > 1 else ""
        rows += [(f"{before}{key}", _short(value)) for key, value in session.items()]
    return rows


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_short, value))
    return str(value)


def _command(run: Run) -> str:
    """Return the command that runs the same again: by its preset, else by its configuration.

    The folder is below ``runs``, where ``bench`` puts it by default: places of this machine are no
    part of a report.
    """
    from tensorcontrast.evaluate.presets import PRESETS, preset

    place = shlex.quote(f"runs/{plain(Path(run.folder).resolve().name) or 'bench'}")
    for name in PRESETS:
        if preset(name).hash == run.config.hash:
            return f"tensorcontrast bench {name} -o {place}"
    return (
        "# save the full configuration below as bench.toml\n"
        f"tensorcontrast bench bench.toml -o {place}"
    )


def toml_text(data: dict[str, Any]) -> str:
    """Return plain data as TOML: values first, then lists of tables; None is left out."""
    lines, tables = [], []
    for key, value in data.items():
        if isinstance(value, list | tuple) and value and all(isinstance(v, dict) for v in value):
            tables.append((key, value))
        elif value is not None:
            lines.append(f"{key} = {_toml(value)}")
    for key, entries in tables:
        for entry in entries:
            lines += ["", f"[[{key}]]"]
            lines += [f"{k} = {_toml(v)}" for k, v in entry.items() if v is not None]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items() if v is not None)
        return "{ " + ", ".join(inside) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool | str):
        # JSON's escapes are TOML's, but for DEL, which only TOML wants escaped.
        return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
    return repr(value)


# ------------------------------------------------------------------------------ models


def _view(run: Run, label: str, n_datasets: int) -> Iterator[ModelView]:
    windows = run.windows(label)
    method, features = _shown(run, label)
    if method is None:
        return
    about = run.datasets[label]
    classes = None if about.classes is None else [str(c) for c in about.classes]
    model = run.model(label, method)
    prefix = f"{_slug(label)}-" if n_datasets > 1 else ""
    looked = None
    y = None
    if windows is not None and features is not None:
        y = np.asarray(windows["y"])
        looked = _windows(windows, features, model, about.n_samples)
    title = f"What {method} learned" + (f" from {label}" if n_datasets > 1 else "")
    yield model_view(
        model,
        title,
        features=features,
        y=y,
        classes=classes,
        windows=looked,
        history=run.history(label, method),
        graph=None,
        prefix=prefix,
        recordings=None if looked is None else _whole(model, looked),
    )


def _whole(model: Any, windows: Windows) -> Array | None:
    """Signals of windows as the model takes them; None where the run has kept less of them."""
    shape = getattr(model, "n_channels_in_", None), getattr(model, "n_times_in_", None)
    return windows.signals if windows.signals.shape[1:] == shape else None


def _shown(run: Run, label: str) -> tuple[str | None, Array | None]:
    methods = list(dict.fromkeys(c.method for c in run.ok if c.dataset == label))
    order = [m for m in PREFERRED if m in methods] + [m for m in methods if m not in PREFERRED]
    for method in order:
        features = run.features(label, method)
        if features is not None or run.model(label, method) is not None:
            return method, None if features is None else np.asarray(features)
    return None, None


def _windows(kept: dict[str, Array], features: Array, model: Any, total: int) -> Windows:
    labels: dict[str, tuple[Array, Sequence[str]]] = {}
    y = np.asarray(kept["y"])
    if (y >= 0).any():
        names = [str(c) for c in kept.get("classes", np.array([]))]
        labels["class"] = (y, names or [str(c) for c in range(int(y.max()) + 1)])
    for key, name in (("groups", "subject"), ("part", "part")):
        if key in kept and len(kept[key]) == len(y):
            values, codes = np.unique(np.asarray(kept[key]).astype(str), return_inverse=True)
            labels[name] = (codes, [str(v) for v in values])
    clusters = _nearest_cluster(model, features)
    if clusters is not None:
        labels["cluster"] = (clusters, [str(c) for c in range(int(clusters.max()) + 1)])
    signals = np.asarray(kept["X"])
    channels = [str(c) for c in kept.get("channels", np.array([]))]
    units = [str(u) for u in np.atleast_1d(kept.get("units", np.array([])))]
    count = signals.shape[1]
    return Windows(
        features=features,
        signals=signals,
        times=np.asarray(kept["times"]),
        labels=labels,
        channels=channels or [f"channel {c}" for c in range(count)],
        units=units * count if len(units) == 1 else units,
        index=np.asarray(kept["index"]) if "index" in kept else None,
        total=total,
    )


def _nearest_cluster(model: Any, features: Array) -> Array | None:
    """Cluster of each window by the nearest of the centres that the fit ended with."""
    from tensorcontrast.cp.graph import cluster_space

    centers = getattr(getattr(model, "decompose_", None), "centers_", None)
    if centers is None or np.ndim(centers) != 2 or centers.shape[1] != features.shape[1]:
        return None
    V = cluster_space(np.asarray(features, dtype=np.float64))
    return np.asarray(np.argmin(((V[:, None, :] - centers[None]) ** 2).sum(axis=2), axis=1))


# ------------------------------------------------------------------------------ evidence


def _evidence(run: Run, table: ScoreTable, n_tables: int) -> Iterator[FigureItem]:
    label = table.dataset
    prefix = f"{_slug(label)}-" if n_tables > 1 else ""
    after = f", {label}" if n_tables > 1 else ""
    methods = [row.method for row in table.rows]
    stages = {}
    for method in methods:
        found = run.evidence(label, "stages", method)
        if found is not None:
            stages[method] = found
    if stages:
        yield FigureItem.draw(
            f"{prefix}iterations",
            f"Reconstruction and accuracy over iterations{after}",
            "Relative reconstruction error, and accuracy on test data of a linear probe "
            "on the features at that iteration, with all training labels.",
            evidence.plot_iterations,
            stages,
        )
    yield from _variants(table, prefix, after)
    for method, found in stages.items():
        own = f"{prefix}{_slug(method)}-"
        if {"tsne_start", "tsne_end", "tsne_y"} <= set(found):
            yield FigureItem.draw(
                f"{own}tsne",
                f"Features at the start and at convergence: {method}{after}",
                "t-SNE of the features of the same windows; colours and shapes are classes, which "
                "the fit has not seen.",
                evidence.plot_tsne_stages,
                found,
            )
        if {"pseudo", "y", "iteration"} <= set(found):
            yield FigureItem.draw(
                f"{own}adjacency",
                f"The pseudo graph at stages of the fit: {method}{after}",
                "Pairs of windows that the fit joins, next to those of one true class. ARI is the "
                "adjusted Rand index of pseudo classes and classes: 1 for equal, 0 for chance.",
                evidence.plot_adjacency,
                found,
            )
    for method in methods:
        seeds = run.evidence(label, "seeds", method)
        if seeds is None:
            continue
        ari = np.asarray(seeds["ari"], dtype=np.float64)
        off = ari[~np.eye(len(ari), dtype=bool)]
        mean = f"{off.mean():.2f}" if len(off) else "unknown"
        yield FigureItem.draw(
            f"{prefix}{_slug(method)}-seeds",
            f"The pseudo graph under {len(ari)} seeds: {method}{after}",
            f"Each two agree with an adjusted Rand index of {mean} on average.",
            evidence.plot_seeds,
            seeds,
        )


def _variants(table: ScoreTable, prefix: str, after: str) -> Iterator[FigureItem]:
    """Draw true graphs, then ablations, of the default and of the paper's algorithm."""
    methods = [row.method for row in table.rows]
    families = [
        ("PLC", "", "PLC (true graph)"),
        ("PLC (paper)", "paper-", "PLC (paper, true graph)"),
    ]
    for base, mark, true in families:
        if true in methods and base in methods:
            yield FigureItem.draw(
                f"{prefix}{mark}true-graph",
                f"{base}: true-label graph against pseudo graph{after}",
                "A graph of the true labels of the unlabelled windows shows what the pseudo graph "
                "could reach at best. Whiskers are one standard deviation over repeats.",
                evidence.plot_true_graph,
                table,
                ["CPD", base, true],
            )
    for base, mark, _ in families:
        without = [
            m for m in methods if m.startswith("w/o") and m.endswith(" (paper)") == bool(mark)
        ]
        if without and base in methods:
            yield FigureItem.draw(
                f"{prefix}{mark}ablation",
                f"{base}: ablation{after}",
                "Without the whole contrast (PLC), without its cross-view term and without its "
                "invariance term. Diamonds are means with one standard deviation, dots are "
                "repeats.",
                evidence.plot_ablation,
                table,
                [base, *without],
            )


def _slug(text: str) -> str:
    """Return a name for files: letters, digits and dashes, and nothing else of the text."""
    out = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return out[:40] or f"x{sum(map(ord, text)) % 9973}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
