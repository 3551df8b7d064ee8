"""The first request of a connection is served from memory where the broker is known."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest

from gateway.data_path.connection import ClientConnection
from gateway.data_path.connection_tasks import ConnectionTasks
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.data_path.client_connection import Ground, ground
from tests.support.until import until
from tests.support.wire import Wire, open_wire

NAMED = ApiVersionsRequest(client_software_name="lib", client_software_version="1.2")


@asynccontextmanager
async def at_known_broker(on: Ground, *, is_bootstrap: bool = False) -> AsyncIterator[Wire]:
    """A client at the listener of a broker that has been connected before, or at that of all."""
    (broker,) = (await on.client.ask(MetadataRequest(topics=()), 9)).brokers
    address = on.gateway.address if is_bootstrap else (broker.host, broker.port)
    async with open_wire(address) as earlier:
        await earlier.ask(MetadataRequest(topics=()), 9)
    async with open_wire(address) as client:
        yield client


def newest(on: Ground) -> ClientConnection:
    """The connection that was accepted last."""
    connections = cast("Collection[ClientConnection]", on.gateway.limiter.traffic.open)
    return max(connections, key=lambda connection: connection.accepted_s)


@pytest.fixture
def started_tasks(monkeypatch: pytest.MonkeyPatch) -> list[ClientConnection]:
    """The connections that got tasks since the last `clear`."""
    connections: list[ClientConnection] = []
    start = ConnectionTasks.start

    def record(tasks: ConnectionTasks[ClientConnection], connection: ClientConnection) -> None:
        connections.append(connection)
        start(tasks, connection)

    monkeypatch.setattr(ConnectionTasks, "start", record)
    return connections


@pytest.mark.parametrize("is_bootstrap", [False, True])
async def test_versions_come_from_memory(
    started_tasks: list[ClientConnection], is_bootstrap: bool
) -> None:
    """There is neither a task nor a connection to the broker, from the beginning to the end."""
    async with ground() as on:
        async with at_known_broker(on, is_bootstrap=is_bootstrap) as client:
            await on.broker.down_to(1)  # that of the bootstrap client
            started_tasks.clear()
            answer = await client.ask(NAMED, 3)
            assert (answer.error_code, bool(answer.api_keys)) == (ErrorCode.NONE, True)
            connection = newest(on)
            assert (connection.software.name, connection.is_asleep) == ("lib", True)
            assert on.broker.connections == 1
        await until(lambda: connection.has_ended)
        assert not started_tasks


@pytest.mark.parametrize(
    ("request_", "version", "error"),
    [
        (replace(NAMED, client_software_name="\n"), 3, ErrorCode.INVALID_REQUEST),
        (replace(NAMED, cluster_id="other", node_id=1), 5, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
async def test_refusals_come_from_memory_too(
    request_: ApiVersionsRequest,
    version: int,
    error: ErrorCode,
    started_tasks: list[ClientConnection],
) -> None:
    """The client may ask again on the same connection."""
    async with ground() as on, at_known_broker(on) as client:
        started_tasks.clear()
        assert (await client.ask(request_, version)).error_code == error
        assert (await client.ask(NAMED, 3)).error_code == ErrorCode.NONE
        assert not started_tasks
