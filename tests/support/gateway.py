"""A whole gateway in this process, on free ports, for the length of a block."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from coordinator.interface.config import GroupConfig
from gateway.cluster.broker_connection import BrokerConnection
from gateway.data_path.config import PERMISSION_LIFETIME_S, DataPathConfig, Limits
from gateway.events import gateway_events
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    ClusterMembersSeen,
    ConversionRefused,
    GroupForwarded,
    HostingStarted,
    ReadinessChanged,
)
from gateway.events.member_events import ClientSeen
from gateway.events.offset_events import OffsetsCommitted, OffsetsFetched
from gateway.fleet.fleet_state import SLOTS_FOLDER
from gateway.fleet.member import FleetMember
from gateway.gateway import GatewayConfig, run_gateway
from gateway.journal.journal import Sinks
from gateway.operators import NO_OPERATORS, OperatorsConfig
from gateway.quotas.shares import ShareRule
from gateway.security import UNPROTECTED, Security
from gateway.state_log.log import StateLog
from gateway.state_log.memory import MemoryLog
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.metadata import MetadataRequest

Address = tuple[str, int]

SEEN_ON_THE_WAY = (
    ClientSeen,
    ConversionRefused,
    GroupForwarded,
    HostingStarted,
    OffsetsCommitted,
    OffsetsFetched,
    ClusterMembersSeen,
    ReadinessChanged,
)
"""Group events that do not come from an engine."""

QUICK = GroupConfig(classic_initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)
"""For tests on the wall clock: rebalances do not wait for more members."""


@dataclass(slots=True, kw_only=True)
class Gateway:
    """A running gateway."""

    address: Address
    """Bootstrap."""
    stop: trio.Event
    """Set this to let the gateway drain."""
    ended: trio.Event = field(default_factory=trio.Event)
    events: list[GatewayEvent] = field(default_factory=list)
    """All events of the engines of its groups."""

    @property
    def bootstrap_servers(self) -> str:
        host, port = self.address
        return f"{host}:{port}"

    async def listeners(self) -> dict[int, Address]:
        """The listener of each broker, as in the metadata that clients receive."""
        async with await BrokerConnection.open(*self.address) as connection:
            answer = await connection.ask(MetadataRequest(topics=()))
        return {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}


def _is_of_an_engine(event: GatewayEvent) -> bool:
    is_of_the_gateway = type(event).__module__ == gateway_events.__name__
    return not is_of_the_gateway and not isinstance(event, SEEN_ON_THE_WAY)


@asynccontextmanager
async def whole_gateway(
    upstream: Sequence[Address],
    *,
    groups: GroupConfig = QUICK,
    host_patterns: tuple[str, ...] = ("*",),
    max_groups: int = 16,
    max_groups_per_address: int | None = None,
    drain_timeout_s: float = 5.0,
    listen_host: str = "127.0.0.1",
    advertised_host: str = "127.0.0.1",
    state_log: StateLog | None = None,
    security: Security = UNPROTECTED,
    permission_lifetime_s: float = PERMISSION_LIFETIME_S,
    operators: OperatorsConfig = NO_OPERATORS,
    listen_port: int = 0,
    state_folder: Path | None = None,
    member: FleetMember | None = None,
    **config: Any,
) -> AsyncIterator[Gateway]:
    """Run a gateway as `groupferry serve` does. A member of a fleet needs port and folder. `config`
    is more of `GatewayConfig`."""
    events: list[GatewayEvent] = []
    if member is not None and state_folder is not None:
        control_folder = state_folder / SLOTS_FOLDER / str(member.slot)
        control_folder.mkdir(parents=True)
        operators = OperatorsConfig(
            control_folder=control_folder, fleet_folder=state_folder, member=member
        )
    stop, ended = trio.Event(), trio.Event()

    async def run(task_status: trio.TaskStatus[Address]) -> None:
        whole_config = GatewayConfig(
            upstream=tuple(upstream),
            access=security.own,
            data_path=DataPathConfig(
                listen_host=listen_host,
                listen_port=listen_port,
                advertised_host=advertised_host,
                state_folder=state_folder,
                member=member,
                tls=security.listening,
                to_brokers=security.client_access,
                clients_authenticate=security.clients_authenticate,
                client_side_api_key=(
                    ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT
                    if groups.client_side_assignors
                    else None
                ),
                limits=Limits(
                    drain_timeout_s=drain_timeout_s, permission_lifetime_s=permission_lifetime_s
                ),
            ),
            groups=groups,
            max_groups=max_groups,
            share_of_groups=ShareRule(per_address=max_groups_per_address or max_groups),
            host_patterns=host_patterns,
            operators=operators,
            **config,
        )
        sinks = Sinks(
            listener=lambda envelope: (
                events.append(envelope.fields) if _is_of_an_engine(envelope.fields) else None
            )
        )
        await run_gateway(
            whole_config, state_log or MemoryLog(), sinks, stop=stop, task_status=task_status
        )
        ended.set()

    async with trio.open_nursery() as nursery:
        address = await nursery.start(run)
        yield Gateway(address=address, stop=stop, ended=ended, events=events)
        nursery.cancel_scope.cancel()
