"""The server: who is let in, what is refused, and what every answer carries."""

import socket

import pytest

from tensorcontrast.errors import FileError

pytest.importorskip("starlette", reason="needs the extra 'label'")
pytest.importorskip("uvicorn", reason="needs the extra 'label'")


@pytest.fixture
def running(opened, serve, client):
    work = opened()
    with serve(work) as server:
        yield work, server, client(server)


def test_strangers_are_refused(running):
    work, server, page = running
    window = work.next_window("x")
    body = {"window": window, "label": "rest"}
    for token in ("", "x" * 32, server.token[:-1], server.token + "a", server.token.lower() + "é"):
        quoted = token.encode("ascii", "replace").decode().replace("?", "%3F")
        for path, sent in (("", None), ("api/state", None), ("api/label", body)):
            answer, found = page.ask(path, sent, token=quoted)
            assert answer.status == 403 and "error" in found
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", ""):
        assert page.ask("", headers={"Host": host})[0].status == 403
    other = {"Origin": "http://evil.example"}
    assert page.ask("api/label", body, headers=other)[0].status == 403
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Host": f"localhost:{server.port}"}
    assert page.ask("", headers=own)[0].status == 200
    assert work.names() == {}
    assert server.address.startswith(f"http://127.0.0.1:{server.port}/{server.token}")
    with socket.socket() as outside:  # not on other addresses of this machine
        outside.settimeout(2)
        with pytest.raises(OSError):
            outside.connect(("127.0.0.2", server.port))


def test_every_answer_has_a_strict_policy_and_no_external_asset(running):
    _, _, page = running
    for path in ("", "static/app.js", "static/drawing.js", "static/style.css", "api/state"):
        answer, content = page.ask(path)
        assert answer.status == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
        if path and not path.startswith("api"):
            assert b"http://" not in content and b"https://" not in content
    assert page.ask("static/..%2f..%2fserver.py")[0].status in (403, 404)
    assert page.ask("static/server.py")[0].status == 404


def test_bad_bodies_are_refused(running):
    work, _, page = running
    cases = [
        ("api/label", {"window": "0", "label": "rest"}, 400),
        ("api/label", {"window": True, "label": "rest"}, 400),
        ("api/label", {"window": 900, "label": "rest"}, 400),
        ("api/label", {"window": 0, "label": 7}, 400),
        ("api/label", {"window": 0, "label": "no such class"}, 400),
        ("api/label", {"window": 0, "label": "rest", "client": ""}, 400),
        ("api/label", {"window": 0, "label": "rest", "client": "x" * 999}, 400),
        ("api/label", {"window": 0, "label": "rest", "who": "x" * 999}, 400),
        ("api/class", {"name": "x" * 121}, 400),
        ("api/class", {"name": ["a"]}, 400),
        ("api/cluster", {"cluster": 99}, 400),
        ("api/label-cluster", {"cluster": 0, "label": "rest"}, 400),
        ("api/label", "not JSON", 400),
        ("api/label", "[1]", 400),
        ("api/label", "x" * 70_000, 413),
    ]
    for path, body, status in cases:
        answer, found = page.ask(path, body)
        assert (answer.status, list(found)) == (status, ["error"]), (path, body)
    answer, _ = page.ask("api/label", "{}", headers={"Content-Type": "text/plain"})
    assert answer.status == 415
    assert page.ask("api/import?name=labels.csv", "nothing")[0].status == 400
    assert page.ask("api/window/0?small=1", method="PUT")[0].status in (403, 405)
    assert work.names() == {}


def test_two_pages_and_a_round_of_labels(running, client):
    work, server, page = running
    other = client(server, "page-2")
    mine = page.ask("api/next", {})[1]["window"]
    theirs = other.ask("api/next", {})[1]["window"]
    assert mine["window"] != theirs["window"]
    sent = {"window": mine["window"], "label": "walk", "expected": None, "seconds": 2.25}
    answer, found = page.ask("api/label", sent)
    assert answer.status == 200 and found["saved"] and found["state"]["labels"] == 1
    event = work.project.events()[-1]
    assert (event["who"], event["client"], event["seconds"]) == ("ann", "page-1", 2.25)
    answer, found = other.ask("api/label", {**sent, "label": "run"})
    assert answer.status == 409 and found["label"] == "walk" and "ann" in found["error"]
    answer, found = other.ask("api/undo", {})
    assert found["windows"] is None  # the label of the first page is not theirs
    content = page.ask("api/export/csv")[1]
    assert content.startswith(b"recording,start_s,end_s,label\n") and b"walk" in content
    page.ask("api/undo", {})
    assert page.ask("api/import?name=labels.csv", content)[1]["saved"] == 1
    assert work.names() == {mine["window"]: "walk"}
    answer, content = page.ask("api/export/edf")
    assert answer.status in (200, 500) and (b"walk" in content or "edfio" in str(content))


def test_a_port_that_is_taken_is_named(running, serve):
    work, server, _ = running
    with pytest.raises(FileError, match=f"port {server.port} of 127.0.0.1"):
        with serve(work, port=server.port):
            pass
