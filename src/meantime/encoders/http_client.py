"""Talking to an embeddings API: one pool of connections, patience with a busy server, errors in one sentence.

The key is read from the environment for each request and kept nowhere; what a server says is searched for
it before it is repeated.
"""

import json
import os
import random
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, MaxRetryError, ReadTimeoutError
from urllib3.util import Retry, Timeout

from meantime.errors import MeantimeError

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that may be better soon
LONGEST_WAIT = 300  # seconds: who is asked to wait longer wants to know
TOO_LARGE = 413


class TooLargeError(MeantimeError):
    """The server refuses a body of this size; half of it may pass."""


class NothingThereError(MeantimeError):
    """The server has nothing at this address, or no JSON."""


class Patience(Retry):
    """Waits 0, 1, 2, 4, … seconds with jitter, or as long as the server asks."""

    def get_retry_after(self, response: urllib3.BaseHTTPResponse) -> float | None:
        """Seconds that the server asks for, and up to one more so that clients do not return together."""
        try:
            seconds = super().get_retry_after(response)
        except InvalidHeader:
            return None
        if seconds is not None and seconds > LONGEST_WAIT:
            raise MeantimeError(
                f"the embeddings API answers {response.status} and asks to wait for {seconds:.0f} s; try again then"
            )
        return seconds and seconds + random.random()


class Client:
    """GET and POST of JSON at one server."""

    def __init__(self, url: str, *, key_env: str, timeout: float, retries: int, connections: int) -> None:
        parts = urlsplit(url)
        if not parts.hostname:
            raise MeantimeError(f"{url!r} names no host; expected http://HOST:PORT or https://HOST/…/embeddings")
        if parts.username or parts.password:
            raise MeantimeError(f"the address of {parts.hostname} contains a password; give the key in ${key_env}")
        self.shown = urlunsplit(parts._replace(query=""))  # a query may hold a secret
        self.key_env = key_env
        self._patience = Patience(
            retries,
            redirect=0,
            status_forcelist=BUSY,
            allowed_methods=None,  # an embedding may be asked twice: it changes nothing
            backoff_factor=0.5,
            backoff_jitter=0.5,
            backoff_max=60,
            raise_on_status=False,
            raise_on_redirect=False,
        )
        self._seconds = timeout
        self._connections = connections
        self._pool = self._connect()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_pool"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pool = self._connect()  # another process has connections of its own

    def _connect(self) -> urllib3.PoolManager:
        patience = Timeout(connect=10.0, read=self._seconds)
        return urllib3.PoolManager(maxsize=self._connections, block=True, timeout=patience)

    def get(self, url: str) -> Any:
        """The JSON at an address; at the first contact a server that is not there is told of soon."""
        return self._ask("GET", url, None, self._patience.new(total=min(2, self._patience.total or 0)))

    def post(self, url: str, body: dict[str, Any]) -> Any:
        """The JSON that a body is answered with."""
        return self._ask("POST", url, json.dumps(body).encode(), self._patience)

    def _ask(self, method: str, url: str, body: bytes | None, retries: Retry) -> Any:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        key = os.environ.get(self.key_env)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        try:
            response = self._pool.request(method, url, body=body, headers=headers, retries=retries)
        except MaxRetryError as error:
            raise MeantimeError(self._unreachable(error.reason)) from None
        except HTTPError as error:
            raise MeantimeError(self._unreachable(error)) from None
        if response.status != 200:
            raise self._refusal(response, url)
        try:
            return json.loads(response.data)
        except ValueError:
            raise NothingThereError(
                f"{self.shown} answered something that is not JSON: is it an embeddings API?"
            ) from None

    def _unreachable(self, reason: Exception | None) -> str:
        if isinstance(reason, ReadTimeoutError):
            return (
                f"the embeddings API at {self.shown} did not answer within {self._seconds:g} s; "
                "try again when it is less busy, or give it longer by timeout=…"
            )
        return (
            f"the embeddings API at {self.shown} cannot be reached ({type(reason).__name__}); "
            "is it running, and is the address right?"
        )

    def _refusal(self, response: urllib3.BaseHTTPResponse, url: str) -> MeantimeError:
        status, said = response.status, self._said(response)
        if status == TOO_LARGE:
            return TooLargeError(f"{self.shown} refuses a request as too large, even with one input{said}")
        if status in (401, 403):
            state = "which it does not accept" if os.environ.get(self.key_env) else "which is not set"
            return MeantimeError(f"{self.shown} wants an API key ({status}); it is read from ${self.key_env}, {state}")
        if status in (404, 405):
            return NothingThereError(
                f"{self.shown} has no embeddings API at {urlsplit(url).path} ({status}{said}); give the address of a "
                "Meantime server, http://HOST:PORT, or the whole address of the API, https://HOST/v1/embeddings"
            )
        if status in BUSY:
            return MeantimeError(f"{self.shown} still answers {status} after several tries{said}")
        return MeantimeError(f"{self.shown} answered {status}{said}")

    def _said(self, response: urllib3.BaseHTTPResponse) -> str:
        """The server's own words, if it has any that are fit to repeat."""
        try:
            message = _words(json.loads(response.data))
        except (ValueError, RecursionError):
            return ""
        message = " ".join(message.split())
        key = os.environ.get(self.key_env)
        if key:
            message = message.replace(key, "***")
        return message and f": {message[:300]}"


def _words(said: Any) -> str:
    """The sentence inside {"error": {"message": …}}, {"detail": …}, {"detail": [{"msg": …}]}, {"message": …}."""
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        return _words(said[0]) if said else ""
    if isinstance(said, dict):
        return next((words for name in ("error", "message", "detail", "msg") if (words := _words(said.get(name)))), "")
    return ""
