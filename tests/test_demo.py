"""The demonstration: table on the screen, report and figure on disk."""

import re

from tensorcontrast import demo
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import DataNotFoundError


def test_prints_the_table_and_writes_the_report(tmp_path, monkeypatch, capsys):
    small = make_synthetic(n_samples=140, n_classes=3, n_subjects=7, n_times=64, random_state=0)
    monkeypatch.setattr(demo, "recordings", lambda: small)
    monkeypatch.setattr(demo, "SEEDS", range(2))
    monkeypatch.setattr(demo, "RANK", 4)
    monkeypatch.setattr(demo, "BUDGETS", (6, "100%"))
    assert demo.main(tmp_path / "out") == 0
    printed = capsys.readouterr().out
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    for method in ("PCA", "CPD", "ATD", "PLC, paper", "PLC"):
        (row,) = re.findall(rf"(?m)^\| {method} \|(.*)$", report)
        for cell in re.findall(r"0\.\d{3} ± \d\.\d{3}", row):
            assert cell in printed
    assert (tmp_path / "out" / "components.png").stat().st_size > 10_000


def test_goes_on_with_synthetic_recordings_where_the_embedded_ones_are_missing(monkeypatch):
    def missing(**options):
        raise DataNotFoundError("not installed")

    monkeypatch.setattr(demo, "load_watch", missing)
    rec = demo.recordings()
    assert len(rec) == 1200
    assert rec.n_classes == 5
