"""Who may ask, what browsers may do with the answers, and the count of all of it."""

import hmac
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meantime.serve.errors import ApiError, answer, log
from meantime.serve.metrics import Metrics

OPEN = ("/", "/healthz", "/readyz", "/favicon.ico")  # without a token; so are the page's own files
OPEN_UNDER = ("/static/", "/samples/")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


class Guard:
    """Around all endpoints: asks for the token, adds the headers, counts; and answers where something of ours fails."""

    def __init__(self, app: ASGIApp, token: str | None, metrics: Metrics) -> None:
        self.app = app
        self.token = None if token is None else token.encode()
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in HEADERS if h[0] not in present)]
                if scope["path"].startswith("/v1/") and b"cache-control" not in present:
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            if self._may(scope):
                await self.app(scope, receive, guarded)
            else:
                refusal = ApiError(
                    401, "send the service's token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"}
                )
                await answer(refusal)(scope, receive, guarded)
        except Exception:
            if status:  # too late for another answer: the server logs it and closes the connection
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])
            failure = ApiError(500, "something failed inside the service; its log has the details")
            await answer(failure)(scope, receive, guarded)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "OPTIONS") else "other"
            self.metrics.count(method, route, status, time.perf_counter() - started)

    def _may(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if self.token is None or path in OPEN or path.startswith(OPEN_UNDER):
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, token = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.token)
