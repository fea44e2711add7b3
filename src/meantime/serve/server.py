"""The service on a port: uvicorn, with patience that ends."""

import asyncio
import contextlib
import logging
import socket
import sys

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from meantime.errors import MeantimeError
from meantime.serve import errors
from meantime.serve.app import create_app
from meantime.serve.settings import Settings
from meantime.serve.writing import to_json


def run(settings: Settings, host: str, port: int, log_level: str = "info") -> None:
    """Serve until told to stop; what was accepted by then is finished."""
    with listen(host, port) as listening, contextlib.suppress(KeyboardInterrupt):
        app = create_app(settings)
        place = f"[{host}]" if listening.family == socket.AF_INET6 else host
        print(f"meantime: {settings.model} at http://{place}:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
        server(app, settings, host, port, log_level).run([listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that takes connections; before the encoder is loaded, so that a busy port is told of at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise MeantimeError(f"cannot listen on {host}:{port} ({error.strerror}): choose another with --port") from error
    # Connections inherit it; without it the second packet of every answer waits 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def server(app: FastAPI, settings: Settings, host: str, port: int, log_level: str = "info") -> uvicorn.Server:
    """Return a server of the application that waits for nobody longer than the settings say."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=patient(settings),
        ws="none",
        log_level=log_level,
        server_header=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.stop_seconds,
    )
    logging.getLogger("uvicorn.access").addFilter(_without_query)
    return uvicorn.Server(config)


def _without_query(record: logging.LogRecord) -> bool:
    """Take the query, where labels stand, out of a line of the access log: what strangers type is not kept."""
    if isinstance(record.args, tuple) and len(record.args) > 2:
        record.args = tuple(str(part).partition("?")[0] if i == 2 else part for i, part in enumerate(record.args))
    return True


def _full_house() -> bytes:
    """Return the answer to one connection too many, before it has asked anything."""
    body = to_json(errors.body(503, "there are too many connections now; ask again in 5 seconds"))
    head = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Type: application/json"
    return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def patient(settings: Settings) -> type[H11Protocol]:
    """Return uvicorn's protocol with an end to every wait: for headers, for leftover bodies, for slow readers."""

    class Patient(H11Protocol):
        _reading: asyncio.TimerHandle | None = None
        _writing: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > settings.max_connections:
                transport.write(_full_house())
                transport.close()
            else:
                self._expect(True)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expect(False)
            self.resume_writing()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._writing = self.loop.call_later(settings.header_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._writing is not None:
                self._writing.cancel()
                self._writing = None

        def _watch(self) -> None:
            theirs = self.conn.their_state
            begun = theirs is h11.IDLE and bool(self.conn.trailing_data[0])  # headers that have not ended
            unread = theirs is h11.SEND_BODY and self.cycle is not None and self.cycle.response_complete
            self._expect(begun or unread)

        def _expect(self, something: bool) -> None:
            """Close the connection unless what is expected comes in time."""
            if something and self._reading is None:
                self._reading = self.loop.call_later(settings.header_seconds, self.transport.close)
            elif not something and self._reading is not None:
                self._reading.cancel()
                self._reading = None

    return Patient
