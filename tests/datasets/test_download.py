"""Downloads against a server on this machine that cuts connections."""

import hashlib
import http.server
import io
import socket
import threading
import zipfile

import numpy as np
import pytest

from tensorcontrast.datasets import download, load_har, load_ptbxl, load_sleep_edf, registry
from tensorcontrast.datasets.download import extract_verified, fetch, read_sums
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    InvalidInputError,
    TruncatedFileError,
)

pytest.importorskip("pooch", reason="needs tensorcontrast[data]")
CONTENT = np.random.default_rng(0).bytes(300_000)
SHA = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves bytes, and closes the connection after ``server.cut`` of them."""

    def do_GET(self):
        server = self.server
        server.asked.append(self.path)
        if self.path not in server.files:
            self.send_error(404)
            return
        body = server.files[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.cut is not None and server.cuts:
            server.cuts -= 1
            body = body[: server.cut]
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.files = {"/data.bin": CONTENT}
    httpd.asked, httpd.cut, httpd.cuts = [], None, 0
    httpd.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture(autouse=True)
def no_shared_folders_and_no_waiting(monkeypatch, tmp_path):
    monkeypatch.delenv("TENSORCONTRAST_DATA", raising=False)
    monkeypatch.setenv("TENSORCONTRAST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(download, "RETRIES", 1)


def test_plain_download_and_no_second_one(server, tmp_path):
    target = tmp_path / "cache" / "data.bin"
    assert fetch(f"{server.url}/data.bin", target, SHA).read_bytes() == CONTENT
    fetch(f"{server.url}/data.bin", target, SHA)
    assert server.asked == ["/data.bin"]
    assert [p.name for p in target.parent.iterdir()] == ["data.bin"]


def test_a_cut_connection_is_tried_again(server, tmp_path):
    server.cut, server.cuts = 100_000, 1
    target = tmp_path / "data.bin"
    assert fetch(f"{server.url}/data.bin", target, SHA).read_bytes() == CONTENT
    server.cuts = 9
    with pytest.raises(TruncatedFileError, match="cut"):
        fetch(f"{server.url}/data.bin", tmp_path / "b.bin", SHA)
    assert not (tmp_path / "b.bin").exists()


def test_a_wrong_checksum_is_refused_and_nothing_stays(server, tmp_path):
    server.files["/data.bin"] = b"something else"
    with pytest.raises(DamagedFileError, match="does not have the known checksum"):
        fetch(f"{server.url}/data.bin", tmp_path / "data.bin", SHA)
    assert not (tmp_path / "data.bin").exists()
    server.files["/data.bin"] = CONTENT
    fetch(f"{server.url}/data.bin", tmp_path / "data.bin", SHA)


def test_a_damaged_file_in_the_cache_is_fetched_again(server, tmp_path):
    target = tmp_path / "data.bin"
    target.write_bytes(CONTENT[:-1])
    fetch(f"{server.url}/data.bin", target, SHA)
    assert target.read_bytes() == CONTENT


def test_missing_files_and_other_protocols(server, tmp_path):
    with pytest.raises(DataNotFoundError, match="404"):
        fetch(f"{server.url}/nothing", tmp_path / "x", SHA)
    with pytest.raises(FileError, match="only http and https"):
        fetch("file:///etc/hosts", tmp_path / "x", SHA)


def dead_url():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def redirect(monkeypatch, name, url, sums=None):
    """Let the entry of a dataset point to the server of the test."""
    entry = registry.DATASETS[name]
    files = []
    for file in entry.files:
        sha = file.sha256 if sums is None or file.sha256 is None else sums
        tail = file.url.rsplit("/", 1)[1]
        files.append(registry.RemoteFile(file.name, f"{url}/{tail}", sha))
    changed = {**entry.__dict__, "files": tuple(files)}
    monkeypatch.setitem(registry.DATASETS, name, registry.DatasetInfo(**changed))


@pytest.mark.parametrize(
    ("name", "load"),
    [("har", load_har), ("sleep-edf", load_sleep_edf), ("ptb-xl", load_ptbxl)],
)
def test_offline_says_which_files_to_put_where(monkeypatch, tmp_path, name, load):
    redirect(monkeypatch, name, dead_url())
    with pytest.raises(DataNotFoundError, match=r"(?s)no connection.*into one of.*home"):
        load()


def test_har_is_downloaded_read_and_cached(server, monkeypatch, tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("UCI HAR Dataset/activity_labels.txt", "1 WALKING\n2 SITTING\n")
        for part in ("train", "test"):
            archive.writestr(f"UCI HAR Dataset/{part}/y_{part}.txt", "1\n2\n")
            archive.writestr(f"UCI HAR Dataset/{part}/subject_{part}.txt", "1\n1\n")
            for kind in ("body_acc", "body_gyro", "total_acc"):
                for axis in "xyz":
                    name = f"UCI HAR Dataset/{part}/Inertial Signals/{kind}_{axis}_{part}.txt"
                    archive.writestr(name, (" 0.5" * 128 + "\n") * 2)
    content = stream.getvalue()
    server.files["/human+activity+recognition+using+smartphones.zip"] = content
    redirect(monkeypatch, "har", server.url, hashlib.sha256(content).hexdigest())
    server.cut, server.cuts = len(content) // 2, 1
    rec = load_har()
    assert rec.X.shape == (4, 9, 128)
    load_har(download=False)
    assert len(server.asked) == 2


def test_sleep_files_are_checked_against_the_published_sums(server, monkeypatch, tmp_path):
    names = ["sleep-cassette/SC4001E0-PSG.edf", "sleep-cassette/SC4001EC-Hypnogram.edf"]
    names += ["sleep-cassette/SC4011E0-PSG.edf", "sleep-telemetry/ST7011J0-PSG.edf"]
    contents = {name: name.encode() * 10 for name in names}
    sums = "".join(f"{hashlib.sha256(c).hexdigest()} {n}\n" for n, c in contents.items()).encode()
    server.files = {f"/{name}": content for name, content in contents.items()}
    server.files["/SHA256SUMS.txt"] = sums
    redirect(monkeypatch, "sleep-edf", server.url, hashlib.sha256(sums).hexdigest())
    with pytest.raises(FileError, match=r"SC4001E0-PSG\.edf: does not start like an EDF"):
        load_sleep_edf(subjects=[0])
    folder = tmp_path / "home" / "sleep-edf"
    there = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.edf"))
    assert there == sorted(names[:2])
    with pytest.raises(InvalidInputError, match=r"no subjects \[50\]"):
        load_sleep_edf(data_home=tmp_path / "other", subjects=[50])
    server.files[f"/{names[0]}"] = b"something else"
    with pytest.raises(DamagedFileError, match=r"SC4001E0-PSG\.edf.*checksum"):
        load_sleep_edf(data_home=tmp_path / "third", subjects=[0])


def test_ptbxl_zip_is_unpacked_only_where_checksums_agree(server, monkeypatch, tmp_path):
    contents = {"ptbxl_database.csv": b"table", "scp_statements.csv": b"statements"}
    contents |= {"records100/00000/00001_lr.hea": b"head", "records500/00000/00001_hr.hea": b"h"}
    sums = "".join(f"{hashlib.sha256(c).hexdigest()} {n}\n" for n, c in contents.items()).encode()

    def archive(**changed):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as opened:
            for name, content in contents.items():
                opened.writestr(f"ptb-xl-1.0.3/{name}", changed.get(name[:5], content))
            opened.writestr("ptb-xl-1.0.3/../../evil", b"never unpacked")
        return stream.getvalue()

    server.files = {"/SHA256SUMS.txt": sums, "/": archive(ptbxl=b"wrong")}
    redirect(monkeypatch, "ptb-xl", server.url, hashlib.sha256(sums).hexdigest())
    with pytest.raises(DamagedFileError, match=r"ptbxl_database\.csv: does not have its checksum"):
        load_ptbxl()
    folder = tmp_path / "home" / "ptb-xl"
    assert not (folder / "ptbxl_database.csv").exists()
    assert not (folder / "ptb-xl-1.0.3.zip").exists()
    server.files["/"] = archive()
    with pytest.raises(FileError, match=r"ptbxl_database\.csv: (has no column|holds)"):
        load_ptbxl()
    there = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert there == sorted(
        ["SHA256SUMS.txt", "ptb-xl-1.0.3.zip", *(n for n in contents if "500" not in n)]
    )


def test_sums_and_archives_that_are_damaged(tmp_path):
    sums = tmp_path / "SHA256SUMS.txt"
    sums.write_text("abc\n")
    with pytest.raises(DamagedFileError, match="line 1"):
        read_sums(sums)
    broken = tmp_path / "a.zip"
    broken.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(TruncatedFileError, match=r"a\.zip"):
        extract_verified(broken, tmp_path, {}, [])
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("a", "1")
    with pytest.raises(DamagedFileError, match="no known checksum of a"):
        extract_verified(broken, tmp_path, {}, ["a"])
    with pytest.raises(DamagedFileError, match="has no b"):
        extract_verified(broken, tmp_path, {"b": SHA}, ["b"])


# --------------------------------------------------------------------------------- registry


def test_registry_entries_are_complete():
    names = [entry.name for entry in registry.info()]
    assert names == ["watch", "har", "sleep-edf", "ptb-xl"]
    for entry in registry.info():
        for part in ("title", "loader", "citation", "licence", "url", "size", "samples", "place"):
            assert getattr(entry, part), f"{entry.name} has no {part}"
        for file in entry.files:
            assert file.url.startswith("https://")
            assert file.sha256 is None or len(file.sha256) == 64
            assert file.sha256 or file.verified_by != "sha256"
    with pytest.raises(InvalidInputError, match="no dataset 'mnist'; there are watch"):
        registry.info("mnist")


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/tensorcontrast"),
        ("linux", {"HOME": "/h"}, "/h/.cache/tensorcontrast"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/tensorcontrast"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/tensorcontrast"),
        ("linux", {"TENSORCONTRAST_HOME": "/t"}, "/t"),
    ],
)
def test_cache_folder(monkeypatch, platform, variables, expected):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "TENSORCONTRAST_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(registry.sys, "platform", platform)
    assert registry.data_home().as_posix() == expected
    assert registry.data_home("/given").as_posix() == "/given"
