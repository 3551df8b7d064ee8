"""The gateway starts although a broker does not say what the gateway may do."""

import socket

import pytest
import trio

from gateway.cluster import own_permissions
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.own_permissions import missing_permissions, other_writers
from kafka_codecs.apis import ApiKey
from tests.support.fake_broker import running_fake_broker
from tests.support.offset_broker import OffsetBroker


async def test_a_cluster_without_transactions_lacks_no_permission() -> None:
    """The start then fails where the state log is opened, with a reason."""
    broker = OffsetBroker()
    broker.versions = {
        key: versions
        for key, versions in broker.versions.items()
        if key is not ApiKey.TXN_OFFSET_COMMIT
    }
    async with (
        running_fake_broker(broker),
        await BrokerConnection.open(*broker.address) as connection,
    ):
        assert await missing_permissions(connection, [], ["state-0"]) == []


async def test_topics_whose_writers_are_unknown_cost_one_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker accepts connections, and is silent. The gateway asks about all of them
    together."""
    monkeypatch.setattr(own_permissions, "TIMEOUT_S", 1.0)
    asked: list[str] = []
    ask = own_permissions._writers

    def record(config: dict[str, object], topic: str) -> frozenset[str]:
        asked.append(topic)
        missing = ask(config, topic)
        assert sorted(asked) == ["events", "state"]
        return missing

    monkeypatch.setattr(own_permissions, "_writers", record)
    with socket.create_server(("127.0.0.1", 0)) as silent, trio.fail_after(30):
        host, port = silent.getsockname()
        config = {"bootstrap.servers": f"{host}:{port}", "log_level": 0}
        writers = await other_writers(config, ["state", "events"], None)
    assert writers == {"state": frozenset(), "events": frozenset()}


async def test_a_gateway_starts_with_settings_that_librdkafka_refuses() -> None:
    """Python's TLS may read files that librdkafka cannot."""
    config = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "ssl"}
    config |= {"ssl.ca.location": "/nowhere"}
    assert await other_writers(config, ["state"], None) == {"state": frozenset()}
