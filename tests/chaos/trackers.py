"""Tracking servers that are silent, slow or killed, and a driver that is killed while it writes MLflow."""

import signal
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

from chaos import empty_database
from chaos.faults import Strike, fault, rows_in_words
from chaos.sandbox import Command, Sandbox
from killable_server import KillableServer

URI = "MLFLOW_TRACKING_URI"
DRIP_S = 1.0


class Deaf:
    """An HTTP server on loopback that takes every connection and never answers; or answers a byte at a time."""

    def __init__(self, *, drips: bool) -> None:
        self._drips = drips
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._closing = threading.Event()
        self._taken: list[socket.socket] = []
        self.uri = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        for one in (self._listener, *self._taken):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join()

    def _serve(self) -> None:
        while not self._closing.is_set():
            with suppress(OSError):
                taken, _ = self._listener.accept()
                self._taken.append(taken)
                if self._drips:
                    threading.Thread(target=self._drip, args=(taken,), daemon=True).start()

    def _drip(self, taken: socket.socket) -> None:
        with suppress(OSError):
            taken.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
            while not self._closing.wait(DRIP_S):
                taken.send(b" ")


class Refusing:
    """An HTTP server on loopback that answers everything with the same page and status."""

    def __init__(self, status: int, page: bytes, kind: str) -> None:
        class Answer(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.close_connection = True
                if not (self.rfile.readline(65537) and self.parse_rest()):
                    return
                self.wfile.write(b"HTTP/1.1 %d No\r\nContent-Type: %s\r\n" % (status, kind.encode()))
                self.wfile.write(b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(page) + page)

            def parse_rest(self) -> bool:
                length = 0
                while (line := self.rfile.readline(65537)) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                self.rfile.read(length)
                return True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


ANSWERS = {
    "401": (401, b'{"error_code": "UNAUTHENTICATED", "message": "who are you?"}', "application/json"),
    "500": (500, b"Internal Server Error", "text/plain"),
    "HTML": (200, b"<html><body>Please log in</body></html>", "text/html"),
    "503": (503, b"", "text/plain"),
}


def _answering(answer: str) -> Strike:
    """It costs no trial; what MLflow lacks is said, and the next run writes the runs beside the record."""

    def strike(box: Sandbox, _: Random) -> str:
        server = Refusing(*ANSWERS[answer])
        box.servers.append(server.close)
        box.write(tracking={"enabled": True})
        box.environment[URI] = server.uri
        box.finish(box.start())
        assert "MLflow" in box.said, box.said
        del box.environment[URI]
        box.code = None
        empty_database.put_into(box.store)
        return rows_in_words(box)

    return strike


for _answer in ANSWERS:
    fault(f"tracking server says {_answer}", draws=1)(_answering(_answer))


def _on_a_deaf_server(box: Sandbox, draw: Random, *, drips: bool) -> str:
    server = Deaf(drips=drips)
    box.servers.append(server.close)
    box.write(tracking={"enabled": True})
    box.environment[URI] = server.uri
    command = box.start()
    if patient := draw.random() < 0.25:
        how = "waited for"
    else:
        box.until(lambda: "Ctrl-C leaves the rest" in command.said, command)
        command.press_ctrl_c()
        how = "left by Ctrl-C"
    box.finish(command)
    assert patient or "crowdsweep mirror" in box.said, box.said
    del box.environment[URI]
    empty_database.put_into(box.store)
    box.code = None  # a person goes on without that server, which writes the runs beside the record
    return how


@fault("tracking server silent", draws=3)
def _silent(box: Sandbox, draw: Random) -> str:
    return _on_a_deaf_server(box, draw, drips=False)


@fault("tracking server slow", draws=3)
def _slow(box: Sandbox, draw: Random) -> str:
    return _on_a_deaf_server(box, draw, drips=True)


@fault("driver SIGKILL with MLflow", draws=3)
def _killed_with_mlflow(box: Sandbox, draw: Random) -> str:
    box.write(tracking={"enabled": True})
    command = box.start()
    box.until_rows(draw.randint(1, 75), command)
    if draw.random() < 0.5:
        box.until((box.store / "mlflow.db").exists, command)
    command.signal(signal.SIGKILL)
    box.finish(command)
    return rows_in_words(box)


@fault("tracking server killed", draws=1)
def _server_killed(box: Sandbox, draw: Random) -> str:
    folder = box.folder / "server"
    folder.mkdir()
    box.expected.add(folder.name)
    server = KillableServer(folder)
    box.servers.append(server.kill)
    server.start()
    box.write(tracking={"enabled": True})
    box.environment[URI] = server.uri
    command: Command = box.start()
    box.until_rows(draw.randint(1, 75), command)
    where = rows_in_words(box)
    server.kill()
    box.finish(command)
    server.start()
    return where
