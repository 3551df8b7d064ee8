"""Decides which requests reach the admin API: who may ask, from where, and how many at a time."""

import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from ipaddress import ip_address
from typing import Any

import structlog
from starlette.responses import JSONResponse, Response

from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.secret import Secret
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal

REQUESTS_MAX = 128
"""Requests that are answered at a time, streams of events included. An address has its share: a
load balancer may stand in front of all clients."""
PROBES_MAX = 32
"""Probes at a time that are answered although no more requests are, with a share for each address:
no other client can make the gateway look dead."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PROBES = frozenset({"/livez", "/readyz"})
"""What a client may ask without a token."""
LOOKS = frozenset({"GET", "HEAD"})
"""The methods of requests that change nothing."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

log = structlog.get_logger()


class Guard:
    """Passes requests on to an application. Any other it refuses."""

    def __init__(
        self,
        app: App,
        *,
        token: Secret | None,
        view_token: Secret | None = None,
        public: Collection[str],
    ) -> None:
        """`token`: what a client must show; None on loopback. `view_token` allows everything but
        commands. `public` are the paths of the page, which has no data of its own."""
        self._app = app
        self._token = token
        self._view_token = view_token
        self._free = {*PROBES, *public}
        self._requests = SharedTotal(REQUESTS_MAX)
        self._probes = SharedTotal(PROBES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan":
            return  # there is nothing to do
        if scope["type"] == "websocket":
            await _no_websocket()(scope, receive, _with_headers(send))
            return
        owner = QuotaKey(scope["client"][0] if scope.get("client") else "")
        places = self._requests
        if scope["path"] in PROBES and not places.has_room(owner):
            places = self._probes
        refusal = self._refusal(scope) if places.has_room(owner) else _busy()
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        places.take(owner)
        try:
            await self._app(scope, receive, _with_headers(send))
        except Exception:  # the boundary: a bug ends one request
            log.exception("admin_request_failed", path=scope["path"])
            raise
        finally:
            places.free(owner)

    def _refusal(self, scope: Scope) -> Response | None:
        """Why the request goes no further."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self._token is None and not _is_loopback(headers.get(b"host", b"")):
            # A page of anywhere may make its own name lead to this machine.
            return _json_refusal(421, "use a loopback address, or localhost")
        if not _is_of_own_page(headers):
            return _json_refusal(403, "a page of another site asks")
        if self._token is None or scope["path"] in self._free:
            return None
        return self._check(headers, self._token, is_look=scope["method"] in LOOKS)

    def _check(
        self, headers: Mapping[bytes, bytes], token: Secret, *, is_look: bool
    ) -> Response | None:
        scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
        shown = credentials.strip() if scheme.lower() == b"bearer" else b""
        try:
            if hmac.compare_digest(shown, token.read().encode()):
                return None
            if self._view_token is not None and hmac.compare_digest(
                shown, self._view_token.read().encode()
            ):
                return (
                    None
                    if is_look
                    else _json_refusal(403, "this token may read, but not give commands")
                )
        except UpstreamRefused as error:
            log.error("admin_token_unreadable", reason=str(error))  # noqa: TRY400  # no bug
            return _json_refusal(503, "the gateway cannot read its token; its log says why")
        return _json_refusal(
            401, "show the token: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
        )


def _is_loopback(host: bytes) -> bool:
    name = host.decode("latin-1").rpartition(":")[0] or host.decode("latin-1")
    name = name.strip("[]") if name.endswith("]") else name
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _is_of_own_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the request comes from no page, or from ours."""
    origin = headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] == headers.get(b"host")


def _no_websocket() -> Response:
    return _json_refusal(400, "there are no WebSockets here; GET /api/events streams events")


def _busy() -> Response:
    return _json_refusal(503, "too many requests at a time; try again", {"Retry-After": "1"})


def _json_refusal(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"reason": reason}, status, headers)


def _with_headers(send: Send) -> Send:
    async def send_all(message: MutableMapping[str, Any]) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            known = {name.lower() for name, _ in message.get("headers", ())}
            added = [
                (name.lower().encode(), value.encode())
                for name, value in HEADERS.items()
                if name.lower().encode() not in known
            ]
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return send_all
