"""Writing in one piece: what stays after a failure, and what the errors say."""

import errno
import os
import stat
import threading

import pytest

from tensorcontrast.errors import FileError
from tensorcontrast.io.atomic import atomic_write, check_writable, one_at_a_time

fcntl = pytest.importorskip("fcntl", reason="locks of POSIX")


def failing(code):
    """Make a function that fails as the system does."""

    def fail(*args, **more):
        raise OSError(code, os.strerror(code))

    return fail


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("sync", [True, False])
def test_the_new_file_replaces_the_old_one(tmp_path, sync):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with atomic_write(path, sync=sync) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, call, failing(errno.ENOSPC))
    with pytest.raises(FileError, match=r"a\.bin: cannot be written: .*No space left"):
        with atomic_write(path) as stream:
            stream.write(b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_an_error_of_the_writer_comes_through_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as stream:
        stream.write(b"half of it")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.skipif(os.name != "posix", reason="links and pipes as on POSIX systems")
def test_links_pipes_and_folders_are_never_replaced(tmp_path):
    (tmp_path / "own").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "folder"):
        with pytest.raises(FileError, match=name), atomic_write(tmp_path / name) as stream:
            stream.write(b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "own").read_text() == "kept"
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "folder").is_dir()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_folder_that_is_missing_or_may_not_be_written(tmp_path, monkeypatch):
    path = tmp_path / "none" / "a.bin"
    with pytest.raises(FileError, match=r"folder .*none does not exist; make it first"):
        with atomic_write(path):
            pass
    with pytest.raises(FileError, match=r"folder .*none does not exist; make it first"):
        check_writable(path)
    check_writable(tmp_path / "a.bin")
    monkeypatch.setattr(os, "open", failing(errno.EROFS))
    with pytest.raises(FileError, match=r"a\.bin: cannot be written: .*Read-only"):
        with atomic_write(tmp_path / "a.bin"):
            pass
    with pytest.raises(FileError, match=r"no permission to write.*Read-only.*another place"):
        check_writable(tmp_path / "a.bin")
    with pytest.raises(FileError, match=r"a\.bin: cannot be written: .*Read-only"):
        with one_at_a_time(tmp_path / "a.bin"):
            pass
    monkeypatch.undo()
    assert names(tmp_path) == []


@pytest.mark.parametrize("call", ["open", "fsync"])
def test_a_folder_that_cannot_be_synchronised_is_no_error(tmp_path, monkeypatch, call):
    real = getattr(os, call)

    def fail_for_folders(what, *more):
        folder = os.path.isdir(what) if call == "open" else stat.S_ISDIR(os.fstat(what).st_mode)
        if folder:
            raise OSError(errno.EINVAL, "not for folders")
        return real(what, *more)

    monkeypatch.setattr(os, call, fail_for_folders)
    with atomic_write(tmp_path / "a.bin") as stream:
        stream.write(b"new")
    assert (tmp_path / "a.bin").read_bytes() == b"new"


# ---------------------------------------------------------------------------- locks


def test_without_locks_of_the_file_system_the_work_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOLCK))
    with one_at_a_time(tmp_path / "a.bin") as held:
        assert held is False
    assert names(tmp_path) == []


def test_a_lock_is_let_go_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), one_at_a_time(tmp_path / "a.bin") as held:
        assert held is True
        assert names(tmp_path) == ["a.bin.lock"]
        raise ZeroDivisionError
    with one_at_a_time(tmp_path / "a.bin") as held:
        assert held is True
    assert names(tmp_path) == []


def test_an_interrupt_while_waiting_leaves_no_open_file(tmp_path, monkeypatch):
    opened = []

    def interrupted(handle, how):
        opened.append(handle)
        raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, "flock", interrupted)
    with pytest.raises(KeyboardInterrupt), one_at_a_time(tmp_path / "a.bin"):
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


@pytest.mark.parametrize("next_holder", ["none", "another"])
def test_a_lock_on_a_file_that_is_gone_holds_nobody_off(tmp_path, monkeypatch, next_holder):
    """Between opening and locking, the holder before removed the file: it is opened again."""
    lock, real, tries = tmp_path / "a.bin.lock", fcntl.flock, []

    def removed_first(handle, how):
        tries.append(handle)
        if len(tries) == 1:
            lock.unlink()
            if next_holder == "another":
                lock.touch()
        return real(handle, how)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with one_at_a_time(tmp_path / "a.bin", poll=0.001) as held:
        assert held is True
        assert lock.exists()
    assert len(tries) == 2


def test_the_second_waits_for_the_first(tmp_path):
    order, inside, waiting = [], threading.Event(), threading.Event()

    def first():
        with one_at_a_time(tmp_path / "a.bin", poll=0.001):
            inside.set()
            waiting.wait(10)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    threading.Timer(0.02, waiting.set).start()
    with one_at_a_time(tmp_path / "a.bin", poll=0.001) as held:
        order.append("second")
    thread.join()
    assert held is True
    assert order == ["first", "second"]
