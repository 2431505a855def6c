"""What happens between the page and the project: suggestions, guesses, the classifier that follows.

Labels go to the project file first. A thread then trains the classifier again on rows that were
computed before, so that its answers are those of the model file that :meth:`Labelling.finish`
writes. Then it looks for the windows to label next.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.classify import ContrastiveClassifier
from tensorcontrast.classify.block_rows import unit_rows
from tensorcontrast.classify.linear import fit_logistic
from tensorcontrast.classify.suggest import (
    MIN_LABELS_FOR_MARGIN,
    AccuracyEstimate,
    estimate_from_answers,
    order_rows,
    reduced_rows,
    represented_windows,
)
from tensorcontrast.cp import kmeans
from tensorcontrast.errors import FileError, InvalidInputError, TensorContrastError
from tensorcontrast.labelling.finish import HeldOut, write_results
from tensorcontrast.labelling.prepare import Prepared
from tensorcontrast.labelling.project import Project
from tensorcontrast.labelling.tables import import_labels
from tensorcontrast.labelling.views import MAX_BINS, WindowViews
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils.estimators import with_learned

__all__ = ["Labelling"]

Array = NDArray[Any]

#: Windows that are suggested at a time.
N_SUGGESTIONS = 12
#: Windows among which suggestions are looked for, at most, and labelled ones among these.
MAX_WINDOWS_FOR_SUGGESTIONS, MAX_LABELS_FOR_SUGGESTIONS = 5_000, 300
#: The page says how many answers the last so many labels have changed.
N_LAST_LABELS = 10
#: Labels that train the classifier, at most; those of single windows come before clusters.
MAX_LABELS_FOR_CLASSIFIER = 3_000
#: Labels above which the penalty of before is used first, so that answers come within a second.
MAX_LABELS_FOR_ONE_STEP = 300
#: Windows whose answers are computed at a time.
BLOCK_WINDOWS = 16_384
#: Windows of a cluster that are shown before all of it can be labelled.
N_SHOWN = 6
#: Seconds after which a page that has not asked for anything counts as closed.
PAGE_TIMEOUT = 30.0
#: Points of a signal in a small picture.
SMALL_BINS = 110
#: Rows of the table of labels per page.
PAGE_ROWS = 50


class Labelling:
    """One project at work.

    Parameters
    ----------
    rec : Recordings
        All windows.
    project : Project
    prepared : Prepared
    who : str
        Who labels, where a page does not say.
    force : bool
        Overwrite a model file that this project has not written.
    command : str
        That opens the project again.
    on_model : callable, optional
        Gets the classifier before it is written, and returns it as it is.
    """

    def __init__(
        self,
        rec: Recordings,
        project: Project,
        prepared: Prepared,
        *,
        who: str = "",
        force: bool = False,
        command: str = "",
        on_model: Callable[[ContrastiveClassifier], ContrastiveClassifier] | None = None,
    ) -> None:
        self.rec, self.project, self.prepared = rec, project, prepared
        self.who, self.force, self.command, self.on_model = who, force, command, on_model
        self.views = WindowViews(rec)
        n = len(rec)
        self._bare = rec._with(y=None, classes=None, columns={})
        self._codes = np.full(n, -1, dtype=np.int16)
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._stopping = False
        self._wanted, self._done = 1, 0
        self._doing = ""
        self._problem = ""
        self._seconds = 0.0
        self._changed: float | None = None
        self._model: ContrastiveClassifier | None = None
        self._guess = np.full(n, -1, dtype=np.int16)
        self._sure = np.zeros(n, dtype=np.float32)
        self._answers = np.zeros((n, 0), dtype=np.float32)
        self._trained = 0
        self._earlier: list[tuple[int, Array]] = []
        self._held: dict[int, tuple[str, float]] = {}
        self._confusion: dict[str, Any] | None = None
        self._finish: dict[str, Any] = {"state": "none"}
        self._pages: dict[str, float] = {}
        self._open: dict[str, int] = {}
        self._shown: dict[tuple[str, int], list[int]] = {}
        self._queue: deque[int] = deque(self._typical())
        self._rng = np.random.default_rng(0)
        if prepared.answers:
            for name in prepared.model.classes_.tolist():
                if str(name) not in project.classes:
                    project.add_class(str(name), who="model")
            self._publish(prepared.model)
        self._sync()
        self._thread = threading.Thread(target=self._work, name="labelling", daemon=True)

    def _typical(self) -> list[int]:
        """Return the window nearest to the centre of each cluster, the largest cluster first."""
        W, cluster = np.asarray(self.prepared.features), self.prepared.cluster
        space = unit_rows(kmeans.cluster_space(W))
        k = int(cluster.max()) + 1
        sums = kmeans.class_sums(cluster.astype(np.intp), space, k)
        centers = sums / np.maximum(np.bincount(cluster, minlength=k), 1)[:, None]
        self._away = np.square(space - centers[cluster]).sum(axis=1)
        order = np.lexsort((self._away, cluster))
        first = np.unique(cluster[order], return_index=True)[1]
        return [int(w) for w in order[first]]

    # ---------------------------------------------------------------------- life of the thread

    def start(self) -> None:
        """Begin to follow the labels."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; labels are on disk."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def wait(self, seconds: float = 30.0) -> bool:
        """Wait until the classifier has seen all labels; returns whether it has."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self._lock:
                if self._done >= self._wanted:
                    return True
            time.sleep(0.01)
        return False

    def _ask(self) -> None:
        with self._wake:
            self._wanted += 1
            self._wake.notify_all()

    def _work(self) -> None:
        while True:
            with self._wake:
                while self._done >= self._wanted and not self._stopping:
                    self._wake.wait()
                if self._stopping:
                    return
                wanted = self._wanted
            try:
                self._follow()
                problem = ""
            except Exception as error:  # the page says so, and labels go on
                problem = str(error) if isinstance(error, TensorContrastError) else repr(error)
            with self._lock:
                self._problem, self._doing, self._done = problem, "", wanted

    def _sync(self) -> None:
        """Take over what is new in the project, from here or from another program."""
        with self._lock:
            self.project.refresh()
            touched = self.project.touched()
            place = {name: k for k, name in enumerate(self.project.classes)}
            for window in touched:
                label = self.project.label_of(window)
                code = -1 if label is None or label.label is None else place[label.label]
                self._codes[window] = code
        if touched:
            self._ask()

    # ------------------------------------------------------------------------- the classifier

    def _training(self) -> tuple[Array, list[str], int]:
        """Labels that train the classifier, by name and "" for the others; classes; their number.

        Of more labels than :data:`MAX_LABELS_FOR_CLASSIFIER`, single windows come first, and as
        many of each class as its share allows.
        """
        with self._lock:
            codes = self._codes.copy()
            names = self.project.classes
            labels = self.project.labels() if (codes >= 0).sum() > MAX_LABELS_FOR_CLASSIFIER else {}
        known = np.flatnonzero(codes >= 0)
        if labels:
            many = np.array([labels[w].source == "cluster" for w in known.tolist()])
            rank = np.random.default_rng(0).permutation(len(known))
            order = np.lexsort((rank, many))
            share = MAX_LABELS_FOR_CLASSIFIER / len(known)
            chosen = []
            for code in np.unique(codes[known]):
                own = known[order][codes[known[order]] == code]
                chosen.append(own[: max(20, int(share * len(own)))])
            known = np.concatenate(chosen)
        used = np.full(len(codes), -1, dtype=np.int64)
        used[known] = codes[known]
        y = np.array([*names, ""])[used]
        return y, [names[c] for c in np.unique(codes[known])], len(known)

    def _follow(self) -> None:
        """Train again, publish the answers, look for the next windows, estimate the accuracy."""
        y, classes, n_labels = self._training()
        begin = time.perf_counter()
        if len(classes) > 1:
            self._say("training the classifier")
            if n_labels > MAX_LABELS_FOR_ONE_STEP and self._model is not None:
                self._publish(self._quick(y, classes))
            model = copy(self.prepared.model)
            model.set_params(smooth=None)
            model.refit(self._bare, y, groups=self.rec.groups, rows=self.prepared.rows)
            self._publish(model)
            with self._lock:
                self._trained = n_labels
                self._compare(n_labels)
                self._seconds = time.perf_counter() - begin
            self._say("comparing labels with answers")
            found = self._judge(model, y)
            if found.accuracy is not None:
                self.project.add_estimate(n_labels, found.accuracy, found.low, found.high)
        elif self._model is not None and not self.prepared.answers:
            with self._lock:  # labels were taken away
                self._model, self._trained, self._held, self._confusion = None, 0, {}, None
                self._earlier, self._changed = [], None
                self._guess[:] = -1
                self._sure[:] = 0
        self._say("looking for windows to label")
        self._suggest(y)

    def _judge(self, model: ContrastiveClassifier, y: Array) -> AccuracyEstimate:
        """Keep what models that have not seen a label answer for its window.

        Returns the accuracy to expect.
        """
        known = np.flatnonzero(y != "")
        groups = None if self.rec.groups is None else self.rec.groups[known]
        answers, judged = model.held_out(self.prepared.rows[known], y[known], groups)
        best = answers.argmax(axis=1)
        names = [str(name) for name in model.classes_.tolist()]
        counts = np.zeros((len(names), len(names)), dtype=int)
        codes = np.searchsorted(model.classes_, y[known])
        np.add.at(counts, (codes[judged], best[judged]), 1)
        held = {
            int(known[i]): (names[best[i]], float(answers[i, best[i]]))
            for i in np.flatnonzero(judged)
        }
        by = model.validation_["by"]
        with self._lock:
            self._held = held
            self._confusion = {"classes": names, "counts": counts.tolist(), "by": by}
        weight = represented_windows(self.prepared.rows, known)
        return estimate_from_answers((best == codes)[judged], weight[judged])

    def _quick(self, y: Array, classes: list[str]) -> ContrastiveClassifier:
        """Train with the penalty and the temperature of before."""
        before = self._model
        assert before is not None
        known = np.flatnonzero(y != "")
        names, codes = np.unique(y[known], return_inverse=True)
        rows = np.asarray(self.prepared.rows[known], dtype=np.float64)
        length = before.row_length_
        coef, intercept = fit_logistic(rows, codes, len(names), length)
        return with_learned(before, classes_=names, coef_=coef, intercept_=intercept)

    def _publish(self, model: ContrastiveClassifier) -> None:
        """Show the answers of a model for all windows."""
        place = {name: k for k, name in enumerate(self.project.classes)}
        columns = np.array([place[str(name)] for name in model.classes_.tolist()])
        n = len(self.rec)
        guess, sure = np.empty(n, dtype=np.int16), np.empty(n, dtype=np.float32)
        answers = np.empty((n, len(columns)), dtype=np.float32)
        for begin in range(0, n, BLOCK_WINDOWS):
            at = slice(begin, begin + BLOCK_WINDOWS)
            answers[at] = model.proba_of_rows(self.prepared.rows[at])
        best = answers.argmax(axis=1)
        guess[:], sure[:] = columns[best], answers.max(axis=1)
        with self._lock:
            self._model, self._guess, self._sure, self._answers = model, guess, sure, answers

    def _compare(self, n_labels: int) -> None:
        """Find how many answers differ from those of ten labels ago, where these are kept."""
        before = [(n, guess) for n, guess in self._earlier if n < n_labels]
        old = [guess for n, guess in before if n <= n_labels - N_LAST_LABELS]
        self._changed = float(np.mean(old[-1] != self._guess)) if old else None
        self._earlier = [*before[-2 * N_LAST_LABELS :], (n_labels, self._guess)]

    def _suggest(self, y: Array) -> None:
        with self._lock:
            free = (self._codes < 0) & (y == "")
            free[list(self.project.skipped())] = False
            sure = self._trained >= MIN_LABELS_FOR_MARGIN or not self._trained
            answers = self._answers if self._model is not None and sure else None
        left = np.flatnonzero(free)
        if not len(left):
            return
        known = np.flatnonzero(y != "")
        if len(known) > MAX_LABELS_FOR_SUGGESTIONS:
            known = self._rng.choice(known, MAX_LABELS_FOR_SUGGESTIONS, replace=False)
        if len(left) > MAX_WINDOWS_FOR_SUGGESTIONS:
            left = self._rng.choice(left, MAX_WINDOWS_FOR_SUGGESTIONS, replace=False)
        some = np.sort(np.concatenate([known, left]))
        groups = self.rec.groups if self.rec.groups is not None else self.views.recording
        found = order_rows(
            reduced_rows(np.asarray(self.prepared.rows[some])),
            y[some],
            N_SUGGESTIONS,
            groups[some],
            probability=None if answers is None else answers[some],
            random_state=0,
        )
        with self._lock:
            self._queue = deque(int(w) for w in some[found])

    def _say(self, text: str) -> None:
        with self._lock:
            self._doing = text

    # ----------------------------------------------------------------------- what pages ask for

    def seen(self, client: str) -> None:
        """Note that a page is there."""
        with self._lock:
            now = time.monotonic()
            self._pages[client] = now
            for name in [c for c, at in self._pages.items() if now - at > PAGE_TIMEOUT]:
                del self._pages[name]
                self._open.pop(name, None)

    def next_window(self, client: str) -> int | None:
        """Return the window that a page shows next; None where all have a label.

        Two pages never get the same one.
        """
        with self._lock:
            self.seen(client)
            self._open.pop(client, None)
            skipped = self.project.skipped()
            taken = set(self._open.values())
            for window in [w for w in self._queue if self._codes[w] >= 0 or w in skipped]:
                self._queue.remove(window)
            chosen = next((w for w in self._queue if w not in taken), None)
            if chosen is None:
                free = self._codes < 0
                free[list(skipped | taken)] = False
                left = np.flatnonzero(free)
                if not len(left):  # those that were skipped once more
                    again = [w for w in skipped if w not in taken]
                    left = np.array(sorted(again), dtype=np.intp)
                if not len(left):
                    return None
                chosen = int(left[self._sure[left].argmin()])
            self._open[client] = chosen
            return chosen

    def window(self, window: int, *, small: bool = False) -> dict[str, Any]:
        """Return signals, guess and label of a window."""
        window = self._checked(window)
        before, after = self.views.neighbours(window)
        return {
            **self.views.about(window),
            **self.views.signals(window, bins=SMALL_BINS if small else MAX_BINS, context=not small),
            "before": before,
            "after": after,
            "place": [round(float(v), 5) for v in self.prepared.place[window]],
            "cluster": int(self.prepared.cluster[window]),
            **self._view(window),
        }

    def _view(self, window: int) -> dict[str, Any]:
        """Label and guess of a window."""
        with self._lock:
            label = self.project.label_of(window)
            model = self._model
            out: dict[str, Any] = {"label": None if label is None else label.label, "guess": []}
            if label is not None:
                out |= {"who": label.who, "at": label.at, "source": label.source}
            if model is not None:
                pairs = zip(model.classes_.tolist(), self._answers[window].tolist(), strict=True)
                best = sorted(pairs, key=lambda pair: -pair[1])
                out["guess"] = [{"name": str(n), "probability": round(p, 4)} for n, p in best]
            if label is not None and window in self._held:
                name, share = self._held[window]
                out["held_out"] = {"name": name, "probability": round(share, 4)}
            return out

    def _checked(self, window: Any) -> int:
        if not isinstance(window, int) or not 0 <= window < len(self.rec):
            raise InvalidInputError(f"there is no window {window!r} among {len(self.rec)}")
        return window

    def spectrogram(self, window: int, channel: int | None) -> dict[str, Any]:
        """Return the spectrogram of a window."""
        if channel is not None and not 0 <= channel < self.rec.n_channels:
            raise InvalidInputError(f"there is no channel {channel}")
        return self.views.spectrogram(self._checked(window), channel)

    def places(self) -> bytes:
        """Return the map: x and y of each window, float32."""
        return np.ascontiguousarray(self.prepared.place, dtype="<f4").tobytes()

    def colours(self) -> bytes:
        """Return label + 1, guess + 1 and 255 × probability of each window, one byte each."""
        with self._lock:
            parts: list[Array] = [self._codes + 1, self._guess + 1, np.round(255 * self._sure)]
            return b"".join(part.astype(np.uint8).tobytes() for part in parts)

    def state(self) -> dict[str, Any]:
        """Return everything that a page shows besides windows."""
        self._sync()
        with self._lock:
            names = self.project.classes
            counts = np.bincount(self._codes[self._codes >= 0], minlength=len(names)).tolist()
            curve = [point for point in self.project.estimates() if point[0] <= self._trained]
            return {
                "version": self.project.version,
                "labels": int((self._codes >= 0).sum()),
                "skipped": len(self.project.skipped()),
                "classes": [{"name": n, "count": c} for n, c in zip(names, counts, strict=True)],
                "model": {
                    "version": self._done,
                    "wanted": self._wanted,
                    "doing": self._doing,
                    "labels": self._trained,
                    "seconds": round(self._seconds, 3),
                    "problem": self._problem,
                    "changed": self._changed,
                    "ready": self._model is not None,
                },
                "curve": [[n, *(round(v, 4) for v in rest)] for n, *rest in curve],
                "confusion": self._confusion,
                "disagreements": len(self._disagreements()),
                "finish": dict(self._finish),
                "pages": len(self._pages),
            }

    def _disagreements(self) -> list[int]:
        """Labelled windows for which models that have not seen the label say something else.

        The surest answer comes first.
        """
        names = self.project.classes
        found = [
            (-share, window)
            for window, (name, share) in self._held.items()
            if self._codes[window] >= 0 and names[self._codes[window]] != name
        ]
        return [window for _, window in sorted(found)]

    def about(self) -> dict[str, Any]:
        """Return what does not change while the page is open."""
        return {
            "project": self.project.path.name,
            "folder": str(self.project.path.resolve().parent),
            "data": self.rec.name or "recordings",
            "windows": len(self.rec),
            "channels": list(self.views.names),
            "units": list(self.views.units),
            "fs": self.rec.fs,
            "clusters": int(self.prepared.cluster.max()) + 1,
            "who": self.who,
            "command": self.command,
            "timed": bool(self.views.timed and self.rec.fs),
        }

    # ------------------------------------------------------------------------------- clusters

    def clusters(self) -> list[dict[str, Any]]:
        """Return size, labels and guesses of each cluster, those with most left to label first."""
        cluster = self.prepared.cluster
        with self._lock:
            names = self.project.classes
            k = int(cluster.max()) + 1
            size = np.bincount(cluster, minlength=k)
            known = self._codes >= 0
            done = np.bincount(cluster[known], minlength=k)
            out = []
            for c in range(k):
                own = cluster == c
                guess = self._guess[own & ~known]
                guess = guess[guess >= 0]
                common = np.bincount(guess) if len(guess) else np.zeros(0, dtype=int)
                given = self._codes[own & known]
                row: dict[str, Any] = {
                    "cluster": c,
                    "windows": int(size[c]),
                    "labelled": int(done[c]),
                }
                if len(common):
                    best = int(common.argmax())
                    row |= {
                        "guess": names[best],
                        "share": round(float(common[best] / len(guess)), 3),
                    }
                if len(given):
                    row["labels"] = [names[v] for v in np.unique(given)]
                out.append(row)
        return sorted(out, key=lambda row: row["labelled"] - row["windows"])

    def cluster(self, cluster: int, client: str) -> dict[str, Any]:
        """Return six windows of a cluster, from its centre to its edge."""
        own = np.flatnonzero(self.prepared.cluster == cluster)
        if not len(own):
            raise InvalidInputError(f"there is no cluster {cluster}")
        with self._lock:
            left = own[self._codes[own] < 0]
            some = left if len(left) else own
            some = some[np.argsort(self._away[some], kind="stable")]
            at = np.unique(np.linspace(0, len(some) - 1, N_SHOWN).astype(int))
            shown = [int(w) for w in some[at]]
            self._shown[client, int(cluster)] = shown
        return {
            "cluster": int(cluster),
            "windows": len(own),
            "left": len(left),
            "shown": [self.window(w, small=True) for w in shown],
        }

    def label_cluster(
        self, cluster: int, label: str, client: str, who: str, seconds: float | None
    ) -> dict[str, Any]:
        """Label all windows of a cluster that have no label, after six of them were shown."""
        shown = self._shown.get((client, cluster))
        if shown is None:
            raise InvalidInputError(f"look at {N_SHOWN} windows of the cluster first")
        with self._lock:
            own = np.flatnonzero(self.prepared.cluster == cluster)
            left = own[self._codes[own] < 0].tolist()
        if not left:
            raise InvalidInputError("every window of this cluster has a label")
        self.project.label(
            left,
            label,
            who=who,
            client=client,
            seconds=seconds,
            source="cluster",
            only_unlabelled=True,
        )
        self._sync()
        return {"saved": len(left)}

    # --------------------------------------------------------------------------------- labels

    def label(
        self,
        window: int,
        label: str | None,
        client: str,
        who: str,
        *,
        seconds: float | None = None,
        expected: str | None = None,
        source: str = "window",
    ) -> None:
        """Label a window, on disk when this returns."""
        if label is not None and label not in self.project.classes:
            raise InvalidInputError(f"there is no class {label!r}; add it first")
        self.project.label(
            [self._checked(window)],
            label,
            who=who,
            client=client,
            seconds=seconds,
            source=source,
            expected=expected,
        )
        self._sync()

    def skip(self, window: int, client: str, who: str, seconds: float | None) -> None:
        """Leave a window without a label."""
        self.project.skip(self._checked(window), who=who, client=client, seconds=seconds)
        self._sync()

    def undo(self, client: str, who: str) -> list[int] | None:
        """Undo what a page did last; returns the windows."""
        with self._lock:
            others = [c for c in self._pages if c != client]
        windows = self.project.undo(who=who, client=client, others=others)
        self._sync()
        return windows

    def add_class(self, name: str, client: str, who: str) -> str:
        """Add a class."""
        added = self.project.add_class(name, who=who, client=client)
        self._sync()
        return added

    def take(self, path: Path, who: str, client: str = "") -> int:
        """Import the labels of a file, where windows have none yet; returns how many."""
        found = import_labels(self.rec, path)
        with self._lock:
            new = {w: label for w, label in found.items() if self._codes[w] < 0}
        if new:
            self.project.label(
                list(new),
                list(new.values()),
                who=who,
                client=client,
                source="import",
                only_unlabelled=True,
            )
        self._sync()
        return len(new)

    def names(self) -> dict[int, str]:
        """Return the label of each labelled window."""
        return {w: str(label.label) for w, label in self.project.labels().items()}

    def review(self, page: int = 0, only: str = "") -> dict[str, Any]:
        """Return a page of the table of labels: disagreements first, then the newest."""
        self._sync()
        labels = self.project.labels()
        with self._lock:
            first = self._disagreements()
        head = set(first)
        rest = [w for w in labels if w not in head]
        rest.sort(key=lambda w: -labels[w].batch)
        order = [w for w in [*first, *rest] if w in labels and only in ("", labels[w].label)]
        page = max(0, min(page, (len(order) - 1) // PAGE_ROWS))
        part = order[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]
        rows = []
        for w in part:
            row = {**self.views.about(w), **self._view(w), "disagrees": w in head}
            row["guess"] = [row.pop("held_out")] if "held_out" in row else []
            row["seconds"] = labels[w].seconds
            rows.append(row)
        return {
            "rows": rows,
            "page": page,
            "pages": max(1, -(-len(order) // PAGE_ROWS)),
            "total": len(order),
            "disagreements": len(first),
        }

    # --------------------------------------------------------------------------------- finish

    @property
    def target(self) -> Path:
        """The model file."""
        return self.project.path.with_suffix(".tcm")

    def finish(self) -> None:
        """Begin to write the model file and the report; :meth:`state` says how it goes."""
        with self._lock:
            if self._finish["state"] == "running":
                return
            self._finish = {"state": "running", "text": "training the classifier"}
        threading.Thread(target=self._write, name="finish", daemon=True).start()

    def _write(self) -> None:
        try:
            files = self.write()
            done: dict[str, Any] = {"state": "done", "files": [str(f) for f in files]}
            done["command"] = f"tensorcontrast predict {files[0].name} DATA -o answers.csv"
        except Exception as error:
            text = str(error) if isinstance(error, TensorContrastError) else repr(error)
            done = {"state": "failed", "text": text}
        with self._lock:
            self._finish = done

    def write(self) -> list[Path]:
        """Write the model file, the report and the table of labels; returns the files."""
        self._sync()
        y, classes, _ = self._training()
        if len(classes) < 2:
            raise InvalidInputError(
                "a classifier needs labels of at least two classes; label windows of another class"
            )
        target = self.target
        mine = self.project.about().get("written", [])
        if target.exists() and not self.force and target.name not in mine:
            raise FileError(
                f"{target} exists and was not written by this project; move it away, or start "
                "again with --force"
            )
        model = copy(self.prepared.model)
        rec = self.rec._with(y=None, classes=None)
        model.refit(rec, y, groups=self.rec.groups, rows=self.prepared.rows)
        if self.on_model is not None:
            model = self.on_model(model)
        self.project.remember("written", sorted({*mine, target.name}))
        known = np.flatnonzero(y != "")
        groups = None if self.rec.groups is None else self.rec.groups[known]
        answers, judged = model.held_out(self.prepared.rows[known], y[known], groups)
        held = HeldOut(
            y[known][judged], answers[judged], groups if groups is None else groups[judged]
        )
        return write_results(
            self.rec, self.project, model, self.names(), target, held=held, command=self.command
        )
