"""Suggestions, the classifier that follows, tables of labels, and what Finish writes."""

import io
import zipfile

import numpy as np
import pytest

from tensorcontrast import ContrastiveClassifier, load_model
from tensorcontrast.classify.suggest import order_rows, reduced_rows
from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.labelling import prepare as preparing
from tensorcontrast.labelling.session import MAX_LABELS_FOR_CLASSIFIER
from tensorcontrast.labelling.tables import export_csv, export_edf, import_labels
from tensorcontrast.labelling.views import MAX_BINS, WindowViews
from tensorcontrast.readers.label_table import label_recordings, read_label_table
from tensorcontrast.recordings import Recordings

# ----------------------------------------------------------------------- labels and answers


def give(work, count, client="a"):
    """Label the windows that are suggested as they are."""
    rec = work.rec
    for _ in range(count):
        window = work.next_window(client)
        work.label(window, rec.classes[rec.y[window]], client, "ann", seconds=1.0)


def test_the_answers_of_the_page_are_those_of_the_model_file(opened, rec):
    work = opened()
    give(work, 20)
    assert work.wait()
    state = work.state()
    assert state["labels"] == 20 and state["model"]["ready"] and not state["model"]["problem"]
    assert state["curve"][-1][0] == 20 and 0 <= state["curve"][-1][1] <= 1
    assert np.sum(state["confusion"]["counts"]) <= 20
    model, page, table = work.write()
    answers = load_model(model).predict_proba(rec)
    for window in (0, 40, 89):
        shown = {g["name"]: g["probability"] for g in work.window(window)["guess"]}
        names = load_model(model).classes_.tolist()
        assert [shown[n] for n in names] == pytest.approx(answers[window].tolist(), abs=2e-3)
    assert "Confusion matrix" in page.read_text(encoding="utf-8")
    assert len(table.read_text().splitlines()) == 21
    assert load_model(model).score(rec, np.array(rec.classes)[rec.y]) > 0.8


def test_the_page_says_what_the_last_ten_labels_changed(opened, rec):
    work = opened()
    kept = {}
    for n in range(1, 17):
        give(work, 1)
        assert work.wait()
        kept[n] = work._guess.copy()
        if not work.state()["model"]["ready"]:
            del kept[n]
    assert min(kept) <= 3  # two classes came early
    assert work.state()["model"]["changed"] == np.mean(kept[6] != kept[16])
    for _ in range(3):
        work.undo("a", "ann")
    assert work.wait()
    assert work.state()["model"]["changed"] == np.mean(kept[3] != kept[13])


def test_the_page_suggests_as_the_benchmark_does(opened, rec):
    work = opened()
    for count in (6, 12):  # typical windows, then those that the classifier is unsure of
        give(work, 6)
        assert work.wait()
        codes = work._codes.astype(int)
        found = order_rows(
            reduced_rows(np.asarray(work.prepared.rows)),
            codes,
            12,
            rec.groups,
            probability=work._answers if count == 12 else None,
            random_state=0,
        )
        assert list(work._queue) == found.tolist()


def test_suggested_windows_differ_and_pages_get_different_ones(opened):
    work = opened(start=False)
    first, second = work.next_window("a"), work.next_window("b")
    assert first != second and work.next_window("b") == second
    work.skip(first, "a", "ann", 1.0)
    assert work.next_window("a") not in (first, second)


def test_all_windows_can_be_labelled_and_skipped_ones_come_back(opened, rec):
    work = opened(start=False)
    skipped = work.next_window("a")
    work.skip(skipped, "a", "ann", None)
    for _ in range(len(rec) - 1):
        window = work.next_window("a")
        assert window != skipped
        work.label(window, "rest", "a", "ann")
    assert work.next_window("a") == skipped
    work.label(skipped, "walk", "a", "ann")
    assert work.next_window("a") is None


def test_labels_survive_a_restart_and_undo_reaches_back(opened):
    work = opened()
    give(work, 6)
    before = work.names()
    work.stop()
    work.project.close()
    again = opened()
    assert again.names() == before
    assert again.wait() and again.state()["model"]["ready"]
    undone = again.undo("new page", "ann")
    assert len(undone) == 1 and set(again.names()) == set(before) - set(undone)
    assert again.undo("stranger", "bob") is None


def test_another_program_is_followed(opened):
    one, two = opened(), opened()
    give(one, 4)
    assert two.state()["labels"] == 4
    window = next(iter(one.names()))
    assert two.window(window)["label"] == one.names()[window]


def test_disagreements_come_first(opened, rec):
    work = opened()
    give(work, 24)
    wrong = next(iter(work.names()))
    other = next(c for c in rec.classes if c != rec.classes[rec.y[wrong]])
    work.label(wrong, other, "a", "ann", expected=work.names()[wrong], source="review")
    assert work.wait()
    table = work.review()
    assert table["rows"][0]["disagrees"] and table["total"] == 24
    assert wrong in [row["window"] for row in table["rows"][: table["disagreements"]]]
    kinds = [row["disagrees"] for row in table["rows"]]
    assert kinds == sorted(kinds, reverse=True)
    assert work.review(only=other)["total"] == sum(v == other for v in work.names().values())


def test_a_cluster_is_labelled_after_six_windows_were_shown(opened):
    work = opened(start=False)
    with pytest.raises(InvalidInputError, match="look at 6 windows"):
        work.label_cluster(0, "rest", "a", "ann", 3.0)
    own = np.flatnonzero(work.prepared.cluster == 0)
    work.label(int(own[0]), "walk", "a", "ann")
    seen = work.cluster(0, "a")
    assert len(seen["shown"]) == 6 and seen["left"] == len(own) - 1
    assert work.label_cluster(0, "rest", "a", "ann", 3.0)["saved"] == len(own) - 1
    names = work.names()
    assert names[int(own[0])] == "walk"  # what was labelled by hand stays
    assert {names[int(w)] for w in own[1:]} == {"rest"}
    assert work.clusters()[-1]["labelled"] in (len(own), 0)
    work.undo("a", "ann")
    assert work.names() == {int(own[0]): "walk"}


def test_wrong_requests_are_refused(opened):
    work = opened(start=False)
    with pytest.raises(InvalidInputError, match="no class 'jump'"):
        work.label(0, "jump", "a", "ann")
    for window in (-1, 90, "0"):
        with pytest.raises(InvalidInputError, match="no window"):
            work.window(window)
    with pytest.raises(InvalidInputError, match="no channel"):
        work.spectrogram(0, 9)
    with pytest.raises(InvalidInputError, match="no cluster"):
        work.cluster(99, "a")
    with pytest.raises(InvalidInputError, match="two classes"):
        work.write()


def test_finish_overwrites_its_own_files_alone(opened):
    work = opened()
    work.target.write_text("of somebody else")
    give(work, 8)
    with pytest.raises(FileError, match="not written by this project"):
        work.write()
    assert work.target.read_text() == "of somebody else"
    work.target.unlink()
    files = work.write()
    assert work.write() == files and all(f.exists() for f in files)


def test_of_very_many_labels_some_train(large):
    work = large
    work.cluster(0, "a")
    saved = work.label_cluster(0, "rest", "a", "ann", 1.0)["saved"]
    assert saved > MAX_LABELS_FOR_CLASSIFIER
    others = np.flatnonzero(work.prepared.cluster != 0)[:30].tolist()
    for window in others:
        work.label(window, "walk", "a", "ann")
    y, classes, n = work._training()
    assert n <= MAX_LABELS_FOR_CLASSIFIER + 30 and classes == ["rest", "walk"]
    assert (y[others] == "walk").sum() >= 20
    assert work.wait(60) and work.state()["labels"] == saved + 30
    assert len(work.places()) == 800_000 and len(work.colours()) == 300_000


# ---------------------------------------------------------------------------------- features


def test_features_are_kept_and_damage_is_repaired(rec, kept, tmp_path):
    known = preparing.fingerprint(rec)
    first = preparing.prepare(rec, kept, known=known)
    assert isinstance(first.rows, np.memmap) and first.rows.shape[0] == len(rec)
    W = first.model.extractor_.transform(rec)
    np.testing.assert_allclose(first.features, W, atol=1e-4)
    np.testing.assert_allclose(first.rows, first.model.rows(rec), atol=1e-5)
    assert first.place.min() >= 0 and first.place.max() <= 1
    assert np.bincount(first.cluster).argmax() == 0
    assert preparing.fingerprint(rec[:80]) != known
    assert preparing._load(kept, "other", None, len(rec)) is None
    import shutil

    copied = shutil.copytree(kept, tmp_path / "c")
    (copied / "rows.npy").write_bytes(b"damaged")
    assert preparing._load(copied, known, None, len(rec)) is None
    again = preparing.prepare(rec, copied, known=known, model=first.model.extractor_)
    np.testing.assert_allclose(again.features, first.features, atol=1e-6)
    assert not again.answers


def test_a_classifier_answers_before_the_first_label(opened, rec, kept, tmp_path):
    base = preparing.prepare(rec, kept, known=preparing.fingerprint(rec)).model
    trained = base.refit(rec, np.array(rec.classes)[rec.y], rows=base.rows(rec))
    known = preparing.fingerprint(rec)
    made = preparing.prepare(rec, tmp_path / "c", known=known, model=trained)
    assert made.answers and isinstance(made.model, ContrastiveClassifier)
    from tensorcontrast.labelling import Labelling, Project

    project = Project(tmp_path / "q.tcl", {"fingerprint": known, "n_windows": len(rec)})
    work = Labelling(rec, project, made)
    assert sorted(project.classes) == sorted(rec.classes)
    assert work.window(0)["guess"][0]["name"] == trained.predict(rec[:1])[0]
    project.close()


# ------------------------------------------------------------------------------------ tables


def labels_of(rec, windows):
    return {w: rec.classes[rec.y[w]] for w in windows}


def test_tables_give_the_same_labels_to_the_same_windows(rec, tmp_path):
    given = labels_of(rec, [0, 3, 17, 50])
    path = tmp_path / "labels.csv"
    path.write_bytes(export_csv(rec, given))
    assert import_labels(rec, path) == given
    trained = label_recordings(rec, read_label_table(path))  # as train does
    assert {w: trained.classes[trained.y[w]] for w in np.flatnonzero(trained.y >= 0)} == given
    whole = rec._with(columns={**rec.columns, "start": rec.columns["start"] * 2})
    path.write_bytes(export_csv(whole, given))
    assert path.read_text().splitlines()[1].count(",") == 3 and ",," not in path.read_text()
    assert import_labels(whole, path) == given


def test_annotations_of_every_recording(rec, tmp_path):
    pytest.importorskip("edfio")
    given = labels_of(rec, range(0, 90, 7))
    name, content = export_edf(rec, given)
    assert name == "labels-edf.zip"
    found = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for one in archive.namelist():
            path = tmp_path / one
            path.write_bytes(archive.read(one))
            found |= import_labels(rec, path)
    assert found == given
    own = [w for w in given if rec.columns["recording"][w] == rec.columns["recording"][0]]
    name, _ = export_edf(rec, labels_of(rec, own))
    assert name.endswith("-labels.edf")
    stranger = tmp_path / "stranger.edf"
    stranger.write_bytes(path.read_bytes())
    with pytest.raises(FileError, match="no recording is named 'stranger'"):
        import_labels(rec, stranger)


def test_windows_without_times_are_numbered(rec, tmp_path):
    bare = Recordings(rec.X, channels=rec.channels)
    path = tmp_path / "labels.csv"
    path.write_bytes(export_csv(bare, {2: "=1+1", 5: "rest"}))
    assert path.read_text().splitlines()[0] == "window,label"
    assert import_labels(bare, path) == {2: "=1+1", 5: "rest"}
    path.write_text("window,label\n99,rest\n999,rest\n")
    with pytest.raises(FileError, match="line 2: no window '99'"):
        import_labels(bare, path)
    with pytest.raises(InvalidInputError, match="need times"):
        export_edf(bare, {1: "rest"})
    for name in ("labels.txt", "labels.csv"):
        (tmp_path / name).write_text("nothing")
        with pytest.raises(FileError):
            import_labels(rec, tmp_path / name)


def test_labels_are_imported_where_there_are_none(opened, rec, tmp_path):
    work = opened(start=False)
    work.label(3, "rest", "a", "ann")
    path = tmp_path / "more.csv"
    path.write_bytes(export_csv(rec, {3: "run", 9: "walk"}))
    assert work.take(path, "ann") == 1
    assert work.names() == {3: "rest", 9: "walk"}
    assert work.project.label_of(9).source == "import"


# ------------------------------------------------------------------------------------- views


def test_context_is_the_signal_around_the_window(rec):
    views = WindowViews(rec)
    own = np.flatnonzero(rec.columns["recording"] == rec.columns["recording"][0])
    window = int(own[2])
    X, margin = views.context(window)
    assert margin == 32 and X.shape == (2, 128)
    np.testing.assert_allclose(X[:, 32:96], rec.X[window], rtol=1e-6)
    np.testing.assert_allclose(X[:, 96:], rec.X[own[4]][:, :32], rtol=1e-6)
    assert np.isnan(views.context(int(own[0]))[0][:, :32]).all()
    assert views.neighbours(window) == (own[1], own[3])
    assert views.neighbours(int(own[0]))[0] is None


def test_long_windows_are_thinned_to_extremes():
    X = np.zeros((1, 1, 40_000))
    X[0, 0, 12_345] = 5.0
    made = WindowViews(Recordings(X, fs=100, name="long")).signals(0)
    values = np.array(made["channels"][0]["values"])
    assert len(values) <= 2 * MAX_BINS + 2 and values.max() == 5.0 and values.min() == 0
    assert made["step"] * len(values) == pytest.approx(400, rel=0.01)


def test_the_spectrogram_shows_the_frequency(rec):
    t = np.arange(400) / 100
    X = np.sin(2 * np.pi * 20 * t)[None, None] + np.zeros((1, 2, 1))
    made = WindowViews(Recordings(X, fs=100)).spectrogram(0, 1)
    values = np.array(made["values"]).reshape(made["frames"], made["frequencies"])
    peak = (values.mean(axis=0).argmax() + 0.5) * made["high"] / made["frequencies"]
    assert abs(peak - 20) < 2 and values.max() == 255
    first = WindowViews(rec).spectrogram(0)
    assert min(first["values"]) == -1  # before the recording


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e30, np.nan])
def test_odd_signals_are_drawn(value):
    X = np.full((2, 1, 40), value)
    views = WindowViews(Recordings(X, fs=10, allow_nan=True))
    made = views.signals(0)["channels"][0]["values"]
    assert len(made) == 40 and (made[0] is None) == np.isnan(value)
    assert len(views.spectrogram(0)["values"]) > 0


# ------------------------------------------------------------------- rows of the classifier


def test_rows_that_are_kept_give_the_same_classifier(rec, kept):
    base = preparing.prepare(rec, kept, known=preparing.fingerprint(rec)).model
    rows = base.rows(rec)
    y = np.array([*rec.classes, ""])[np.where(np.arange(90) % 2, rec.y, -1)]
    model = base.refit(rec, y, rows=rows)
    coef = model.coef_.copy()
    np.testing.assert_allclose(model.refit(rec, y).coef_, coef, atol=1e-6)
    answers = model.predict_proba(rec)
    np.testing.assert_allclose(model.proba_of_rows(rows), answers, atol=1e-9)
    np.testing.assert_allclose(model.proba_of_rows(rows.astype(np.float32)), answers, atol=1e-4)
    known = y != ""
    held, judged = model.held_out(rows[known], y[known], rec.groups[known])
    right = model.classes_[held[judged].argmax(axis=1)] == y[known][judged]
    assert right.mean() == pytest.approx(model.validation_["accuracy"])
    assert judged.sum() == model.validation_["n_windows"]
    with pytest.raises(InvalidInputError, match="rows"):
        model.refit(rec, y, rows=rows[:, :3])
