"""The admin API of a test, over real groups, and requests to it."""

import http.client
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import trio

from gateway.admin.app import ApiContext, admin_app
from gateway.admin.config import AdminConfig
from gateway.admin.server import serve_http
from gateway.board.board import Board
from gateway.board.views import FleetLine
from gateway.cluster.secret import Secret
from gateway.control.handlers import Handlers
from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.config import Limits
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.removal import Removal
from gateway.groups.clock import Clock
from gateway.metrics import Metrics, MetricSources
from gateway.observers.counts import AnswerCounts
from gateway.transport.certificates import TlsContext
from tests.support.hosted_groups import HostedGroups, hosted_groups

HOST = "127.0.0.1"


class Response(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AdminStage:
    """Groups, their board, and the API."""

    def __init__(
        self,
        groups: HostedGroups,
        board: Board,
        port: int,
        stop: trio.Event,
        client_warnings: ClientWarnings,
    ) -> None:
        self.client_warnings = client_warnings
        self.groups = groups
        self.board = board
        self.port = port
        self.stop = stop
        self.tls: ssl.SSLContext | None = None

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        ask = partial(request, self.port, path, method, headers or {}, body, self.tls)
        return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)

    async def command(self, name: str, **fields: Any) -> Response:
        return await self.ask(
            f"/api/commands/{name}",
            method="POST",
            headers={"Content-Type": "application/json"},
            body=json.dumps(fields).encode(),
        )


def request(
    port: int,
    path: str,
    method: str,
    headers: Mapping[str, str],
    body: bytes | None,
    tls: ssl.SSLContext | None,
) -> Response:
    """One request on a connection of its own."""
    if tls is None:
        connection = http.client.HTTPConnection(HOST, port, timeout=10)
    else:
        connection = http.client.HTTPSConnection(HOST, port, timeout=10, context=tls)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        response_headers = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, response_headers, answer.read())
    finally:
        connection.close()


@asynccontextmanager
async def admin_stage(
    *,
    token: Secret | None = None,
    view_token: Secret | None = None,
    tls: TlsContext | None = None,
    metrics_groups_max: int = 500,
    max_groups: int = 8,
    limit_s: float = 30.0,
    fleet: tuple[FleetLine, ...] = (),
) -> AsyncIterator[AdminStage]:
    """The API for the length of the block. `fleet`: the gateways on all machines."""
    with trio.fail_after(limit_s):
        async with hosted_groups(max_groups=max_groups) as groups:
            await groups.nursery.start(groups.table.resume)
            stop = trio.Event()
            limiter, client_warnings = ConnectionLimiter(Limits()), ClientWarnings()
            board = Board(
                groups.table,
                cluster=groups.cluster,
                clock=Clock(),
                config_of=lambda _: groups.config,
                stop=stop,
                limiter=limiter,
                show_fleet=lambda: fleet,
            )
            groups.journal.listen(board.take)
            handlers = Handlers(groups.table, board, groups.journal.emit, Removal(), stop)
            metrics = Metrics(
                MetricSources(
                    board=board,
                    limits=groups.table._services.limits,
                    answers=AnswerCounts(),
                    traffic=limiter.traffic,
                    counts=groups.table._services.counts,
                    client_warnings=client_warnings,
                    now_ms=Clock().now_ms,
                    groups_max=metrics_groups_max,
                )
            )
            context = ApiContext(
                board=board,
                handlers=handlers,
                measure=metrics.measure,
                token=token,
                view_token=view_token,
            )
            app = admin_app(context)
            config = AdminConfig(listen=(HOST, 0), token=token, tls=tls)
            async with trio.open_nursery() as nursery:
                _, port = await nursery.start(partial(serve_http, app, config))
                yield AdminStage(groups, board, port, stop, client_warnings)
                nursery.cancel_scope.cancel()
