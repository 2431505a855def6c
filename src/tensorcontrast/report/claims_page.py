"""``docs/paper.md``: the claims of the paper as a page, with its figures, made from runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tensorcontrast.evaluate.claims import ECG, HAR, HAR_ATD, PARTS, READINGS, SLEEP
from tensorcontrast.evaluate.paper import CITATION, DIFFERENCES, TABLE1
from tensorcontrast.evaluate.verdicts import TITLES, Claim, Evidence, claims
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.report import evidence_figures, style
from tensorcontrast.report.tables import run_tables
from tensorcontrast.report.text import markdown_text

__all__ = ["claims_figures", "claims_markdown", "write_claims"]

#: Published results next to ours: data set here, what it is, macro F1 or AUC as printed, source.
PUBLISHED: tuple[tuple[str, str, str], ...] = (
    (
        "har, official test",
        "TS-TCC, linear probe: accuracy 0.904, macro F1 0.904",
        "Eldele et al., IJCAI 2021; random split of the same windows, network pre-trained on them",
    ),
    (
        "ptb-xl, fold 9",
        "linear probe: macro AUC 0.838 (ST-MEM), 0.928 (ECG-JEPA); supervised xresnet1d101 0.928",
        "as quoted by their authors; fold 10 tests there, and all records with their real shares "
        "of classes are used; here records with one superclass, normal ones thinned, fold 9 tests",
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


def write_claims(evidence: Evidence, path: Path, *, images: str = "images/paper") -> list[Claim]:
    """Write the page, and its figures to a folder next to it; returns the claims."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = dict(claims_figures(evidence))
    folder = path.parent / images
    folder.mkdir(parents=True, exist_ok=True)
    for name, (figure, _) in figures.items():
        style.save_figure(figure, folder, name, ["png"])
    found = claims(evidence)
    captions = {name: caption for name, (_, caption) in figures.items()}
    with atomic_write(path) as stream:
        stream.write(claims_markdown(evidence, found, captions, images).encode())
    return found


def claims_markdown(
    evidence: Evidence, found: Sequence[Claim], captions: dict[str, str], images: str
) -> str:
    """Return the page: verdicts, figures, protocols, what was settled, how to run it."""
    counts = [
        f"{sum(c.verdict == v for c in found)} {v}" for v in dict.fromkeys(c.verdict for c in found)
    ]
    out = [
        "# The paper, claim by claim",
        f"{CITATION} This page is made by `tensorcontrast bench claims --page docs/paper.md`.",
        f"Of {len(found)} claims: {', '.join(counts)}.",
        "Accuracies are those of a logistic probe on people who were not seen in the fit. "
        "Differences are in points, mean ± standard error over seeds. "
        "Three readings stand next to each other. *Literal, converged* is Algorithm 1 on the "
        "paper's tensors until it converges. *Literal, mini-batches* trains the same model as the "
        "authors of ATD do: batches of 128, steps of 0.005, 100 epochs. *Default* is the method of "
        "this library, which is another one; verdicts are about the literal readings.",
        _claims_table(found, captions, images),
    ]
    for name, caption in captions.items():
        out += [f"![{markdown_text(caption)}]({images}/{name}.png)", f"*{markdown_text(caption)}*"]
    out += _protocols(evidence)
    out += _searched(evidence)
    out += ["## What was settled", _list(SETTLED)]
    out += ["## What differs from the paper", _list(_differences())]
    out += ["## Run it", _how(evidence)]
    return "\n\n".join(part for part in out if part) + "\n"


def _claims_table(found: Sequence[Claim], captions: dict[str, str], images: str) -> str:
    lines = ["| | claim | paper | ours | verdict |", "| ---: | --- | --- | --- | --- |"]
    for c in found:
        why = f": {c.why}" if c.why else ""
        figure = f" ([figure]({images}/{c.figure}.png))" if c.figure in captions else ""
        ours = markdown_text(c.ours).replace("; ", "<br>")
        lines.append(
            f"| {c.number} | {markdown_text(c.says)} | {markdown_text(c.paper)} | {ours} | "
            f"**{c.verdict}**{markdown_text(why)}{figure} |"
        )
    return "\n".join(lines)


def _protocols(evidence: Evidence) -> list[str]:
    run = evidence.runs.get("protocols")
    if run is None or not run.ok:
        return []
    lines = [
        "| data | labels | method | accuracy | macro F1 | macro AUC |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in run.summary():
        if row.n_seeds:
            area = "–" if row.macro_auc is None else f"{row.macro_auc:.3f}"
            accuracy, f1 = _pm(row.accuracy, row.accuracy_sd), _pm(row.macro_f1, row.macro_f1_sd)
            lines.append(
                f"| {row.dataset} | {row.budget} | {row.method} | {accuracy} | {f1} | {area} |"
            )
    quoted = [f"{data}: {text} ({source})." for data, text, source in PUBLISHED]
    return [
        "## In the protocols of others",
        "The default features with a logistic probe. The share of labels is of the training part.",
        "\n".join(lines),
        "Published numbers, for orientation; protocols differ as stated:",
        _list(quoted),
    ]


def _searched(evidence: Evidence) -> list[str]:
    run = evidence.runs.get("search")
    if run is None or not run.ok:
        return []
    lines = ["| method | accuracy | chosen |", "| --- | ---: | --- |"]
    for row in run.summary():
        chosen = sorted(
            {
                ", ".join(f"{k} = {v}" for k, v in sorted(cell.chosen.items()))
                for cell in run.ok
                if cell.method == row.method and cell.chosen
            }
        )
        if row.n_seeds:
            text = _pm(row.accuracy, row.accuracy_sd)
            lines.append(f"| {row.method} | {text} | {'; '.join(chosen) or '–'} |")
    return [
        "## The best honest setting",
        "β, γ and the number of clusters were chosen by cross-validation over the training "
        "subjects of HAR. The test subjects were not looked at.",
        "\n".join(lines),
    ]


def _differences() -> Iterator[str]:
    for texts in DIFFERENCES.values():
        yield from (text for text in texts)


def _how(evidence: Evidence) -> str:
    missing = [name for name in PARTS if name not in evidence.runs]
    lines = [
        "`tensorcontrast bench claims --page docs/paper.md` runs what is missing and writes this "
        "page. A stopped run goes on where it stopped. `--parts` names the runs:",
        _list([f"`{name}`: {text}." for name, text in PARTS.items()]),
    ]
    for name, run in evidence.runs.items():
        if run.missing or run.failed:
            n_all = len(run.ok) + len(run.missing) + len(run.failed)
            lines.append(f"Of `{name}`, {len(run.ok)} of {n_all} cells are computed.")
    if missing:
        lines.append(f"Not computed for this page: {', '.join(f'`{m}`' for m in missing)}.")
    seeds = sorted({cell.seed for run in evidence.runs.values() for cell in run.ok})
    lines.append(f"Seeds: {', '.join(map(str, seeds))}.")
    return "\n\n".join(lines)


# ------------------------------------------------------------------------------------- figures


def claims_figures(evidence: Evidence) -> Iterator[tuple[str, tuple[Figure, str]]]:
    """Name, figure and caption of everything that the runs have data for."""
    table = evidence.runs.get("table")
    if table is not None and table.ok:
        yield "paper-table", (_plot_table(evidence), "Accuracy with all labels, by reading.")
        yield "paper-labels", (_plot_labels(evidence), "Accuracy over the number of labels.")
    ablation = evidence.runs.get("ablation")
    if ablation is None:
        return
    stages = {
        f"{TITLES[dataset]}, {method}": found
        for dataset in (HAR, SLEEP, ECG)
        for method in ("PLC (paper)", "PLC (default)")
        if (found := evidence.stages("stages", dataset, method)) is not None
    }
    if stages:
        yield (
            "paper-stages",
            (
                evidence_figures.plot_iterations(stages),
                "Reconstruction error and accuracy over the iterations.",
            ),
        )
    for own in run_tables(ablation) if ablation.ok else ():
        if own.dataset == HAR:
            names = [r.method for r in own.rows if r.method.endswith("(paper)")]
            yield (
                "paper-ablation",
                (
                    evidence_figures.plot_ablation(own, names),
                    "Ablations of the literal algorithm and the true-label graph, HAR.",
                ),
            )
    drawn: tuple[tuple[str, str, Callable[[Any], Figure], str], ...] = (
        ("paper-tsne", "stages", evidence_figures.plot_tsne_stages,
         "Features at the start and at convergence (t-SNE), HAR, PLC (paper)."),
        ("paper-graphs", "stages", evidence_figures.plot_adjacency,
         "Pseudo graph over the iterations, HAR, PLC (paper)."),
        ("paper-seeds", "seeds", evidence_figures.plot_seeds,
         "Pseudo graphs of four seeds, HAR, PLC (paper)."),
    )  # fmt: skip
    for name, piece, plot, caption in drawn:
        found = evidence.stages(piece, HAR, "PLC (paper)")
        if found is not None:
            yield name, (plot(found), caption)


@style.styled
def _plot_table(evidence: Evidence) -> Figure:
    """Bars of CPD, ATD and PLC for each reading and data set; the paper's numbers as dashes."""
    sets = [d for d in (HAR, HAR_ATD, SLEEP, ECG) if evidence.scores("table", d, "CPD")]
    figure = style.new_figure(2.3 * len(sets) + 0.8, 3.2)
    axes = figure.subplots(1, len(sets), squeeze=False)[0]
    for axis, dataset in zip(axes, sets, strict=True):
        for k, methods in enumerate(READINGS.values()):
            for j, method in enumerate(methods):
                values = list(evidence.scores("table", dataset, method).values())
                if not values:
                    continue
                x = k + (j - 1) * 0.27
                label = ("CPD", "ATD", "PLC")[j] if k == 0 else None
                axis.bar(x, np.mean(values), 0.24, color=style.colour(j), label=label)
                axis.plot(np.full(len(values), x), values, "o", color=style.INK, ms=2.5, mew=0)
        name = {HAR: "har", HAR_ATD: "har", SLEEP: "sleep-edf", ECG: "ptb-xl"}[dataset]
        for j, row in enumerate(("CPD", "ATD", "PLC")):
            published = TABLE1[name, row].accuracy
            axis.axhline(published, color=style.colour(j), lw=0.9, ls=(0, (2, 2)), zorder=0)
        axis.set_xticks(range(3), ["converged", "mini-\nbatches", "default"])
        axis.set_title(TITLES[dataset])
        axis.set_ylim(bottom=max(0.0, axis.get_ylim()[0] - 0.0), top=1.0)
    axes[0].set_ylabel("accuracy (dashed: the paper)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.styled
def _plot_labels(evidence: Evidence) -> Figure:
    """Accuracy over label budgets: ATD and PLC of each reading."""
    run = evidence.runs["table"]
    sets = [d for d in (HAR, HAR_ATD, SLEEP, ECG) if evidence.scores("table", d, "CPD")]
    figure = style.new_figure(2.3 * len(sets) + 0.8, 3.4)
    axes = figure.subplots(1, len(sets), squeeze=False)[0]
    for axis, dataset in zip(axes, sets, strict=True):
        for k, (reading, (_, atd, plc)) in enumerate(READINGS.items()):
            for line, method in (("--", atd), ("-", plc)):
                points = sorted(
                    (np.mean([c.n_train for c in cells]), np.mean([c.accuracy for c in cells]))
                    for budget in run.config.budgets
                    if (cells := [c for c in run.ok if (c.dataset, c.method, c.budget)
                                  == (dataset, method, budget)])
                )  # fmt: skip
                if points:
                    x, y = zip(*points, strict=True)
                    name = f"{'ATD' if line == '--' else 'PLC'}, {reading}"
                    axis.plot(x, y, ls=line, color=style.colour(k), marker="o", ms=3, label=name)
        axis.set_xscale("log")
        axis.set_xlabel("labels")
        axis.set_title(TITLES[dataset])
    axes[0].set_ylabel("accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _pm(mean: float, sd: float) -> str:
    return f"{mean:.3f}" if not np.isfinite(sd) else f"{mean:.3f} ± {sd:.3f}"


def _list(lines: Any) -> str:
    return "\n".join(f"- {line}" for line in dict.fromkeys(lines))
