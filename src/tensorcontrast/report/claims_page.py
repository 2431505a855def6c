"""``docs/paper.md``: the claims of the paper as a page, with its figures, made from results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tensorcontrast.evaluate.benchmark import Cell
from tensorcontrast.evaluate.claims import (
    CITATION,
    ECG,
    HAR,
    HAR_ATD,
    PARTS,
    READINGS,
    SLEEP,
    SLEEP_WINDOWS,
    TABLE1,
    THEORY,
)
from tensorcontrast.evaluate.verdicts import IN_PAPER, TITLES, VERDICTS, Claim, Evidence, claims
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.report import evidence_figures, style
from tensorcontrast.report.text import markdown_text

__all__ = ["claims_figures", "claims_markdown", "write_claims"]

#: Where the figures are, as seen from the page.
IMAGES = "_static/paper"

_SETS = (HAR, HAR_ATD, SLEEP, ECG)
_TENSOR = ("CPD", "ATD", "PLC")
_DEEP = ("SimCLR", "BYOL", "DeepTensor")
VERDICTS_OF_MANY = ("hold", "hold in part", "do not hold here", "were not tested")
_COLUMNS = ("converged", "mini-batches", "default")
_VARIANTS = ("PLC", "true graph", "w/o PLC", "w/o cross-view", "w/o trans-inv")

#: Published results in the protocols of others: what, by whom, and what differs.
PUBLISHED: tuple[tuple[str, str, str], ...] = (
    (
        "HAR, TS-TCC with a linear probe: accuracy 0.904, macro F1 0.904",
        "Eldele et al., IJCAI 2021",
        "the same test windows; a convolutional network, pre-trained on the training windows",
    ),
    (
        "PTB-XL, linear probe: macro AUC 0.838 (ST-MEM), 0.928 (ECG-JEPA)",
        "Na et al., ICLR 2024; Kim, arXiv 2410.08559",
        "records with one superclass as here, but all of them and fold 10 for the test; networks "
        "pre-trained on other and larger archives",
    ),
    (
        "PTB-XL, supervised xresnet1d101: macro AUC 0.928",
        "Strodthoff et al., IEEE JBHI 2021",
        "all records, several superclasses per record, fold 10 for the test",
    ),
)

#: What was settled where the paper is silent or slips.
SETTLED: tuple[str, ...] = (
    "The identity inside the Laplacian pulls against the transformation invariance for γ > 1/N. It "
    "is left out, as in the paper's own expansion; `laplacian='literal'` keeps it (E5).",
    "One term is a mean over windows and the other a sum. Here all terms are sums, so that "
    "β = β_paper / N and γ = N γ_paper; `PLC.paper()` converts (E7).",
    "The objective has factors of one half that the paper's update for w lacks: the update has β "
    "where the paper prints β/2 (E8, E9).",
    "Proposition 1 needs the norm of (HᵀH + αI)⁻¹, and M is a maximum (E13).",
    "The block inequality holds where P ≥ 0 and only there (E17).",
    "No values of α, β, γ and the number of clusters are printed. Ours are the defaults of "
    "`PLC.paper()`, and a search on training subjects next to them.",
    "Data are centred and scaled before the fit, except for mini-batches, which follow the "
    "authors of ATD.",
)

#: What differs from the paper's experiments.
DIFFERS: tuple[str, ...] = (
    "HAR: the paper splits subjects 70/15/15 and down-samples, but does not say which windows it "
    "keeps. Here all windows are used, with the same shares of subjects. ATD's split has windows "
    "of one subject in training and test, so that accuracies are higher.",
    "Sleep-EDF: the paper has seven channels and epochs of 30 s (14×129×86). Here there is one "
    "channel, Fpz-Cz, and the first 5 s of each epoch. The task is harder, and the accuracies "
    "cannot be compared with the paper's; the order of the methods can.",
    "PTB-XL: 1,211 records at 500 Hz with one superclass each, in the paper's tensors (24×129×75). "
    "The paper does not say which labels it uses. Shares of classes differ.",
    "Times: the paper does not name its hardware, and prints times per epoch. Ours are processor "
    "seconds of one thread for one pass over the same windows.",
)


def write_claims(evidence: Evidence, path: Path, *, images: str = IMAGES) -> list[Claim]:
    """Write the page, and its figures to a folder next to it; returns the claims."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = dict(claims_figures(evidence))
    folder = path.parent / images
    folder.mkdir(parents=True, exist_ok=True)
    for name, (figure, _) in figures.items():
        style.save_figure(figure, folder, name, ["png"])
    with atomic_write(path) as stream:
        stream.write(claims_markdown(evidence, images=images).encode())
    return claims(evidence)


def claims_markdown(evidence: Evidence, *, images: str = IMAGES) -> str:
    """Return the page: verdicts, figures, protocols, what was settled, how to run it."""
    found = claims(evidence)
    captions = dict(_captions(evidence))
    counts = [
        f"{count} {many if count > 1 else verdict}"
        for verdict, many in zip(VERDICTS, VERDICTS_OF_MANY, strict=True)
        if (count := sum(c.verdict == verdict for c in found))
    ]
    out = [
        "# The paper, claim by claim",
        f"Does it hold? {markdown_text(CITATION)} Of {len(found)} claims, {', '.join(counts)}.",
        "Accuracies are those of a logistic probe on people who were not seen in the fit. "
        "Differences are in points, mean ± standard error over seeds. A difference counts where "
        "it is larger than one point and, with several seeds, than twice its standard error. "
        "Three readings stand next to each other:",
        _list(
            (
                "*converged*: Algorithm 1 on the paper's tensors, until it converges;",
                "*mini-batches*: the same model, trained as the authors of ATD train: batches of "
                "128, steps of 0.005, 100 epochs;",
                "*default*: the method of this library, which is another one. Verdicts are about "
                "the other two.",
            )
        ),
        "## Claims",
        _claims_table(found, captions, images),
        *_table1(evidence),
        *_order(evidence),
    ]
    if captions:
        out.append("## Figures")
    for name, caption in captions.items():
        out.append(f"![{markdown_text(caption)}]({images}/{name}.png)\n\n{markdown_text(caption)}")
    out += _searched(evidence)
    out += _protocols(evidence)
    out += ["## What was settled", _list(SETTLED)]
    out += ["## What differs from the paper", _list(DIFFERS)]
    out += ["## Run it", *_how(evidence)]
    return "\n\n".join(part for part in out if part) + "\n"


# -------------------------------------------------------------------------------------- tables


def _claims_table(found: Sequence[Claim], captions: Mapping[str, str], images: str) -> str:
    lines = ["| | claim | verdict | paper | ours |", "| ---: | --- | --- | --- | --- |"]
    for c in found:
        why = f": {c.why}" if c.why else ""
        figure = f" ([figure]({images}/{c.figure}.png))" if c.figure in captions else ""
        ours, paper = (markdown_text(text).replace("; ", "<br>") for text in (c.ours, c.paper))
        lines.append(
            f"| {c.number} | {markdown_text(c.says)} | "
            f"**{c.verdict}**{markdown_text(why)}{figure} | {paper} | {ours} |"
        )
    return "\n".join(lines)


def _table1(evidence: Evidence) -> list[str]:
    """Return the paper's table next to ours: accuracy ± sd by reading, and seconds per epoch."""
    if not evidence.cells.get("table"):
        return []
    times = evidence.theory.get("epochs", {})
    lines = [
        f"| data | method | paper | {' | '.join(_COLUMNS)} | s per epoch, paper | ours |",
        f"| --- | --- | ---: |{' ---: |' * 5}",
    ]
    for dataset in _SETS:
        for j, row in enumerate((*_TENSOR, *_DEEP)):
            if row in _DEEP:
                cells = evidence.of("deep", dataset, row)
                if not cells:
                    continue
                own = [f"{_scores(cells)} ({cells[0].n_epochs} epochs)", "", ""]
            else:
                names = [methods[j] for methods in READINGS.values()]
                own = [_scores(evidence.of("table", dataset, name)) for name in names]
                if set(own) == {"–"}:
                    continue
            published = TABLE1[IN_PAPER[dataset], row]
            timed = row if row in _DEEP else f"{row} (mini-batch)"
            seconds = times.get("seconds", {}).get(dataset, {}).get(timed)
            lines.append(
                f"| {TITLES[dataset]} | {row} | {published.accuracy:.3f} ± "
                f"{published.accuracy_sd:.3f} | {' | '.join(own)} | {published.epoch_seconds:.1f} "
                f"| {'–' if seconds is None else f'{seconds:.2f}'} |"
            )
    seeds = ", ".join(
        f"{TITLES[d]} {len(evidence.scores('table', d, 'CPD'))}"
        for d in _SETS
        if evidence.scores("table", d, "CPD")
    )
    text = f"Accuracy with all labels, mean ± standard deviation over seeds (seeds: {seeds})."
    if evidence.cells.get("deep"):
        text += (
            " Deep methods end when their loss has settled, after 100 epochs at most; runs of ten "
            "epochs or fewer were cut short."
        )
    if times:
        text += (
            f" Our seconds are those of the processor for one epoch over {times['windows']} "
            "windows, with mini-batches."
        )
    return ["## Table 1", text, "\n".join(lines)]


def _order(evidence: Evidence) -> list[str]:
    """Answer under which training CPD < ATD < PLC appears."""
    lines = [
        "| data | training | order of accuracy | PLC − CPD | PLC − ATD |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    there, total = [], 0
    for dataset in _SETS:
        for reading, methods in READINGS.items():
            scores = [evidence.scores("table", dataset, method) for method in methods]
            if not all(scores):
                continue
            total += 1
            means = [float(np.mean(list(own.values()))) for own in scores]
            order = " < ".join(_TENSOR[k] for k in np.argsort(means, kind="stable"))
            gaps = [evidence.gap("table", dataset, methods[2], methods[k]) for k in (0, 1)]
            if means[0] < means[1] < means[2]:
                sure = all(gap is not None and gap.counts for gap in gaps)
                there.append(
                    f"{TITLES[dataset]}, {reading}"
                    + ("" if sure else " (differences do not count)")
                )
            texts = [str(gap) + ("" if gap is None or gap.counts else " (no)") for gap in gaps]
            lines.append(f"| {TITLES[dataset]} | {reading} | {order} | {' | '.join(texts)} |")
    if not total:
        return []
    answer = f"In {len(there)} of {total}" + (f": {'; '.join(there)}" if there else "")
    return [
        "## Under which training does the order CPD < ATD < PLC appear?",
        f"{answer}. Points, ± standard error; (no): the difference does not count.",
        "\n".join(lines),
    ]


def _searched(evidence: Evidence) -> list[str]:
    cells = evidence.cells.get("search", ())
    if not cells:
        return []
    lines = ["| method | accuracy | chosen |", "| --- | ---: | --- |"]
    for method in dict.fromkeys(cell.method for cell in cells):
        own = [cell for cell in cells if cell.method == method]
        texts = [", ".join(f"{k} = {v}" for k, v in sorted(c.chosen.items())) for c in own]
        chosen = "; ".join(dict.fromkeys(text for text in texts if text)) or "–"
        lines.append(f"| {method} | {_scores(own)} | {chosen} |")
    seeds = {cell.seed for cell in cells}
    for name in ("PLC (paper)", "PLC (mini-batch)", "PLC (default)"):
        own = [cell for cell in evidence.of("table", HAR, name) if cell.seed in seeds]
        if own:
            lines.append(f"| {name}, not searched | {_scores(own)} | – |")
    return [
        "## The best honest setting",
        "β, γ and the number of clusters were chosen by cross-validation over the training "
        "subjects of HAR. The test subjects were not looked at. β is in sums over windows. "
        f"Seeds: {len(seeds)}.",
        "\n".join(lines),
    ]


def _protocols(evidence: Evidence) -> list[str]:
    cells = evidence.cells.get("protocols", ())
    if not cells:
        return []
    lines = [
        "| data | labels | method | accuracy | macro F1 | macro AUC |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    keys = dict.fromkeys((cell.dataset, cell.budget, cell.method) for cell in cells)
    for dataset, budget, method in keys:
        own = evidence.of("protocols", dataset, method, budget)
        scores = [_scores(own, name) for name in ("accuracy", "macro_f1", "macro_auc")]
        lines.append(f"| {dataset} | {budget} | {method} | {' | '.join(scores)} |")
    quoted = [f"{text} ({source}). Differs: {differs}." for text, source, differs in PUBLISHED]
    return [
        "## In the protocols of others",
        "The default features with a logistic probe. The share of labels is of the training part. "
        "HAR: the official test set. PTB-XL: 100 Hz, one superclass per record, normal records "
        "thinned out, folds 1 to 8 for training and 9 for the test. Sleep-EDF: one channel, 5 s, "
        "by subject.",
        "\n".join(lines),
        "Published numbers, for orientation:",
        _list(quoted),
    ]


def _how(evidence: Evidence) -> list[str]:
    out = [
        "`python -m benchmarks.claims` runs what is missing, writes `runs/claims/claims.json` and "
        "the page. A stopped run goes on where it stopped. `--parts` names some of the runs:",
        _list(f"`{name}`: {text}." for name, text in PARTS.items()),
        "This page is made from `benchmarks/results/claims.json`, without a run:",
        "```sh\npython -m benchmarks.claims --results benchmarks/results/claims.json "
        "--page docs/paper.md\n```",
    ]
    done = []
    for part, cells in evidence.cells.items():
        seeds: dict[str, set[int]] = {}
        for cell in cells:
            seeds.setdefault(cell.dataset, set()).add(cell.seed)
        own = ", ".join(f"{TITLES.get(name, name)} {len(s)}" for name, s in seeds.items())
        done.append(f"`{part}`: {own}.")
    if done:
        out += ["Seeds of this page, by run and data set (the paper has four):", _list(done)]
    absent = [n for n in PARTS if n != THEORY and not evidence.cells.get(n)]
    absent += [] if evidence.theory else [THEORY]
    if absent:
        out.append(f"Not computed for this page: {', '.join(f'`{name}`' for name in absent)}.")
    out.append(f"Of Sleep-EDF, {SLEEP_WINDOWS:,} of 28,023 windows were drawn at random.")
    if evidence.environment:
        packages = evidence.environment.get("packages") or {}
        names = [f"{name} {version}" for name, version in packages.items()]
        out.append(
            f"Computed with tensorcontrast {evidence.environment['tensorcontrast']}, Python "
            f"{evidence.environment['python']}, {', '.join(names)}."
        )
    return out


def _scores(cells: Iterable[Cell], name: str = "accuracy") -> str:
    """Mean over seeds, ± standard deviation where there are several."""
    values = [float(v) for cell in cells if (v := getattr(cell, name)) is not None]
    if not values:
        return "–"
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


# ------------------------------------------------------------------------------------- figures


def _captions(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names and captions of the figures that there are results for, in the paper's order."""
    if evidence.cells.get("table"):
        yield "paper-table", "Table 1: accuracy with all labels. Dots: seeds; dashed: the paper."
        yield "paper-labels", "Accuracy over the number of labels, ATD (dashed) and PLC (solid)."
    pieces = {piece for piece, _, _ in evidence.arrays}
    if "stages" in pieces:
        yield "paper-stages", "Reconstruction error and accuracy over the iterations, seed 0."
    if evidence.cells.get("ablation"):
        yield (
            "paper-ablation",
            "The true-label graph and the ablations: points above or below PLC, literal and "
            "converged.",
        )
    if evidence.stages("stages", HAR, "PLC (paper)") is not None:
        yield "paper-tsne", "Features at the start and at convergence (t-SNE), HAR, PLC converged."
        yield "paper-graphs", "Pseudo graph over the iterations, HAR, PLC converged."
    if evidence.stages("seeds", HAR, "PLC (paper)") is not None:
        yield "paper-seeds", "Pseudo graphs of four seeds, HAR, PLC converged."
    if "cost" in evidence.theory:
        yield "paper-cost", "Time of an iteration over the number of windows, HAR, PLC converged."


def claims_figures(evidence: Evidence) -> Iterator[tuple[str, tuple[Figure, str]]]:
    """Name, figure and caption of everything that there are results for."""
    for name, caption in _captions(evidence):
        stages = evidence.stages("stages", HAR, "PLC (paper)")
        if name == "paper-table":
            figure = _plot_table(evidence)
        elif name == "paper-labels":
            figure = _plot_labels(evidence)
        elif name == "paper-stages":
            figure = evidence_figures.plot_iterations(_stages_by_name(evidence))
        elif name == "paper-ablation":
            figure = _plot_ablation(evidence)
        elif name == "paper-cost":
            figure = _plot_cost(evidence.theory["cost"])
        elif name == "paper-seeds":
            found = evidence.stages("seeds", HAR, "PLC (paper)")
            assert found is not None
            figure = evidence_figures.plot_seeds(found)
        else:
            assert stages is not None
            plot: Any = evidence_figures.plot_adjacency
            plot = evidence_figures.plot_tsne_stages if name == "paper-tsne" else plot
            figure = plot(stages)
        yield name, (figure, caption)


def _stages_by_name(evidence: Evidence) -> dict[str, Mapping[str, Any]]:
    return {
        f"{TITLES[dataset]}, {name}": found
        for dataset in (HAR, SLEEP, ECG)
        for name, method in (("converged", "PLC (paper)"), ("default", "PLC (default)"))
        if (found := evidence.stages("stages", dataset, method)) is not None
    }


def _with_results(evidence: Evidence) -> list[str]:
    return [d for d in _SETS if any(cell.dataset == d for cell in evidence.cells["table"])]


@style.styled
def _plot_table(evidence: Evidence) -> Figure:
    """Bars of CPD, ATD and PLC for each reading and data set; the paper's numbers as dashes."""
    sets = _with_results(evidence)
    figure = style.new_figure(2.3 * len(sets) + 0.8, 3.2)
    axes = figure.subplots(1, len(sets), squeeze=False, sharey=True)[0]
    for axis, dataset in zip(axes, sets, strict=True):
        for k, methods in enumerate(READINGS.values()):
            for j, method in enumerate(methods):
                values = list(evidence.scores("table", dataset, method).values())
                if not values:
                    continue
                x = k + (j - 1) * 0.27
                label = _TENSOR[j] if k == 0 else None
                axis.bar(x, np.mean(values), 0.24, color=style.colour(j), label=label)
                axis.plot(np.full(len(values), x), values, "o", color=style.INK, ms=2.5, mew=0)
        for j, row in enumerate(_TENSOR):
            published = TABLE1[IN_PAPER[dataset], row].accuracy
            axis.axhline(published, color=style.colour(j), lw=0.9, ls=(0, (2, 2)), zorder=0)
        axis.set_xticks(range(3), ["converged", "mini-\nbatches", "default"])
        axis.set_title(TITLES[dataset])
        axis.set_ylim(0, 1)
    axes[0].set_ylabel("accuracy (dashed: the paper)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.styled
def _plot_labels(evidence: Evidence) -> Figure:
    """Accuracy over label budgets: ATD and PLC of each reading."""
    sets = _with_results(evidence)
    figure = style.new_figure(2.3 * len(sets) + 0.8, 3.6)
    axes = figure.subplots(1, len(sets), squeeze=False)[0]
    budgets = dict.fromkeys(cell.budget for cell in evidence.cells["table"])
    for axis, dataset in zip(axes, sets, strict=True):
        for k, (reading, (_, atd, plc)) in enumerate(READINGS.items()):
            for line, name, method in (("--", "ATD", atd), ("-", "PLC", plc)):
                points = sorted(
                    (
                        float(np.mean([cell.n_train for cell in cells])),
                        float(np.mean([float(cell.accuracy or 0) for cell in cells])),
                    )
                    for budget in budgets
                    if (cells := evidence.of("table", dataset, method, budget))
                )
                if points:
                    x, y = zip(*points, strict=True)
                    label = f"{name}, {reading.removeprefix('literal, ')}"
                    axis.plot(x, y, ls=line, color=style.colour(k), marker="o", ms=3, label=label)
        axis.set_xscale("log")
        ticks = [n for n in (30, 100, 300, 1000, 3000) if n <= 1.2 * axis.get_xlim()[1]]
        axis.set_xticks(ticks, [f"{n:,}" for n in ticks])
        axis.minorticks_off()
        axis.set_xlabel("labelled windows")
        axis.set_title(TITLES[dataset])
    axes[0].set_ylabel("accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.styled
def _plot_ablation(evidence: Evidence) -> Figure:
    """Points above or below PLC of each variant, by data set."""
    cells = evidence.cells["ablation"]
    sets = [d for d in (HAR, SLEEP, ECG) if any(c.dataset == d for c in cells)]
    figure = style.new_figure(6.4, 2.9)
    axis = figure.subplots()
    for k, dataset in enumerate(sets):
        for j, variant in enumerate(_VARIANTS[1:]):
            gap = evidence.gap("ablation", dataset, f"{variant} (paper)", "PLC (paper)")
            if gap is None:
                continue
            x = j + (k - (len(sets) - 1) / 2) * 0.26
            label = TITLES[dataset] if j == 0 else None
            axis.bar(x, 100 * gap.mean, 0.23, color=style.colour(k), label=label)
            if np.isfinite(gap.error):
                axis.errorbar(x, 100 * gap.mean, 100 * gap.error, color=style.INK, elinewidth=0.9)
    axis.axhline(0, color=style.MUTED, lw=0.8)
    axis.axhline(-3, color=style.MUTED, lw=0.8, ls=(0, (2, 2)))
    axis.set_xticks(range(len(_VARIANTS) - 1), list(_VARIANTS[1:]))
    axis.set_ylabel("difference to PLC (points)")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


@style.styled
def _plot_cost(cost: Mapping[str, Any]) -> Figure:
    """Seconds of an iteration over the number of windows, with the paper's slope."""
    windows, seconds = np.array(cost["windows"]), np.array(cost["seconds"])
    figure = style.new_figure(4.4, 2.9)
    axis = figure.subplots()
    fitted = f"measured, exponent {cost['exponent']:.2f}"
    axis.loglog(windows, seconds, "o-", color=style.BLUE, label=fitted)
    slope = seconds.min() * (windows / windows.min()) ** 3
    axis.loglog(windows, slope, color=style.GREY, ls=(0, (2, 2)), label="exponent 3 (paper)")
    axis.set_xticks(windows, [f"{n:,}" for n in windows])
    axis.minorticks_off()
    axis.set_xlabel("windows")
    axis.set_ylabel("time per iteration (s)")
    axis.legend()
    return figure
