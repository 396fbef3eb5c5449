"""The page while `gradorder reproduce` runs: a server for this machine alone.

It listens on 127.0.0.1 and answers only requests that were addressed to it by that name, so that no other site can
reach it through a name of its own (DNS rebinding). The store is read, never written.
"""

import errno
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gradorder_lab.commands.progress import ReproductionPlan, ReproductionProgress
from gradorder_lab.errors import LabError
from gradorder_lab.runs import shipped
from gradorder_lab.runs.store import Store, has_runs
from gradorder_lab.runs.summary import RecipeSummary, Summary
from gradorder_lab.show.benchmark import benchmark_for
from gradorder_lab.show.page import page_of
from gradorder_lab.show.writing import render_page

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8765
_REST = 9
"""The page rests this many times as long as it took to make: the runs need the processor more."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LivePage:
    """The page of a directory, made again when there are new runs.

    Args:
        out: the directory of `reproduce`; it need not be there yet.
        clock: seconds, for tests to set.
    """

    def __init__(self, out: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: Mapping[str, RecipeSummary] = {}
        self._made: tuple[str, str, str] | None = None
        self._rests_until = 0.0

    def whole(self) -> str:
        """The page with everything that it needs."""
        return self._page()[1]

    def update(self) -> str:
        """The page without what does not change."""
        return self._page()[2]

    def progress(self) -> dict[str, Any]:
        """How far the runs are, and the version of the page that would be served now."""
        if not has_runs(self._out):
            return {"version": self._version_to_serve(), "progress": None}
        with Store(self._out) as store:
            plan = ReproductionPlan.load(self._out)
            found = None if plan is None else asdict(ReproductionProgress.of(plan, store, time.time()))
        return {"version": self._version_to_serve(), "progress": found}

    def _version(self) -> str:
        if not has_runs(self._out):
            return "shipped"
        with Store(self._out) as store:
            return str(store.num_runs())

    def _version_to_serve(self) -> str:
        made = self._made
        return self._version() if made is None or self._clock() >= self._rests_until else made[0]

    def _page(self) -> tuple[str, str, str]:
        with self._lock:
            version = self._version_to_serve()
            if self._made is None or self._made[0] != version:
                started = self._clock()
                page = page_of(self._summary(), benchmark_for(self._out), shipped.beside(self._out))
                self._made = (
                    version,
                    render_page(page, live_version=version),
                    render_page(page, live_version=version, whole=False),
                )
                finished = self._clock()
                self._rests_until = finished + _REST * (finished - started)
            return self._made

    def _summary(self) -> Summary:
        """Only recipes with new runs are read again."""
        if not has_runs(self._out):
            return shipped.summary_of(self._out)
        with Store(self._out) as store:
            found = Summary.of(store, self._runs)
        self._runs = found.recipes
        return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, live: LivePage) -> None:
        super().__init__((ADDRESS, port), _Handler)
        self.live = live
        own_port = self.server_address[1]
        self.names = {f"{name}:{own_port}" for name in (ADDRESS, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in the base class
        has_left = isinstance(sys.exception(), ConnectionError | TimeoutError)
        is_closed = request.fileno() < 0  # by Ctrl-C, which closes what is just being answered
        if not has_left and not is_closed:
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "gradorder"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.names:
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "This server answers on this machine only.\n")
            return
        live = self.server.live
        answers: dict[str, tuple[str, Callable[[], str]]] = {
            "/": ("text/html", live.whole),
            "/update": ("text/html", live.update),
            "/progress.json": ("application/json", lambda: json.dumps(live.progress())),
        }
        kind, text = answers.get(self.path.partition("?")[0], ("", None))
        if text is None:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here.\n")
            return
        try:
            content = text()
        except LabError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n")
            return
        self._answer(HTTPStatus.OK, kind, content)

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        headers = _HEADERS | {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """The terminal is for people."""


def server(out: Path, port: int) -> _Server:
    """Listening, not yet answering.

    Raises:
        LabError: the port is taken or not allowed.
    """
    try:
        return _Server(port, LivePage(out))
    except OSError as error:
        reason = "another program uses it" if error.errno == errno.EADDRINUSE else error.strerror
        raise LabError(f"--port must be a free port, got {port}: {reason}; --port 0 takes any free one") from error


def serve(out: Path, port: int, say: Callable[[str], None]) -> None:
    """Answer until Ctrl-C."""
    with server(out, port) as listening:
        try:  # from the first word on: whoever reads it may press Ctrl-C at once
            say(f"Live page: http://{ADDRESS}:{listening.server_address[1]}/  (Ctrl-C ends it)")
            listening.serve_forever()
        except KeyboardInterrupt:
            say("Ended.")
