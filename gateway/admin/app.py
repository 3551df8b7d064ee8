"""The admin API: views of the board, its events as a stream, and commands.

It is served at a port, and at the control socket. What an address means is in the description that
`openapi.py` makes, at `/api/openapi.json`.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import trio
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gateway.admin.guard import App, Guard
from gateway.admin.openapi import description
from gateway.board.board import Board
from gateway.board.recent_events import RecentEvent, RecentEvents
from gateway.cluster.secret import Secret
from gateway.control.fleet_door import FleetDoor
from gateway.control.handlers import Handlers
from gateway.control.messages import (
    COMMAND_BYTES_MAX,
    COMMANDS_PATH,
    GIVEN_BY_HEADER,
    METRICS_PATH,
    ORDERS,
    QUESTIONS,
    CommandRefused,
    NotKnown,
    Question,
)
from gateway.metrics import CONTENT_TYPE
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal
from gateway.readable import escape

BODY_S = 5.0
"""How long a client may take to send its command."""
SUBSCRIBERS_MAX = 32
"""Streams of events at a time, with a share for each address. None has a queue: each reads the
board's memory of events."""
EVENTS_TOGETHER_MAX = 100
"""The most events of one stream that are sent together."""
KEEP_ALIVE_S = 15.0
"""How often a stream without events shows that it is alive."""
PAGE_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    """What the API serves."""

    board: Board
    handlers: Handlers | FleetDoor
    measure: Callable[[], Awaitable[bytes]] | None
    """The metrics as text for Prometheus; None if nothing is measured, without a port."""
    token: Secret | None = None
    view_token: Secret | None = None
    is_local: bool = False
    """Whether it is served at the control socket, where a process of a fleet passes on commands
    that it was given."""


def admin_app(context: ApiContext) -> App:
    """The API and the page as an ASGI application."""
    page = dict(_page())
    api = _Api(context)
    routes = [
        Route("/livez", api.livez),
        Route("/readyz", api.readyz),
        Route(METRICS_PATH, api.metrics),
        *(Route(path, api.show(question)) for path, question in QUESTIONS.items()),
        Route("/api/events", api.events),
        Route(f"{COMMANDS_PATH}/{{command}}", api.command, methods=["POST"]),
        Route("/api/openapi.json", api.openapi),
        *(Route(path, _serve_bytes(content, kind)) for path, (content, kind) in page.items()),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
    return Guard(app, token=context.token, view_token=context.view_token, public=page)


class _Api:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._subscribers = SharedTotal(SUBSCRIBERS_MAX)
        self._description = JSONResponse(description())

    async def livez(self, _: Request) -> Response:
        """The process runs."""
        return JSONResponse({"is_alive": True})

    async def readyz(self, _: Request) -> Response:
        """Clients can be served."""
        door = self._context.handlers
        if isinstance(door, FleetDoor):
            readiness = await door.readiness()
        else:
            readiness = self._context.board.readiness()
        return _view(readiness, 200 if readiness.is_ready else 503)

    async def metrics(self, _: Request) -> Response:
        """The metrics, for Prometheus."""
        if self._context.measure is None:
            return _reason(503, "nothing is measured without admin_listen: set it")
        return Response(await self._context.measure(), headers={"Content-Type": CONTENT_TYPE})

    async def openapi(self, _: Request) -> Response:
        """The description of this API."""
        return self._description

    def show(self, question: type[Question]) -> Endpoint:
        """An endpoint that answers a question, whose fields are the query."""
        fields = question.model_fields.keys()

        async def answer(request: Request) -> Response:
            # Not a part of the path: a group id may have slashes, dots and line ends.
            query = {name: text for name, text in request.query_params.items() if name in fields}
            try:
                view_request = question.model_validate_strings(query)
                return _view(await self._context.handlers.show(view_request))
            except ValidationError as error:
                return _reason(400, _first(error))
            except NotKnown as unknown:
                return _reason(404, str(unknown))
            except CommandRefused as refused:
                return _reason(503, str(refused))

        return answer

    async def command(self, request: Request) -> Response:
        """Carry out a command."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _reason(415, "give the command as application/json")
        model = ORDERS.get(request.path_params["command"])
        if model is None:
            return _reason(404, f"there is no such command, only {', '.join(ORDERS)}")
        try:
            with trio.fail_after(BODY_S):
                fields = await _body(request)
            order = model.model_validate_json(fields)
        except trio.TooSlowError:
            return _reason(408, f"the gateway waited {BODY_S:g} s for the command")
        except ClientDisconnect:
            return _reason(400, "the client has gone")
        except _TooLong:
            return _reason(413, f"a command has at most {COMMAND_BYTES_MAX} bytes")
        except ValidationError as error:
            return _reason(400, _first(error))
        given_by = request.scope["given_by"]
        if self._context.is_local:
            given_by = request.headers.get(GIVEN_BY_HEADER, given_by)
        try:
            return _view(await self._context.handlers.answer(order, given_by))
        except CommandRefused as refused:
            return _reason(409, str(refused))

    async def events(self, request: Request) -> Response:
        """Events as they happen."""
        owner = QuotaKey(request.client.host if request.client else "")
        if not self._subscribers.has_room(owner):
            return _reason(
                503, f"{self._subscribers.used} clients follow the events, the most allowed"
            )
        door = self._context.handlers
        recent = door.events if isinstance(door, FleetDoor) else self._context.board.events
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        start = _start(recent, given)
        if start is None:
            return _reason(400, "after: give an id of this stream, as STREAM-POSITION")
        stream = self._stream(recent, start, request.query_params.get("group_id"), owner)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _stream(
        self, recent: RecentEvents, position: int, group_id: str | None, owner: QuotaKey
    ) -> AsyncIterator[bytes]:
        self._subscribers.take(owner)
        door = self._context.handlers
        if isinstance(door, FleetDoor):
            door.followers += 1
        try:
            yield _named_event(recent, "hello", position)
            while True:
                if not recent.has_after(position):
                    position = recent.first - 1
                    yield _named_event(recent, "gap", position)
                batch = recent.after(position, events_max=EVENTS_TOGETHER_MAX)
                if batch:
                    position = batch[-1].position
                    text = b"".join(
                        _event(recent, event)
                        for event in batch
                        if group_id in (None, event.group_id)
                    )
                    if text:
                        yield text
                else:
                    with trio.move_on_after(KEEP_ALIVE_S) as limit:
                        await recent.wait_after(position)
                    if limit.cancelled_caught:
                        yield _named_event(recent, "alive", position)
        finally:
            self._subscribers.free(owner)
            if isinstance(door, FleetDoor):
                door.followers -= 1


class _TooLong(Exception):
    """The body is too long."""


async def _body(request: Request) -> bytes:
    """Raises _TooLong, ClientDisconnect."""
    body = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > COMMAND_BYTES_MAX:
                raise _TooLong
    return bytes(body)


def _start(recent: RecentEvents, given: str | None) -> int | None:
    """The position after which a stream begins; None if `given` is no id. Everything in another
    process's stream is sent."""
    if given is None:
        return recent.last
    stream_id, _, position = given.rpartition("-")
    if not (position.isascii() and position.isdigit()) or len(position) > 18:
        return None
    return min(int(position), recent.last) if stream_id == recent.stream_id else 0


def _event(recent: RecentEvents, event: RecentEvent) -> bytes:
    with_sentence = b'{"sentence":%b,' % json.dumps(event.sentence).encode() + event.line[1:]
    line = escape(with_sentence.decode()).encode()
    return b"id: %b-%d\ndata: %b\n\n" % (recent.stream_id.encode(), event.position, line)


def _named_event(recent: RecentEvents, name: str, position: int) -> bytes:
    return f"event: {name}\nid: {recent.stream_id}-{position}\ndata: {{}}\n\n".encode()


def _view(view: BaseModel, status: int = 200) -> Response:
    """The answer as JSON that cannot disturb a terminal: clients choose names."""
    return Response(escape(view.model_dump_json()), status, media_type="application/json")


def _reason(status: int, reason: str) -> Response:
    text = escape(json.dumps({"reason": reason}, ensure_ascii=False))
    return Response(text, status, media_type="application/json")


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


async def _http_error(_: Request, error: Any) -> Response:
    return JSONResponse({"reason": error.detail}, error.status_code, error.headers)


def _page() -> Mapping[str, tuple[bytes, str]]:
    pages = {
        f"/{file.name}": (file.read_bytes(), PAGE_TYPES[f".{file.name.rpartition('.')[2]}"])
        for file in files("gateway.admin").joinpath("page").iterdir()
        if f".{file.name.rpartition('.')[2]}" in PAGE_TYPES
    }
    if "/index.html" in pages:
        pages["/"] = pages.pop("/index.html")
    return pages


def _serve_bytes(content: bytes, kind: str) -> Endpoint:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
