"""Finds out at the start how many connections the brokers accept from the gateway's address, which
all its clients share. Changes nothing."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_configs import broker_configs
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from kafka_codecs.metadata import MetadataRequest, MetadataResponseBroker

BROKERS_ASKED_MAX = 20
"""Brokers of one cluster usually have the same configs."""
ANSWER_TIMEOUT_S = 5.0
"""The limit for each of them. All are asked at the same time, so that one that hangs does not hide
the others."""

_TOTAL, _PER_IP = "max.connections", "max.connections.per.ip"
_OVERRIDES = "max.connections.per.ip.overrides"
_NAMES = (_TOTAL, _PER_IP, _OVERRIDES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimit:
    """A config of a broker that limits the gateway's connections to it."""

    node_id: int
    config: str
    limit: int


async def connection_limits_below(
    wanted: int, connection: BrokerConnection, access: Access
) -> list[ConnectionLimit]:
    """The limits of brokers that are below this number of connections. A broker that cannot be
    asked, or hides its limits because DESCRIBE_CONFIGS on the cluster is missing, adds none. Raises
    UpstreamError."""
    limits_below: list[ConnectionLimit] = []

    async def ask(broker: MetadataResponseBroker) -> None:
        address = (broker.host, broker.port)
        with suppress(UpstreamError), trio.move_on_after(ANSWER_TIMEOUT_S):
            async with await BrokerConnection.open(*address, access=access) as opened:
                configs = await broker_configs(opened, broker.node_id, _NAMES)
                limits = _limits(configs, opened.local_host)
                limits_below.extend(
                    ConnectionLimit(node_id=broker.node_id, config=config, limit=limit)
                    for config, limit in limits
                    if limit < wanted
                )

    brokers = (await connection.ask(MetadataRequest(topics=()))).brokers
    async with trio.open_nursery() as nursery:
        for broker in islice(brokers, BROKERS_ASKED_MAX):
            nursery.start_soon(ask, broker)
    return sorted(limits_below, key=lambda limit: limit.node_id)


def _limits(configs: Mapping[str, str | None], local_host: str) -> Iterator[tuple[str, int]]:
    """An override for our address replaces the limit for all addresses."""
    limits = {name: configs.get(name) or "" for name in (_TOTAL, _PER_IP)}
    for override in (configs.get(_OVERRIDES) or "").split(","):
        host, _, limit = override.strip().rpartition(":")
        if host == local_host:
            del limits[_PER_IP]
            limits[_OVERRIDES] = limit
            break
    return ((name, int(limit)) for name, limit in limits.items() if limit.isdigit())
