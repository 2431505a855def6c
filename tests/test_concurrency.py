"""Several threads and processes at once, caches that cannot be written to, no home folder."""

import hashlib
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import ATD, CPD, PLC, Algorithm1, ContrastiveFeatures, Recordings, load_model
from tensorcontrast.datasets import download, load_har, make_cp_tensor, registry
from tensorcontrast.datasets.download import fetch
from tensorcontrast.errors import DataNotFoundError, FileError
from tensorcontrast.io.atomic import atomic_write, one_at_a_time

X = make_cp_tensor(n_samples=50, dims=(4, 5, 6), rank=3, noise=0.1, random_state=0)[0]
SIGNALS = np.random.default_rng(0).standard_normal((24, 3, 64)).astype(np.float32)
SHORT = {"max_iter": 6, "tol": 0, "random_state": 0}
MODELS = [
    CPD(rank=3, **SHORT),
    ATD(rank=3, **SHORT),
    PLC(rank=3, **SHORT),
    Algorithm1(rank=3, **SHORT),
]
POSIX = pytest.mark.skipif(os.name != "posix", reason="processes and users as on POSIX systems")


@pytest.fixture(autouse=True)
def quiet():
    """Fits that are cut short say so; that is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def threads(function, items, workers=4):
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))


# ------------------------------------------------------------------------------- fitting


def tensor_features(seed):
    return clone(MODELS[seed % 4]).set_params(random_state=seed).fit(X).transform(X)


def signal_features(seed):
    model = ContrastiveFeatures(fs=16.0, decompose=PLC(rank=2, **SHORT), random_state=seed)
    return model.fit_transform(SIGNALS)


@pytest.mark.parametrize(("make", "count"), [(tensor_features, 8), (signal_features, 4)])
def test_fits_in_threads_give_what_they_give_alone(make, count):
    alone = [make(seed) for seed in range(count)]
    filters = list(warnings.filters)
    for one, other in zip(alone, threads(make, range(count)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert list(warnings.filters) == filters


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_one_estimator_shared_by_threads(model):
    """Fitted twice at once and used meanwhile, it is what it is when fitted alone."""
    shared = clone(model).fit(X)
    expected = shared.transform(X)
    blocks = [X[k : k + 10] for k in range(0, 50, 10)]

    def work(k):
        return shared.fit(X).transform(X) if k % 3 == 0 else shared.transform(X)

    for found in threads(work, range(9)):
        np.testing.assert_array_equal(found, expected)
    parts = np.concatenate(threads(shared.transform, blocks))
    np.testing.assert_allclose(parts, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(shared.inverse_transform(expected).shape, X.shape)


def test_fits_in_processes_give_what_they_give_alone():
    alone = [clone(model).fit_transform(X) for model in MODELS]
    parallel = joblib.Parallel(n_jobs=2)
    together = parallel(joblib.delayed(clone(model).fit_transform)(X) for model in MODELS)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


# --------------------------------------------------------------------------------- files


def test_many_writers_and_readers_of_one_file(tmp_path):
    """Whoever reads meanwhile gets one of the whole files, never a mixture."""
    path = tmp_path / "r.npz"
    recordings = [Recordings(np.full((3, 2, 50), float(k))) for k in range(4)]
    recordings[0].save(path)
    model = tmp_path / "m.tcm"
    fitted = [clone(MODELS[0]).set_params(rank=k).fit(X) for k in (2, 3)]
    fitted[0].save(model)

    def work(k):
        if k % 2:
            recordings[k % 4].save(path)
            fitted[k % 4 // 2].save(model)
            return -1.0, 2
        values = Recordings.load(path).X
        assert (values == values[0, 0, 0]).all()
        return float(values[0, 0, 0]), load_model(model).rank_

    found = threads(work, range(60))
    assert {value for value, _ in found} <= {-1.0, 0.0, 1.0, 2.0, 3.0}
    assert {rank for _, rank in found} <= {2, 3}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.tcm", "r.npz"]


@POSIX
def test_writing_in_threads_does_not_touch_the_umask(tmp_path):
    before = os.umask(0o027)
    try:

        def work(k):
            with atomic_write(tmp_path / f"{k}") as stream:
                stream.write(b"x")

        threads(work, range(200), workers=8)
        assert os.umask(0o027) == 0o027
        assert {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {0o640}
    finally:
        os.umask(before)


def test_one_at_a_time_among_threads(tmp_path):
    inside, most = [], []

    def work(k):
        with one_at_a_time(tmp_path / "data", poll=0.001) as alone:
            inside.append(k)
            most.append(len(inside))
            time.sleep(0.001)
            inside.remove(k)
            return alone

    assert all(threads(work, range(60), workers=8))
    assert set(most) == {1}
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys, time
from pathlib import Path
from tensorcontrast.io.atomic import one_at_a_time
with one_at_a_time(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@POSIX
def test_a_lock_is_let_go_when_its_holder_is_killed(tmp_path):
    target = tmp_path / "data"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        entered = threading.Event()

        def wait():
            with one_at_a_time(target, poll=0.01):
                entered.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        assert not entered.wait(0.2)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    waiter.join(30)
    assert entered.is_set()
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------------------- downloads

CONTENT = np.random.default_rng(1).bytes(400_000)
SHA = hashlib.sha256(CONTENT).hexdigest()


class Slow(http.server.BaseHTTPRequestHandler):
    """Sends in pieces, so that those who come together overlap."""

    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        self.send_response(206 if asked else 200)
        if asked:
            end = f"{len(CONTENT) - 1}/{len(CONTENT)}"
            self.send_header("Content-Range", f"bytes {start}-{end}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        try:
            for at in range(start, len(CONTENT), 20_000):
                self.wfile.write(CONTENT[at : at + 20_000])
                time.sleep(self.server.pause)
        except OSError:  # the other side was killed
            self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def slow_server():
    pytest.importorskip("pooch", reason="needs tensorcontrast[data]")
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    httpd.asked, httpd.pause = [], 0.01
    httpd.url = f"http://127.0.0.1:{httpd.server_address[1]}/data.bin"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


FETCH = """
import sys
from pathlib import Path
from tensorcontrast.datasets.download import fetch
print("ready", flush=True)
sys.stdin.readline()
fetch(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
"""


def fetching(server, target, **options):
    """A process that waits for a line and then downloads."""
    process = subprocess.Popen(
        [sys.executable, "-c", FETCH, server.url, str(target), SHA],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_download_one_file_at_once(slow_server, tmp_path):
    target = tmp_path / "cache" / "data.bin"
    both = [fetching(slow_server, target) for _ in range(2)]
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert target.read_bytes() == CONTENT
    assert slow_server.asked == [None]  # the second found it there
    assert [p.name for p in target.parent.iterdir()] == ["data.bin"]


def test_threads_download_one_file_and_others_at_once(slow_server, tmp_path):
    import pooch

    level = pooch.get_logger().level
    names = ["a", "b", "a", "b", "a", "c"]
    threads(lambda n: fetch(slow_server.url, tmp_path / n, SHA), names, 6)
    assert all((tmp_path / name).read_bytes() == CONTENT for name in "abc")
    assert slow_server.asked == [None] * 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]
    assert pooch.get_logger().level == level


@POSIX
def test_a_killed_download_leaves_no_file_and_the_next_is_whole(slow_server, tmp_path):
    target = tmp_path / "data.bin"
    slow_server.pause = 0.05
    first = fetching(slow_server, target)
    first.stdin.write("go\n")
    first.stdin.flush()
    ends = time.monotonic() + 30
    while not slow_server.asked and time.monotonic() < ends:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert not target.exists()
    slow_server.pause = 0.0
    assert fetch(slow_server.url, target, SHA).read_bytes() == CONTENT


# ------------------------------------------------------------------ folders that are not there


def test_a_cache_folder_that_cannot_be_made_names_the_way_out(slow_server, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileError, match=r"data_home= or the environment variable TENSORCONTRAST"):
        fetch(slow_server.url, tmp_path / "file" / "cache" / "data.bin", SHA)
    assert slow_server.asked == []


def test_a_missing_cache_folder_is_made(slow_server, tmp_path):
    target = tmp_path / "a" / "b" / "data.bin"
    assert fetch(slow_server.url, target, SHA).read_bytes() == CONTENT


def test_what_is_in_a_cache_needs_nothing_written(slow_server, tmp_path, monkeypatch):
    def no(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    (tmp_path / "data.bin").write_bytes(CONTENT)
    monkeypatch.setattr(download, "one_at_a_time", no)
    monkeypatch.setattr(Path, "mkdir", no)
    assert fetch(slow_server.url, tmp_path / "data.bin", SHA).read_bytes() == CONTENT
    with pytest.raises(FileError, match=r"Read-only file system.*TENSORCONTRAST_HOME"):
        fetch(slow_server.url, tmp_path / "other.bin", SHA)


def test_a_data_folder_that_may_not_be_looked_into_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORCONTRAST_DATA", str(tmp_path / "closed"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "har.npz").write_bytes(b"")
    monkeypatch.setenv("TENSORCONTRAST_HOME", str(tmp_path / "open"))
    real = Path.exists

    def exists(path, **options):
        if "closed" in path.parts:
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    monkeypatch.setattr(Path, "exists", exists)
    assert registry.find_data("har") == tmp_path / "open" / "har.npz"


def test_a_user_without_a_home_folder(tmp_path, monkeypatch):
    for name in ("TENSORCONTRAST_HOME", "TENSORCONTRAST_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(DataNotFoundError, match=r"no folder for data.*TENSORCONTRAST_HOME"):
        load_har(download=False)
    monkeypatch.setenv("TENSORCONTRAST_DATA", str(tmp_path))
    assert registry.folders("har") == [tmp_path, tmp_path / "har"]
    with pytest.raises(FileError, match="cannot be read"):
        Recordings.load("~/r.npz")


READ_ONLY = """
import os, sys, warnings
warnings.simplefilter("error")
from pathlib import Path
import numpy as np
from tensorcontrast import CPD, Recordings
from tensorcontrast.datasets import load_har
from tensorcontrast.errors import DataNotFoundError, FileError
from tensorcontrast.datasets.download import fetch
home = Path(os.environ["HOME"])
try:
    (home / "probe").write_text("x")
except OSError:
    pass
else:
    sys.exit("the home folder can be written to")
X = np.random.default_rng(0).standard_normal((20, 3, 4, 5))
warnings.simplefilter("ignore")
assert CPD(rank=2, max_iter=3, random_state=0).fit(X).transform(X).shape == (20, 2)
warnings.simplefilter("error")
try:
    load_har(download=False)
except DataNotFoundError as error:
    assert str(home) in str(error)
try:
    fetch("http://127.0.0.1:9/x", home / ".cache" / "x", None)
except FileError as error:
    assert "TENSORCONTRAST_HOME" in str(error)
try:
    Recordings(np.zeros((1, 1, 4))).save(home / "r.npz")
except FileError as error:
    print("refused", error)
"""


# Root may write anywhere: the right to pass over permissions is given up before the start.
AS_ANYONE = """
import ctypes, os, sys
if os.geteuid() == 0 and sys.platform == "linux":
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


@POSIX
@pytest.mark.parametrize("kind", ["read-only", "missing"])
def test_a_home_folder_that_is_read_only_or_missing(kind, tmp_path):
    above = tmp_path / "above"
    home = above / "home"
    above.mkdir()
    if kind == "read-only":
        home.mkdir()
        home.chmod(0o555)
    above.chmod(0o555)
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("TENSORCONTRAST_", "XDG_", "MPL"))
    }
    done = subprocess.run(
        [sys.executable, "-c", AS_ANYONE, READ_ONLY],
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "the home folder can be written to" in done.stderr:
        pytest.skip("this user may write to folders that are read-only")
    assert done.returncode == 0, done.stderr
    assert "refused" in done.stdout
