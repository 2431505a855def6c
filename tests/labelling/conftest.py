"""A small project, a server that runs, and a browser."""

import http.client
import json
import shutil
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveFeatures, Recordings
from tensorcontrast.labelling import Labelling, Project
from tensorcontrast.labelling.prepare import Settings, cache_folder, fingerprint, prepare

SETTINGS = Settings(max_landmarks=60, max_clusters=6)


def quick(rank=3):
    """Features whose fit takes a moment."""
    return ContrastiveFeatures(decompose=PLC(rank), random_state=0)


@pytest.fixture(scope="session")
def rec():
    """90 windows of three classes in six recordings, which overlap by half."""
    rng = np.random.default_rng(0)
    y, groups = np.arange(90) % 3, np.arange(90) // 15
    frequency = np.array([2.0, 5.0, 10.0])[y, None, None] * rng.uniform(0.9, 1.1, (90, 1, 1))
    time = np.arange(64) / 32 + rng.uniform(size=(90, 2, 1))
    X = np.sin(2 * np.pi * frequency * time) + rng.normal(scale=0.4, size=(90, 2, 64))
    names = np.array([f"day {g}.csv" for g in groups])
    start = 32 * (np.arange(90) % 15)
    return Recordings(
        X,
        y,
        groups=groups,
        fs=32,
        channels=["left", "right"],
        classes=["rest", "walk", "run"],
        units="mV",
        columns={"recording": names, "start": start},
        name="days",
    )


@pytest.fixture(scope="session")
def kept(rec, tmp_path_factory):
    """Folder with the features of the small project."""
    folder = tmp_path_factory.mktemp("features") / "days.tcl.cache"
    prepare(rec, folder, known=fingerprint(rec), features=quick(), settings=SETTINGS)
    return folder


@pytest.fixture
def opened(rec, kept, tmp_path):
    """Call to open the project of the test, several times if need be."""
    path = tmp_path / "days.tcl"
    shutil.copytree(kept, cache_folder(path))
    open_ones = []

    def call(start=True, recordings=rec, **options):
        known = fingerprint(recordings)
        project = Project(path, {"fingerprint": known, "n_windows": len(recordings)})
        prepared = prepare(recordings, cache_folder(path), known=known)
        work = Labelling(recordings, project, prepared, who="ann", command="again", **options)
        if not project.classes:
            for name in recordings.classes:
                project.add_class(name)
        if start:
            work.start()
        open_ones.append(work)
        return work

    yield call
    for work in open_ones:
        work.stop()
        work.project.close()


@pytest.fixture(scope="session")
def hostile(rec, kept):
    """The same windows with names that try to be markup, code and paths."""
    names = ["<img src=x onerror=alert(1)>", "'); DROP TABLE events; --"]
    classes = ["<script>alert(1)</script>", "=1+1", "../../etc/passwd"]
    day = np.array([f'<b onclick="alert(2)">{n}</b>' for n in rec.columns["recording"]])
    return rec._with(
        channels=tuple(names),
        classes=tuple(classes),
        units=("<i>V</i>", "${x}"),
        columns={**rec.columns, "recording": day},
        name="</title><script>alert(3)</script>",
    )


@contextmanager
def served(work, **options):
    """Run the server of a project in a thread."""
    from tensorcontrast.labelling.server import PageServer

    server = PageServer(work, **options)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def serve():
    return served


class Client:
    """Requests without a browser."""

    def __init__(self, server, name="page-1"):
        self.server, self.name = server, name

    def ask(self, path, body=None, *, token=None, headers=None, method=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        sent = dict(headers or {})
        content = None
        if body is not None:
            content = json.dumps({"client": self.name, **body}) if isinstance(body, dict) else body
            sent.setdefault("Content-Type", "application/json")
        where = f"/{self.server.token if token is None else token}/{path}"
        connection.request(
            method or ("GET" if body is None else "POST"), where, body=content, headers=sent
        )
        answer = connection.getresponse()
        raw = answer.read()
        connection.close()
        kind = answer.headers.get("content-type", "")
        return answer, json.loads(raw) if kind.startswith("application/json") else raw


@pytest.fixture
def client():
    return Client


@pytest.fixture
def large(rec, kept, tmp_path):
    """100,000 windows: those of the small project again and again, with a little noise."""
    base = prepare(rec, kept, known=fingerprint(rec))
    n = 100_000
    at = np.arange(n) % len(rec)
    rng = np.random.default_rng(0)

    def noisy(values, scale):
        values = np.asarray(values, dtype=np.float32)[at]
        return values + scale * rng.standard_normal(values.shape, dtype=np.float32)

    many = rec._with(
        X=rec.X[at],
        y=rec.y[at],
        groups=rec.groups[at],
        columns={"recording": (np.arange(n) // 500).astype(str), "start": np.arange(n) % 500 * 64},
    )
    prepared = replace(
        base,
        features=noisy(base.features, 0.02),
        rows=noisy(base.rows, 0.02),
        place=np.clip(noisy(base.place, 0.01), 0, 1),
        cluster=base.cluster[at],
    )
    project = Project(tmp_path / "large.tcl", {"fingerprint": "large", "n_windows": n})
    for name in rec.classes:
        project.add_class(name)
    work = Labelling(many, project, prepared, who="ann")
    work.start()
    yield work
    work.stop()
    project.close()
