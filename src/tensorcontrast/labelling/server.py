"""The page's server: on this machine alone, for those who know the token.

Every address begins with a random token; without it, and with any other ``Host``, a request is
refused. The page may load its own style sheet and script and nothing else. Names of files, channels
and classes travel as JSON and are never markup.
"""

from __future__ import annotations

import json
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorcontrast.errors import FileError, MissingDependencyError, TensorContrastError
from tensorcontrast.labelling.project import ConflictError
from tensorcontrast.labelling.tables import export_csv, export_edf

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from tensorcontrast.labelling.session import Labelling

__all__ = ["HOST", "PageServer", "make_app", "new_token"]

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
FILES = {
    "": ("index.html", "text/html"),
    "app.js": ("app.js", "text/javascript"),
    "drawing.js": ("drawing.js", "text/javascript"),
    "style.css": ("style.css", "text/css"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
#: Largest body of a request, and of a file of labels, in bytes.
MAX_BODY, MAX_FILE = 64 * 2**10, 32 * 2**20
#: Longest name of a page and of a person that is kept.
MAX_TEXT = 120


def new_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(24)


def _starlette() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "the page needs the packages starlette and uvicorn; install them with "
            f"pip install 'tensorcontrast[label]' ({error})"
        ) from error


def make_app(labelling: Labelling, token: str, port: int) -> Starlette:
    """Return the application.

    Parameters
    ----------
    labelling : Labelling
    token : str
        First part of every address.
    port : int
        Of the server; the header ``Host`` must name it.
    """
    _starlette()
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    hosts = {f"{HOST}:{port}", f"localhost:{port}"}
    static = {
        name: ((resources.files(__package__) / "static" / file).read_bytes(), kind)
        for name, (file, kind) in FILES.items()
    }

    def refused(status: int, text: str) -> Response:
        return JSONResponse({"error": text}, status, headers=HEADERS)

    def guarded(
        handler: Callable[[Request, dict[str, Any]], Any], max_body: int = MAX_BODY
    ) -> Callable[[Request], Awaitable[Response]]:
        """Check who asks, read the body, answer errors in one line."""

        async def endpoint(request: Request) -> Response:
            if request.headers.get("host", "") not in hosts:
                return refused(403, "this page is for this machine alone")
            if not secrets.compare_digest(request.path_params["token"].encode(), token.encode()):
                return refused(403, "open the address that tensorcontrast label has printed")
            origin = request.headers.get("origin")
            if origin is not None and origin not in {f"http://{host}" for host in hosts}:
                return refused(403, "another page may not ask")
            body: dict[str, Any] = {}
            if request.method == "POST":
                raw = b""
                async for part in request.stream():
                    raw += part
                    if len(raw) > max_body:
                        return refused(413, f"more than {max_body:,} bytes")
                if max_body > MAX_BODY:
                    body = {"file": raw}
                else:
                    if request.headers.get("content-type") != "application/json":
                        return refused(415, "send JSON")
                    try:
                        body = json.loads(raw) if raw else {}
                    except ValueError:
                        return refused(400, "this is not JSON")
                    if not isinstance(body, dict):
                        return refused(400, "send a JSON object")
            try:
                made = await run_in_threadpool(handler, request, body)
            except ConflictError as error:
                found = {"error": str(error), "label": error.label, "window": error.window}
                return JSONResponse(found, 409, headers=HEADERS)
            except FileError as error:
                return refused(507, str(error))
            except (TensorContrastError, _BadRequestError) as error:
                return refused(400, str(error))
            except Exception as error:
                return refused(500, f"{type(error).__name__}: {error}; this is a bug, report it")
            if isinstance(made, Response):
                made.headers.update(HEADERS)
                return made
            return JSONResponse(made, headers=HEADERS)

        return endpoint

    def person(values: Any) -> tuple[str, str]:
        """Name of the page, and of who sits there."""
        client, who = values.get("client"), values.get("who") or labelling.who
        if not isinstance(client, str) or not 0 < len(client) <= MAX_TEXT:
            raise _BadRequestError("the page does not say its name")
        if not isinstance(who, str) or len(who) > MAX_TEXT:
            raise _BadRequestError(f"a name of more than {MAX_TEXT} characters")
        labelling.seen(client)
        return client, who

    def page(request: Request, body: dict[str, Any]) -> Response:
        found = static.get(request.path_params.get("file", ""))
        if found is None:
            return Response("no such page", 404)
        return Response(found[0], media_type=f"{found[1]}; charset=utf-8")

    def window(request: Request, body: dict[str, Any]) -> Any:
        small = request.query_params.get("small") == "1"
        return labelling.window(request.path_params["window"], small=small)

    def spectrogram(request: Request, body: dict[str, Any]) -> Any:
        channel = request.query_params.get("channel", "")
        number = int(channel) if channel.isascii() and channel.isdigit() else None
        return labelling.spectrogram(request.path_params["window"], number)

    def state(request: Request, body: dict[str, Any]) -> Any:
        client = request.query_params.get("client", "")
        if 0 < len(client) <= MAX_TEXT:
            labelling.seen(client)
        return labelling.state()

    def next_window(request: Request, body: dict[str, Any]) -> Any:
        chosen = labelling.next_window(person(body)[0])
        return {"window": None if chosen is None else labelling.window(chosen)}

    def label(request: Request, body: dict[str, Any]) -> Any:
        client, who = person(body)
        name = body.get("label")
        labelling.label(
            _integer(body, "window"),
            None if name is None else _text(body, "label"),
            client,
            who,
            seconds=_seconds(body),
            expected=None if body.get("expected") is None else _text(body, "expected"),
            source="review" if body.get("source") == "review" else "window",
        )
        return {"saved": True, "state": labelling.state()}

    def skip(request: Request, body: dict[str, Any]) -> Any:
        client, who = person(body)
        labelling.skip(_integer(body, "window"), client, who, _seconds(body))
        return {"saved": True, "state": labelling.state()}

    def undo(request: Request, body: dict[str, Any]) -> Any:
        windows = labelling.undo(*person(body))
        return {"windows": windows, "state": labelling.state()}

    def add_class(request: Request, body: dict[str, Any]) -> Any:
        name = labelling.add_class(_text(body, "name"), *person(body))
        return {"name": name, "state": labelling.state()}

    def cluster(request: Request, body: dict[str, Any]) -> Any:
        return labelling.cluster(_integer(body, "cluster"), person(body)[0])

    def label_cluster(request: Request, body: dict[str, Any]) -> Any:
        client, who = person(body)
        name = _text(body, "label")
        if name not in labelling.project.classes:
            raise _BadRequestError("there is no such class; add it first")
        number = _integer(body, "cluster")
        done = labelling.label_cluster(number, name, client, who, _seconds(body))
        return {**done, "state": labelling.state()}

    def review(request: Request, body: dict[str, Any]) -> Any:
        text = request.query_params.get("page", "0")
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
        return labelling.review(number, request.query_params.get("class", ""))

    def finish(request: Request, body: dict[str, Any]) -> Any:
        labelling.finish()
        return {"state": labelling.state()}

    def export(request: Request, body: dict[str, Any]) -> Response:
        if request.path_params["kind"] == "csv":
            name, content = "labels.csv", export_csv(labelling.rec, labelling.names())
        else:
            name, content = export_edf(labelling.rec, labelling.names())
        attached = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type="application/octet-stream", headers=attached)

    def take(request: Request, body: dict[str, Any]) -> Any:
        import urllib.parse

        given = urllib.parse.unquote(request.query_params.get("name", ""))
        name = Path(given).name
        if name in ("", ".", "..") or len(name) > MAX_TEXT or "\0" in name:
            raise _BadRequestError("the file has no name")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(body["file"])
            try:
                saved = labelling.take(path, labelling.who)
            except TensorContrastError as error:
                raise _BadRequestError(str(error).replace(f"{folder}/", "")) from error
        return {"saved": saved, "state": labelling.state()}

    def raw(content: Callable[[], bytes]) -> Callable[[Request, dict[str, Any]], Response]:
        return lambda request, body: Response(content(), media_type="application/octet-stream")

    def get(path: str, handler: Any) -> Route:
        return Route("/{token}" + path, guarded(handler), methods=["GET"])

    def post(path: str, handler: Any, max_body: int = MAX_BODY) -> Route:
        return Route("/{token}" + path, guarded(handler, max_body), methods=["POST"])

    async def nothing(request: Request) -> Response:
        return refused(403, "open the address that tensorcontrast label has printed")

    return Starlette(
        routes=[
            get("/", page),
            get("/static/{file}", page),
            get("/api/about", lambda request, body: labelling.about()),
            get("/api/state", state),
            get("/api/window/{window:int}", window),
            get("/api/spectrogram/{window:int}", spectrogram),
            get("/api/map", raw(labelling.places)),
            get("/api/colours", raw(labelling.colours)),
            get("/api/clusters", lambda request, body: labelling.clusters()),
            get("/api/review", review),
            get("/api/export/{kind}", export),
            post("/api/next", next_window),
            post("/api/label", label),
            post("/api/skip", skip),
            post("/api/undo", undo),
            post("/api/class", add_class),
            post("/api/cluster", cluster),
            post("/api/label-cluster", label_cluster),
            post("/api/finish", finish),
            post("/api/import", take, MAX_FILE),
            Route("/{rest:path}", nothing, methods=["GET", "POST", "PUT", "DELETE", "OPTIONS"]),
        ]
    )


class _BadRequestError(Exception):
    """A request that no page of ours sends."""


def _integer(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _BadRequestError(f"{name} is not a number")
    return value


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise _BadRequestError(f"{name} is not a text")
    return value


def _seconds(body: dict[str, Any]) -> float | None:
    value = body.get("seconds")
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e6:
        return None
    return round(float(value), 3)


class PageServer:
    """A server that is ready to run: the port is taken, the token is made.

    Parameters
    ----------
    labelling : Labelling
    port : int, default=0
        0 takes any that is free.
    token : str, optional
        Default: a new one.
    """

    def __init__(self, labelling: Labelling, port: int = 0, token: str | None = None) -> None:
        _starlette()
        import uvicorn

        self.token = token or new_token()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HOST, port))
            self._socket.listen(64)  # who asks before run() waits
        except OSError as error:
            self._socket.close()
            raise FileError(
                f"port {port} of {HOST} cannot be used: {error.strerror or error}; name another "
                "with --port, or leave it out"
            ) from error
        self.port = int(self._socket.getsockname()[1])
        app = make_app(labelling, self.token, self.port)
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """Address of the page, with its token."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until Ctrl-C, SIGTERM or :meth:`stop`."""
        if ready is not None:
            ready()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Let :meth:`run` return."""
        self._server.should_exit = True
