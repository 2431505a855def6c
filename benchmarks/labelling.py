"""Accuracy over the number of labels, by who chooses them: ``python -m benchmarks.labelling``.

A simulated annotator labels windows in rounds of six. Sets and splits are those of
``python -m benchmarks.archive``: windows are chosen from the unlabelled and the training part (of
HAR: the official training subjects), at most 3,500 of them, and judged on the test part. The
features are fitted once per set and seed, without labels. The classifier is the logistic regression
of ``ContrastiveClassifier`` on its rows, with the standard penalty. Budgets that a set has not
enough windows for are left out.

Three annotators: one that is always right, one that errs in 5 % of the windows, and one that cannot
tell 10 % of them. Scores go to ``results/labelling.json``; what is there already is not computed
again. ``--cache FOLDER`` keeps the fitted rows, ``--plot`` draws ``docs/_static/labelling.png``.
Strategies of scikit-activeml are measured where it is installed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RESULTS, environment
from tensorcontrast import ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.classify.linear import fit_logistic
from tensorcontrast.classify.suggest import (
    MIN_LABELS_FOR_MARGIN,
    class_probabilities,
    estimate_from_rows,
    order_rows,
    reduced_rows,
)
from tensorcontrast.errors import TensorContrastWarning
from tensorcontrast.evaluate.archive import HALVES, NAMES, archive_benchmark, of_half, require
from tensorcontrast.evaluate.benchmark import Benchmark, Dataset
from tensorcontrast.evaluate.peers import MiniRocketFeatures

Array = NDArray[Any]

BUDGETS = (6, 10, 12, 18, 24, 36, 60)
#: Windows that are labelled between two looks at the suggestions.
ROUND = 6
#: Windows to choose from and to test on, at most.
MOST = 3500
#: Goals: labels that are to be worth 60 random ones, and points that may be lost to random ones.
WORTH_60, MAX_LOSS = 24, 1.0
MIN_BUDGET_FOR_LOSS = 10

ROCKET = "MiniRocket, random"
#: Scores on the windows to choose from instead of the test windows.
ON_POOL = ", on the pool"

RESULT = RESULTS / "labelling.json"
PICTURE = Path(__file__).parent.parent / "docs" / "_static" / "labelling.png"


@dataclass(frozen=True)
class Pool:
    """Windows of one set and seed.

    Features, rows of the classifier, these on their principal components, labels; test rows; and
    subjects, where the set has any.
    """

    W: Array
    R: Array
    near: Array
    y: Array
    R_test: Array
    y_test: Array
    groups: Array | None = None

    def judged_on_itself(self) -> Pool:
        """Return the pool with its own windows as those to test on."""
        return replace(self, R_test=self.R, y_test=self.y)


def parts(rec: Any, dataset: Dataset, benchmark: Benchmark, seed: int) -> tuple[Array, Array]:
    """Windows to choose from and to test on."""
    split = dataset.splits(rec, seed, benchmark.draws)[0]
    if dataset.split == "official":  # the test subjects are halved there
        pool, test = split.unlabelled, np.union1d(split.train, split.test)
    else:
        pool, test = np.union1d(split.unlabelled, split.train), np.sort(split.test)
    rng = np.random.default_rng([seed, 24])
    out = []
    for rows in (pool, test):
        rows = rows[rec.y[rows] >= 0]
        out.append(rows if len(rows) <= MOST else np.sort(rng.choice(rows, MOST, replace=False)))
    return out[0], out[1]


def fitted(rec: Any, pool: Array, test: Array, seed: int) -> dict[str, Array]:
    """Rows of the classifier, whose features are fitted on the pool without labels."""
    model = ContrastiveClassifier(ContrastiveFeatures(rec.fs, rec.channels), random_state=seed)
    y = np.full(len(pool), -1)
    for code in np.unique(rec.y[pool])[:2]:  # two labels, as none would be an error
        y[np.flatnonzero(rec.y[pool] == code)[0]] = code
    model.fit(rec.X[pool], y)
    return {
        "W": model.extractor_.transform(rec.X[pool]),
        "R": model.rows(rec.X[pool]).astype(np.float32),
        "Rt": model.rows(rec.X[test]).astype(np.float32),
        "y": rec.y[pool],
        "yt": rec.y[test],
        "groups": np.zeros(0) if rec.groups is None else np.asarray(rec.groups)[pool],
    }


def pool_of(
    rec: Any, dataset: Dataset, benchmark: Benchmark, seed: int, cache: Path | None
) -> Pool:
    """Windows of one set and seed, from the cache where they are there."""
    file = None if cache is None else cache / f"{dataset.label}-{seed}.npz"
    if file is not None and file.is_file():
        with np.load(file) as found:
            kept = dict(found.items())
    else:
        kept = fitted(rec, *parts(rec, dataset, benchmark, seed), seed)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(file, **kept)
    near = reduced_rows(kept["R"])
    groups = kept["groups"] if len(kept["groups"]) else None
    return Pool(kept["W"], kept["R"], near, kept["y"], kept["Rt"], kept["yt"], groups)


# ------------------------------------------------------------------------------- strategies

Strategy = Callable[[Pool, Array, Array, int, np.random.Generator], Array]


def random(pool: Pool, y: Array, barred: Array, n: int, rng: np.random.Generator) -> Array:
    """Any windows."""
    return rng.permutation(np.flatnonzero((y < 0) & ~barred))[:n]


def typical(pool: Pool, y: Array, barred: Array, n: int, rng: np.random.Generator) -> Array:
    """Medoids of clusters, the largest cluster first, however many labels there are."""
    equal = np.full((len(y), 2), 0.5)
    return order_rows(pool.near, y, n, exclude=barred, probability=equal, random_state=_seed(rng))


def margin(pool: Pool, y: Array, barred: Array, n: int, rng: np.random.Generator) -> Array:
    """Windows with the smallest margin, after a first round of typical ones."""
    p = class_probabilities(pool.R, y, int(y.max()) + 1)
    if p is None:
        return typical(pool, y, barred, n, rng)
    best = np.partition(p, -2, axis=1)
    free = np.flatnonzero((y < 0) & ~barred)
    return free[np.argsort((best[:, -1] - best[:, -2])[free], kind="stable")[:n]]


def suggested(pool: Pool, y: Array, barred: Array, n: int, rng: np.random.Generator) -> Array:
    """Choose as ``ContrastiveClassifier.suggest`` does."""
    p = None
    if (y >= 0).sum() >= MIN_LABELS_FOR_MARGIN:
        p = class_probabilities(pool.R, y, int(y.max()) + 1)
    return order_rows(pool.near, y, n, exclude=barred, probability=p, random_state=_seed(rng))


def by_subject(pool: Pool, y: Array, barred: Array, n: int, rng: np.random.Generator) -> Array:
    """Choose as ``ContrastiveClassifier.suggest(groups=)`` does: balanced over subjects."""
    p = None
    if (y >= 0).sum() >= MIN_LABELS_FOR_MARGIN:
        p = class_probabilities(pool.R, y, int(y.max()) + 1)
    return order_rows(
        pool.near, y, n, pool.groups, exclude=barred, probability=p, random_state=_seed(rng)
    )


def on_features(pool: Pool, y: Array, barred: Array, n: int, rng: np.random.Generator) -> Array:
    """Choose as ``suggest_windows`` does, on the 32 features."""
    from tensorcontrast import suggest_windows

    return suggest_windows(pool.W, y, n, exclude=barred, random_state=_seed(rng))


def _activeml(
    name: str, pool: Pool, y: Array, barred: Array, n: int, rng: np.random.Generator
) -> Array:
    """Choose by a strategy of scikit-activeml."""
    import skactiveml.pool
    from skactiveml.classifier import SklearnClassifier
    from sklearn.linear_model import LogisticRegression

    strategy = getattr(skactiveml.pool, name)(random_state=_seed(rng))
    free = np.flatnonzero((y < 0) & ~barred)
    if not len(free):
        return free
    more: dict[str, Any] = {}
    if name == "Badge":
        model = LogisticRegression(C=196.0, max_iter=200)  # rows of length 14
        more["clf"] = SklearnClassifier(model, classes=np.unique(pool.y))
    labels = np.where(y >= 0, y.astype(float), np.nan)
    return np.asarray(
        strategy.query(pool.near, labels, candidates=free, batch_size=min(n, len(free)), **more)
    )


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))


def strategies() -> dict[str, tuple[Strategy, int]]:
    """Strategies by name, with their runs per seed."""
    out: dict[str, tuple[Strategy, int]] = {
        "random": (random, 10),
        "suggested": (suggested, 3),
        "typical": (typical, 1),
        "margin": (margin, 1),
        "suggested, features": (on_features, 1),
    }
    try:
        import skactiveml  # noqa: F401
    except ImportError:
        print("scikit-activeml is not installed; its strategies are left out")
        return out
    return out | {
        f"{name} (scikit-activeml)": (partial(_activeml, name), 1)
        for name in ("TypiClust", "ProbCover", "Badge")
    }


# ------------------------------------------------------------------------------------- runs


@dataclass(frozen=True)
class Annotator:
    """How often labels are wrong, and how often there is none."""

    errs: float = 0.0
    cannot_tell: float = 0.0


ANNOTATORS = {
    "right": Annotator(),
    "errs in 5 %": Annotator(errs=0.05),
    "cannot tell 10 %": Annotator(cannot_tell=0.1),
}


def labelled(pool: Pool, choose: Strategy, annotator: Annotator, run: int) -> tuple[Array, Array]:
    """Windows in the order in which they get a label, and the labels given."""
    rng = np.random.default_rng([run, 77])
    n, classes = len(pool.y), np.unique(pool.y)
    told = pool.y.copy()
    wrong = np.flatnonzero(rng.random(n) < annotator.errs)
    told[wrong] = rng.choice(classes, len(wrong))
    unclear = rng.random(n) < annotator.cannot_tell
    y, barred = np.full(n, -1), np.zeros(n, dtype=bool)
    order: list[int] = []
    while len(order) < BUDGETS[-1]:
        new = choose(pool, y, barred, min(ROUND, BUDGETS[-1] - len(order)), rng)
        if not len(new):
            break
        for window in np.asarray(new).tolist():
            if unclear[window]:
                barred[window] = True
                continue
            y[window] = told[window]
            order.append(window)
    return np.array(order, dtype=np.intp), told


def answers(pool: Pool, rows: Array, codes: Array) -> Array:
    """Classes of the test windows by the classifier that these labels train.

    The regression is solved in the span of the labelled rows, which holds its solution.
    """
    there, own = np.unique(codes, return_inverse=True)
    if len(there) < 2:
        return np.full(len(pool.y_test), there[0])
    known = pool.R[rows].astype(np.float64)
    _, values, axes = np.linalg.svd(known, full_matrices=False)
    span = axes[values > 1e-6 * values[0]].T
    coef, intercept = fit_logistic(known @ span, own, len(there))
    scores = pool.R_test @ (span @ coef.T).astype(np.float32) + intercept
    return np.asarray(there[scores.argmax(axis=1)])


def accuracies(pool: Pool, choose: Strategy, annotator: Annotator, run: int) -> dict[str, float]:
    """Accuracy on the test windows for each budget."""
    order, told = labelled(pool, choose, annotator, run)
    return {
        str(b): float((answers(pool, order[:b], told[order[:b]]) == pool.y_test).mean())
        for b in BUDGETS
        if b <= len(order)
    }


def stopping(pool: Pool, choose: Strategy, run: int) -> dict[str, list[float]]:
    """Cross-validated and true accuracy, whether the interval holds it, and changed answers."""
    order, told = labelled(pool, choose, ANNOTATORS["right"], run)
    out: dict[str, list[float]] = {}
    for budget in (24, 36, 60):
        if budget > len(order):
            continue
        rows = order[:budget]
        y = np.full(len(pool.y), -1)
        y[rows] = told[rows]
        found = estimate_from_rows(pool.R, y, random_state=run)
        if found.accuracy is None:
            continue
        after = answers(pool, rows, told[rows])
        before = answers(pool, rows[:-10], told[rows[:-10]])
        true = float((after == pool.y_test).mean())
        own = float((answers(pool.judged_on_itself(), rows, told[rows]) == pool.y).mean())
        gain = true - float((before == pool.y_test).mean())
        inside = float(found.low <= true <= found.high)
        changed = float(np.mean(before != after))
        own_inside = float(found.low <= own <= found.high)
        out[str(budget)] = [found.accuracy, true, inside, changed, gain, own, own_inside]
    return out


def minirocket(
    rec: Any, dataset: Dataset, benchmark: Benchmark, seed: int, runs: int
) -> list[dict[str, float]]:
    """Accuracies of MiniRocket's features with ridge, random labels."""
    pool, test = parts(rec, dataset, benchmark, seed)
    peer = MiniRocketFeatures(random_state=seed).fit(rec.X[pool])
    train, judged = peer.transform(rec.X[pool]), peer.transform(rec.X[test])
    out = []
    for run in range(runs):
        order = np.random.default_rng([run, 77]).permutation(len(pool))
        row = {}
        for budget in (b for b in BUDGETS if b <= len(pool)):
            at = order[:budget]
            y = rec.y[pool[at]]
            if len(np.unique(y)) < 2:
                found = np.full(len(test), y[0])
            else:
                found = peer.make_classifier().fit(train[at], y).predict(judged)
            row[str(budget)] = float((found == rec.y[test]).mean())
        out.append(row)
    return out


def summed(rows: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Mean, standard deviation and number of runs for each budget that all runs have."""
    shared = [b for b in map(str, BUDGETS) if all(b in row for row in rows)]
    values = {b: np.array([row[b] for row in rows]) for b in shared}
    return {
        b: [round(float(v.mean()), 4), round(float(v.std()), 4), len(v)] for b, v in values.items()
    }


def measure(
    benchmark: Benchmark,
    dataset: Dataset,
    seeds: int,
    cache: Path | None,
    only: Sequence[str],
    kept: dict[str, Any],
) -> dict[str, Any]:
    """All scores of one set; those in ``kept`` are not computed again."""
    out = dict(kept)
    names = [*strategies(), "stopping", "pool", ROCKET]
    wanted = [name for name in names if not only or name in only]
    cached = cache is not None and all(
        (cache / f"{dataset.label}-{seed}.npz").is_file() for seed in range(seeds)
    )
    rocket = ROCKET in wanted and ROCKET not in out
    rec = None if cached and not rocket else dataset.load()
    pools = [pool_of(rec, dataset, benchmark, seed, cache) for seed in range(seeds)]
    out["windows"] = [len(pools[0].y), len(pools[0].y_test), len(np.unique(pools[0].y))]
    for name, (choose, runs) in strategies().items():
        for told, annotator in ANNOTATORS.items():
            key = name if told == "right" else f"{name}, {told}"
            noisy = told != "right" and name not in ("random", "suggested")
            if name not in wanted or key in out or noisy:
                continue
            n_runs = runs if told == "right" else max(1, runs // 3)
            rows = [accuracies(p, choose, annotator, run) for p in pools for run in range(n_runs)]
            out[key] = summed(rows)
    for name, choose in (("random", random), ("suggested", suggested)):
        key = f"{name}{ON_POOL}"
        if "pool" in wanted and key not in out:
            own = [pool.judged_on_itself() for pool in pools]
            right = ANNOTATORS["right"]
            out[key] = summed([accuracies(p, choose, right, run) for p in own for run in range(2)])
        key = f"stopping, {name}"
        if "stopping" in wanted and key not in out:
            told_rows = [stopping(pool, choose, run) for pool in pools for run in range(2)]
            shared = [b for b in told_rows[0] if all(b in row for row in told_rows)]
            found = {b: np.mean([row[b] for row in told_rows], axis=0) for b in shared}
            out[key] = {b: v.round(4).tolist() for b, v in found.items()}
    if rocket:
        rows = [row for s in range(seeds) for row in minirocket(rec, dataset, benchmark, s, 4)]
        out[ROCKET] = summed(rows)
    return out


# ------------------------------------------------------------------------------------ tables


def means(scores: dict[str, Any], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Mean over the sets that have all budgets, by strategy and budget."""
    last = str(BUDGETS[-1])
    full = [n for n in names if n in scores and last in scores[n].get("random", {})]
    keys = [k for k in scores[full[0]] if k not in ("windows", "seconds") and "stopping" not in k]
    return {
        key: {
            str(b): round(float(np.mean([scores[n][key][str(b)][0] for n in full])), 4)
            for b in BUDGETS
        }
        for key in keys
        if all(last in scores[n].get(key, {}) for n in full)
    }


def losses(scores: dict[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """List sets and budgets where suggested labels lose more than a point to random ones."""
    out = []
    for name in (n for n in names if n in scores):
        random_, own = scores[name]["random"], scores[name]["suggested"]
        for budget in own:
            if int(budget) < MIN_BUDGET_FOR_LOSS or budget not in random_:
                continue
            gap = 100 * (own[budget][0] - random_[budget][0])
            if gap < -MAX_LOSS:
                error = 100 * np.sqrt(sum(s[budget][1] ** 2 / s[budget][2] for s in (own, random_)))
                found = {"set": name, "labels": int(budget), "points": round(gap, 1)}
                out.append(found | {"standard_error": round(float(error), 1)})
    return out


def tables(scores: dict[str, Any]) -> dict[str, Any]:
    """Compare with the goals, for each half."""
    out: dict[str, Any] = {}
    for half in HALVES:
        names = [n for n in of_half(NAMES, half) if "suggested" in scores.get(n, {})]
        if not any(str(BUDGETS[-1]) in scores[n]["random"] for n in names):
            continue
        found = means(scores, names)
        few, many = found["suggested"][str(WORTH_60)], found["random"]["60"]
        bias = {
            who: {
                b: np.mean([scores[n][who][b] for n in there], axis=0)
                for b in ("24", "36", "60")
                if (there := [n for n in names if b in scores[n].get(who, {})])
            }
            for who in ("stopping, random", "stopping, suggested")
        }
        out[half] = {
            "sets": names,
            "means": found,
            "points_of_24_suggested_above_60_random": round(100 * (few - many), 2),
            "worth_60_met": bool(few >= many),
            "worse_than_random": losses(scores, names),
            "stopping": {
                who: {
                    b: dict(zip(STOPPING, v.round(4).tolist(), strict=True)) for b, v in r.items()
                }
                for who, r in bias.items()
            },
        }
    return out


STOPPING = (
    *("estimate", "accuracy", "inside_interval", "changed", "gain"),
    *("accuracy_on_pool", "pool_inside_interval"),
)


def print_tables(found: dict[str, Any]) -> None:
    """Print the means of each half and the goals."""
    for half, table in found.items():
        print(
            f"\n{half}: {len(table['sets'])} sets; labels " + "  ".join(f"{b:>6}" for b in BUDGETS)
        )
        for key, row in table["means"].items():
            print(f"{key:32} " + "  ".join(f"{row[str(b)]:.3f}" for b in BUDGETS))
        gap = table["points_of_24_suggested_above_60_random"]
        print(f"24 suggested against 60 random labels: {gap:+.1f} points")
        for row in table["worse_than_random"]:
            print("worse than random:", row)
        for who, rows in table["stopping"].items():
            print(who, rows)


def draw(found: dict[str, Any], path: Path = PICTURE) -> Path:
    """Draw accuracy over the number of labels, for the reporting sets."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = {
        "suggested": ("suggested", "#0072B2", "-", "o"),
        "typical": ("typical only", "#56B4E9", "--", "s"),
        "margin": ("margin", "#D55E00", "--", "^"),
        "random": ("random", "#595959", "-", "o"),
        ROCKET: ("MiniRocket + ridge, random", "#CC79A7", ":", "D"),
    }
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharey=False)
    for axis, half in zip(axes, ("choosing", "reporting"), strict=True):
        table = found[half]
        for key, (label, color, line, mark) in shown.items():
            if key in table["means"]:
                values = [table["means"][key][str(b)] for b in BUDGETS]
                axis.plot(BUDGETS, values, line, color=color, marker=mark, ms=5, label=label)
        axis.set_xscale("log")
        axis.set_xticks(BUDGETS, map(str, BUDGETS))
        axis.minorticks_off()
        axis.set_title(f"{half} sets, mean")
        axis.set_xlabel("labels")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy on test windows")
    axes[1].legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=130)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute scores, write the result file and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="names, separated by commas; all by default")
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--strategies", help="names, separated by semicolons; all by default")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="folder that keeps fitted rows")
    parser.add_argument("--result", type=Path, default=RESULT, help="file of results")
    parser.add_argument("--plot", action="store_true", help="draw what is there, and stop")
    given = parser.parse_args(arguments)
    result: dict[str, Any] = {"scores": {}}
    if given.result.exists():
        result |= json.loads(given.result.read_text(encoding="utf-8"))
    if given.plot:
        print(draw(result["tables"]))
        return
    names = given.sets.split(",") if given.sets else None
    only = given.strategies.split(";") if given.strategies else []
    benchmark = archive_benchmark(sets=names, half=given.half)
    require(benchmark.datasets)
    for dataset in benchmark.datasets:
        begin = time.perf_counter()
        kept = result["scores"].get(dataset.label, {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TensorContrastWarning)
            found = measure(benchmark, dataset, given.seeds, given.cache, only, kept)
        seconds = round(time.perf_counter() - begin, 1)
        result["scores"][dataset.label] = found | {"seconds": kept.get("seconds", 0) + seconds}
        shown = {key: found[key] for key in ("random", "suggested") if key in found}
        row = {key: {b: v[0] for b, v in values.items()} for key, values in shown.items()}
        print(f"{dataset.label}: {row} ({seconds:.0f} s)", flush=True)
        # Scores that are kept were measured with earlier sources.
        before = result.get("environment")
        own = {} if before is None else {"sources": before.get("sources", "")}
        result["environment"] = environment() | own
        result["tables"] = tables(result["scores"])
        text = json.dumps(result, indent=1, ensure_ascii=False)
        given.result.write_text(text + "\n", encoding="utf-8")
    print_tables(result["tables"])


if __name__ == "__main__":
    main()
