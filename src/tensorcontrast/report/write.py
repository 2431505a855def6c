"""Writing reports: one call from a model or gathered data to files."""

from __future__ import annotations

from pathlib import Path

from tensorcontrast.classify import ContrastiveClassifier
from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.recordings import Recordings
from tensorcontrast.report.data import ReportData
from tensorcontrast.report.html import render_html
from tensorcontrast.report.of_model import report_from_model
from tensorcontrast.report.style import save_figure, settle
from tensorcontrast.report.text import plain

__all__ = ["model_report", "write_report"]


def write_report(report: ReportData, path: str | Path, *, figures: bool = True) -> Path:
    """Write a report.

    Parameters
    ----------
    report : ReportData
    path : path
        A file ending in ``.html``, or a folder, in which ``report.html`` is written. Folders are
        made where they are missing.
    figures : bool
        Also write each figure as PNG and SVG into ``figures`` next to the report. The HTML file
        does not need them.

    Returns
    -------
    Path
        The report.

    Examples
    --------
    >>> import tempfile
    >>> report = ReportData("A test", ["Does it work?"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(report, folder)
    ...     path.name, path.read_text(encoding="utf-8")[:15]
    ('report.html', '<!doctype html>')
    """
    target = _target(Path(path))
    folder = "figures" if target.stem == "report" else f"{target.stem}-figures"
    items = report.all_figures()
    for item in items:
        settle(item.figure)
        if item.narrow is not None:
            settle(item.narrow)
    text = render_html(report)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{plain(target.parent)}: cannot be made: {error}; choose another folder"
        ) from error
    if figures:
        for item in items:
            save_figure(item.figure, target.parent / folder, item.name)
    with atomic_write(target) as stream:
        stream.write(text.encode("utf-8", errors="replace"))
    return target


def model_report(
    model: ContrastiveFeatures | ContrastiveClassifier,
    recordings: Recordings,
    path: str | Path,
    *,
    title: str | None = None,
    command: str = "",
    figures: bool = True,
    diagnose: bool = True,
) -> Path:
    """Write a report of a fitted model: what it learned, seen through some recordings.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        Fitted. Of a classifier, the report also shows what decides.
    recordings : Recordings
        Those it was fitted on, or others of the same channels, rate and length.
    path, figures
        As in :func:`write_report`.
    title, command, diagnose
        As in :func:`tensorcontrast.report.of_model.report_from_model`.

    Examples
    --------
    >>> import tempfile
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(3), random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = model_report(model.fit(rec), rec, folder, figures=False)
    ...     path.name, path.read_text(encoding="utf-8")[:15]
    ('report.html', '<!doctype html>')
    """
    _target(Path(path))  # a wrong name is reported before the work is done
    report = report_from_model(model, recordings, title=title, command=command, diagnose=diagnose)
    return write_report(report, path, figures=figures)


def _target(path: Path) -> Path:
    """Return the file to write."""
    if path.suffix.lower() == ".html" and not path.is_dir():
        return path
    if path.suffix.lower() in (".md", ".htm", ".pdf"):
        raise InvalidInputError(f"{plain(path)}: reports are .html; give such a name or a folder")
    if path.exists() and not path.is_dir():
        raise FileError(f"{plain(path)}: is a file; give a folder or a name ending in .html")
    return path / "report.html"
