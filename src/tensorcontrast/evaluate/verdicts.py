"""Claims of the paper as rows: what it says, its number, ours, and the verdict.

Verdicts follow from the numbers by the rules in each function. A difference of accuracies counts
where it is larger than one point and than twice its standard error over seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensorcontrast.errors import DamagedFileError
from tensorcontrast.evaluate.benchmark import Cell
from tensorcontrast.evaluate.claims import ECG, HAR, HAR_ATD, PARTS, READINGS, SLEEP, TABLE1
from tensorcontrast.io.atomic import atomic_write

__all__ = ["VERDICTS", "Claim", "Evidence", "claims", "merged", "read_results", "write_results"]

VERDICTS = ("holds", "holds in part", "does not hold here", "not tested")

HOLDS, PART, NOT, UNTESTED = VERDICTS

#: Names of the data sets in tables.
TITLES = {HAR: "HAR", HAR_ATD: "HAR (ATD's split)", SLEEP: "Sleep-EDF", ECG: "PTB-XL"}
#: Data sets here, by their name in the paper's table.
IN_PAPER = {HAR: "har", HAR_ATD: "har", SLEEP: "sleep-edf", ECG: "ptb-xl"}

ALL = "100%"
#: Smallest difference of accuracies that counts: about the standard error of one test set.
ONE_POINT = 0.01


@dataclass(frozen=True)
class Claim:
    """A claim, with what was measured."""

    number: int
    says: str
    paper: str
    ours: str = "–"
    verdict: str = UNTESTED
    why: str = ""
    figure: str | None = None


@dataclass(frozen=True)
class Gap:
    """Mean difference of two methods over seeds, with its standard error."""

    mean: float
    error: float

    @property
    def counts(self) -> bool:
        """Whether the difference is larger than one point and than twice its standard error."""
        return abs(self.mean) > max(ONE_POINT, 2 * float(np.nan_to_num(self.error)))

    def __str__(self) -> str:
        sign = f"{100 * self.mean:+.1f}".replace("-", "−")
        return sign if not np.isfinite(self.error) else f"{sign} ± {100 * self.error:.1f}"


@dataclass(frozen=True)
class Evidence:
    """What the runs of the claims have found.

    ``cells`` are by part; ``arrays`` are what a fit kept for figures, by (piece, data set, method);
    ``theory`` is what :mod:`~tensorcontrast.evaluate.theory` measured; ``environment`` says with
    which versions.
    """

    cells: Mapping[str, Sequence[Cell]]
    theory: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arrays: Mapping[tuple[str, str, str], Mapping[str, Any]] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def of(self, part: str, dataset: str, method: str, budget: Any = ALL) -> list[Cell]:
        """Return cells of one method on one data set with one label budget."""
        wanted = (dataset, method, budget)
        found = self.cells.get(part, ())
        return [c for c in found if (c.dataset, c.method, c.budget) == wanted]

    def scores(self, part: str, dataset: str, method: str, budget: Any = ALL) -> dict[int, float]:
        """Accuracy by seed."""
        found = self.of(part, dataset, method, budget)
        return {cell.seed: cell.accuracy for cell in found if cell.accuracy is not None}

    def gap(self, part: str, dataset: str, a: str, b: str, budgets: Any = ALL) -> Gap | None:
        """Accuracy of method ``a`` minus that of ``b``, over the seeds that both have."""
        first, second = budgets if isinstance(budgets, tuple) else (budgets, budgets)
        one = self.scores(part, dataset, a, first)
        two = self.scores(part, dataset, b, second)
        both = [one[seed] - two[seed] for seed in one.keys() & two.keys()]
        if not both:
            return None
        error = np.std(both, ddof=1) / np.sqrt(len(both)) if len(both) > 1 else np.nan
        return Gap(float(np.mean(both)), float(error))

    def stages(self, piece: str, dataset: str, method: str) -> Mapping[str, Any] | None:
        """Arrays that the run of the ablation kept of a fit, or nothing."""
        return self.arrays.get((piece, dataset, method))


def claims(evidence: Evidence) -> list[Claim]:
    """Return all claims of the paper in its order."""
    makers = (
        _table, _gains, _fewer_labels, _after_convergence, _true_graph, _ablations,
        _graph_over_time, _graph_over_seeds, _contraction, _region, _blocks, _cost, _times,
    )  # fmt: skip
    return [make(evidence) for make in makers]


def _verdict(good: int, total: int) -> str:
    """Return the verdict where ``good`` of ``total`` checks came out as the paper says."""
    if not total:
        return UNTESTED
    return HOLDS if good == total else PART if good else NOT


#: What a reading says of a data set: the text, and whether it came out as the paper says.
Finding = tuple[str, bool]


def _by_reading(
    readings: Mapping[str, Any],
    says: Callable[[str, Any], Finding | None],
    sets: Sequence[str] = (HAR, SLEEP, ECG),
) -> tuple[str, int, int]:
    """Text, checks that came out, and all checks, of ``says(dataset, reading)``.

    Checks of the default do not count for the verdict: it is not the paper's algorithm.
    """
    texts, good, total = [], 0, 0
    for reading, given in readings.items():
        own = []
        for dataset in sets:
            found = says(dataset, given)
            if found is None:
                continue
            text, fits = found
            own.append(f"{TITLES[dataset]} {text}")
            if reading != "default":
                good, total = good + bool(fits), total + 1
        if own:
            texts.append(f"{reading}: {' · '.join(own)}")
    return "; ".join(texts) or "–", good, total


def _by_training(says: Callable[[str, str, str, str], Finding | None]) -> tuple[str, int, int]:
    """Gather ``says(dataset, CPD, ATD, PLC)`` for every reading of the table."""
    sets = (HAR, HAR_ATD, SLEEP, ECG)
    return _by_reading(READINGS, lambda dataset, methods: says(dataset, *methods), sets)


def _table(evidence: Evidence) -> Claim:
    def first(dataset: str, cpd: str, atd: str, plc: str) -> Finding | None:
        scores = [list(evidence.scores("table", dataset, m).values()) for m in (cpd, atd, plc)]
        if not all(scores):
            return None
        means = [float(np.mean(own)) for own in scores]
        return " / ".join(f"{m:.3f}" for m in means), means[2] >= max(means[:2])

    ours, good, total = _by_training(first)
    paper = "; ".join(
        f"{TITLES[d]} " + " / ".join(f"{TABLE1[IN_PAPER[d], m].accuracy:.3f}"
                                     for m in ("CPD", "ATD", "PLC"))
        for d in (HAR, SLEEP, ECG)
    )  # fmt: skip
    return Claim(
        1,
        "PLC has the highest accuracy of the tensor methods on all data sets (CPD / ATD / PLC)",
        paper,
        ours,
        _verdict(good, total),
        f"PLC is first in {good} of {total} pairs of data set and training" if total else "",
        "paper-table",
    )


def _gains(evidence: Evidence) -> Claim:
    def gain(dataset: str, cpd: str, atd: str, plc: str) -> Finding | None:
        one = evidence.gap("table", dataset, plc, cpd)
        two = evidence.gap("table", dataset, plc, atd)
        if one is None or two is None:
            return None
        above = min(one.mean, two.mean) > 0 and one.counts and two.counts
        return f"{one} over CPD, {two} over ATD", above

    ours, good, total = _by_training(gain)
    return Claim(
        2,
        "PLC gains accuracy over CPD and over ATD, in points",
        "+4.6 over CPD on average, +1.3 to +4.0 over ATD",
        ours,
        _verdict(good, total),
        f"both gains count in {good} of {total}" if total else "",
        "paper-table",
    )


def _fewer_labels(evidence: Evidence) -> Claim:
    def third(dataset: str, cpd: str, atd: str, plc: str) -> Finding | None:
        gap = evidence.gap("table", dataset, plc, atd, ("33%", ALL))
        return None if gap is None else (str(gap), gap.mean >= 0 or not gap.counts)

    ours, good, total = _by_training(third)
    return Claim(
        3,
        "PLC with a third of the labels is as accurate as ATD with all (points between them)",
        "0 or more",
        ours,
        _verdict(good, total),
        f"not below by a difference that counts in {good} of {total}" if total else "",
        "paper-labels",
    )


_EVIDENCE_METHODS = {"literal, converged": "PLC (paper)", "default": "PLC (default)"}


def _over_evidence(
    evidence: Evidence, piece: str, says: Callable[[Mapping[str, Any]], Finding]
) -> tuple[str, int, int]:
    """Gather ``says(arrays)`` for the fits whose arrays the ablation kept."""

    def found(dataset: str, method: str) -> Finding | None:
        arrays = evidence.stages(piece, dataset, method)
        return None if arrays is None else says(arrays)

    return _by_reading(_EVIDENCE_METHODS, found)


def _after_convergence(evidence: Evidence) -> Claim:
    def rise(stages: Mapping[str, Any]) -> tuple[str, bool]:
        error, accuracy = stages["reconstruction_error"], stages["accuracy"]
        settled = int(np.flatnonzero(error <= 1.01 * error.min())[0])
        gain = float(accuracy[-1] - accuracy[settled])
        return f"{100 * gain:+.1f}".replace("-", "−"), gain > ONE_POINT

    ours, good, total = _over_evidence(evidence, "stages", rise)
    return Claim(
        4,
        "Accuracy keeps rising after the reconstruction has converged (points gained from the "
        "iteration within 1 % of the smallest error to the last)",
        "rises",
        ours,
        _verdict(good, total),
        f"it rises by more than one point in {good} of {total}, one seed each" if total else "",
        "paper-stages",
    )


def _gap_rows(evidence: Evidence, variant: str) -> tuple[list[str], list[Gap]]:
    texts, literal = [], []
    for suffix in ("paper", "default"):
        own = []
        for dataset in (HAR, SLEEP, ECG):
            gap = evidence.gap("ablation", dataset, f"{variant} ({suffix})", f"PLC ({suffix})")
            if gap is not None:
                own.append(f"{TITLES[dataset]} {gap}")
                if suffix == "paper":
                    literal.append(gap)
        if own:
            reading = "literal" if suffix == "paper" else "default"
            texts.append(f"{reading}: {' · '.join(own)}")
    return texts, literal


def _true_graph(evidence: Evidence) -> Claim:
    texts, gaps = _gap_rows(evidence, "true graph")
    good = sum(gap.mean <= 0 or not gap.counts for gap in gaps)
    return Claim(
        5,
        "A graph of true labels is only a little better than the pseudo graph (points above it)",
        "a tiny gap",
        "; ".join(texts) or "–",
        _verdict(good, len(gaps)),
        f"no difference that counts in {good} of {len(gaps)}" if gaps else "",
        "paper-ablation",
    )


def _ablations(evidence: Evidence) -> Claim:
    texts, good, total = [], 0, 0
    for variant, limit in (("w/o PLC", -0.03), ("w/o cross-view", 0.0), ("w/o trans-inv", 0.0)):
        own, gaps = _gap_rows(evidence, variant)
        if own:
            texts.append(f"{variant}: {'; '.join(own)}")
        good += sum(gap.mean <= limit and gap.mean < 0 and gap.counts for gap in gaps)
        total += len(gaps)
    return Claim(
        6,
        "Without PLC accuracy falls by 3 points or more; without cross-view or without "
        "transformation invariance it falls too",
        "−3 or more; falls; falls",
        "; ".join(texts) or "–",
        _verdict(good, total),
        f"so in {good} of {total} ablations of the literal algorithm" if total else "",
        "paper-ablation",
    )


def _graph_over_time(evidence: Evidence) -> Claim:
    def nearer(stages: Mapping[str, Any]) -> tuple[str, bool]:
        ari = stages["ari"]
        return f"{ari[0]:.2f} → {ari[-1]:.2f}", bool(ari[-1] - ari[0] > ONE_POINT)

    ours, good, total = _over_evidence(evidence, "stages", nearer)
    return Claim(
        7,
        "The pseudo graph approaches the true graph over the iterations (adjusted Rand index)",
        "rises",
        ours,
        _verdict(good, total),
        f"it rises by more than 0.01 in {good} of {total}, one seed each" if total else "",
        "paper-graphs",
    )


def _graph_over_seeds(evidence: Evidence) -> Claim:
    def agree(seeds: Mapping[str, Any]) -> tuple[str, bool]:
        ari = seeds["ari"]
        between = ari[~np.eye(len(ari), dtype=bool)]
        return f"{between.mean():.2f}", bool(between.mean() >= 0.9)

    ours, good, total = _over_evidence(evidence, "seeds", agree)
    return Claim(
        8,
        "Pseudo graphs of different seeds are almost the same (mean adjusted Rand index between "
        "four seeds; 0.9 or more counts)",
        "almost the same",
        ours,
        _verdict(good, total),
        "",
        "paper-seeds",
    )


def _contraction(evidence: Evidence) -> Claim:
    found = evidence.theory.get("contraction")
    claim = Claim(
        9,
        "The feature update converges linearly within the bound of Proposition 1 (E13)",
        "always, where the bound is below 1",
    )
    if found is None:
        return claim
    texts = [
        f"β = {row['beta']:g}: bound below 1 for {row['bounded']:.0%} of windows"
        + (f", kept by {row['within']:.0%}" if row["bounded"] else "")
        + f"; converges undamped for {row['converged']:.0%}"
        for row in found["rows"]
    ]
    kept = [row["within"] for row in found["rows"] if row["bounded"]]
    good = bool(kept) and min(kept) == 1
    return Claim(
        claim.number,
        claim.says,
        claim.paper,
        "; ".join(texts),
        HOLDS if good else NOT,
        "with the corrected bound; beyond it the plain update need not converge, ours is damped",
    )


def _region(evidence: Evidence) -> Claim:
    found = evidence.theory.get("region")
    claim = Claim(
        10, "There are contrasts inside the ε-region of the reconstruction (E14)", "a region exists"
    )
    if found is None:
        return claim
    inside = found["beta"] > 0 and found["error_ratio"] <= 1 + found["epsilon"]
    return Claim(
        claim.number,
        claim.says,
        claim.paper,
        f"up to β = {found['beta']:g} for ε = {found['epsilon']:g}: error × "
        f"{found['error_ratio']:.3f}",
        HOLDS if inside else NOT,
        "one fit on HAR; whether the contrast then helps is claims 1, 2 and 6",
    )


def _blocks(evidence: Evidence) -> Claim:
    found = evidence.theory.get("blocks")
    claim = Claim(
        11,
        "The block contrast is always bounded by the pairwise contrast (E17)",
        "for every window",
    )
    if found is None:
        return claim
    return Claim(
        claim.number,
        claim.says,
        claim.paper,
        f"for {found['holds']:.1%} of windows",
        HOLDS if found["holds"] == 1 else PART,
        "it needs P ≥ 0, a condition that the paper leaves out; the other windows have P < 0",
    )


def _cost(evidence: Evidence) -> Claim:
    found = evidence.theory.get("cost")
    claim = Claim(12, "An iteration costs about O(N³R) for N windows", "exponent 3")
    if found is None:
        return claim
    return Claim(
        claim.number,
        claim.says,
        claim.paper,
        f"exponent {found['exponent']:.2f}, {found['windows'][-1]:,} to {found['windows'][0]:,} "
        "windows of HAR",
        HOLDS if found["exponent"] < 3.3 else NOT,
        "as an upper bound; about linear here, as products with the signed graph need class sums "
        "alone (E2)"
        if found["exponent"] < 1.3
        else "",
    )


def _times(evidence: Evidence) -> Claim:
    seconds = evidence.theory.get("epochs", {}).get("seconds", {})
    ratios = {
        dataset: found["PLC (mini-batch)"] / found["SimCLR"]
        for dataset, found in seconds.items()
        if dataset in (HAR, ECG)
    }
    paper = {
        dataset: TABLE1[IN_PAPER[dataset], "PLC"].epoch_seconds
        / TABLE1[IN_PAPER[dataset], "SimCLR"].epoch_seconds
        for dataset in (HAR, ECG)
    }
    verdict, why = UNTESTED, ""
    if len(ratios) == len(paper):
        slower, level = ratios[HAR] > 1.1, ratios[ECG] < 1.1
        verdict = HOLDS if slower and level else PART if level else NOT
        why = "faster on both, so that nothing has to shrink" if max(ratios.values()) < 1 else ""
    return Claim(
        13,
        "Per epoch, PLC is slower than self-supervised networks on small tensors, and level on "
        "large ones (time of PLC over that of SimCLR)",
        _ratios(paper),
        _ratios(ratios) if ratios else "–",
        verdict,
        why,
    )


def _ratios(ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{TITLES[dataset]} {ratio:.2f}" for dataset, ratio in ratios.items())


# ------------------------------------------------------------- all results in one file

#: What is kept of a cell, in this order.
_COLUMNS = (
    "dataset", "method", "seed", "budget", "accuracy", "macro_f1", "macro_auc", "n_train",
    "n_epochs", "fit_seconds", "chosen",
)  # fmt: skip


def merged(before: Evidence, new: Evidence) -> Evidence:
    """Return the results of two runs; where both have a cell or an array, the new one counts."""
    cells = {}
    for part in PARTS:
        both = (*before.cells.get(part, ()), *new.cells.get(part, ()))
        if both:
            cells[part] = list({cell.key: cell for cell in both}.values())
    return Evidence(
        cells,
        {**before.theory, **new.theory},
        {**before.arrays, **new.arrays},
        new.environment or before.environment,
    )


def write_results(evidence: Evidence, path: Path) -> None:
    """Write a file that :func:`read_results` reads; numbers are rounded."""
    data = {
        "environment": dict(evidence.environment),
        "columns": list(_COLUMNS),
        "cells": {
            part: [[getattr(cell, name) for name in _COLUMNS] for cell in found]
            for part, found in evidence.cells.items()
        },
        "theory": evidence.theory,
        "arrays": [
            {"piece": piece, "dataset": dataset, "method": method, "arrays": found}
            for (piece, dataset, method), found in evidence.arrays.items()
        ],
    }
    with atomic_write(path) as stream:
        stream.write(json.dumps(_short(data), ensure_ascii=False).encode())


def read_results(path: Path) -> Evidence:
    """Read a file of :func:`write_results`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        columns = data["columns"]
        cells = {
            part: [Cell(**dict(zip(columns, row, strict=True))) for row in rows]
            for part, rows in data["cells"].items()
        }
        arrays = {
            (one["piece"], one["dataset"], one["method"]): {
                name: np.array(values) for name, values in one["arrays"].items()
            }
            for one in data["arrays"]
        }
        return Evidence(cells, data["theory"], arrays, data["environment"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFileError(
            f"{path}: is not a file of results of the claims ({error})"
        ) from None


def _short(value: Any) -> Any:
    """Return plain data with five digits per number."""
    if isinstance(value, Mapping):
        return {str(key): _short(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _short(value.tolist())
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
