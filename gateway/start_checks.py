"""Checks the cluster, and what it allows the gateway, before that serves."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, replace

import structlog
import trio

from coordinator.interface.config import GroupConfig
from gateway.cluster.access import Access
from gateway.cluster.broker_configs import cluster_numbers
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.connection_limits import connection_limits_below
from gateway.cluster.embedded import is_embedded
from gateway.cluster.errors import UpstreamError
from gateway.cluster.finding import FoundCluster, find_cluster
from gateway.cluster.librdkafka import client_config
from gateway.cluster.own_permissions import may_read_group, missing_permissions, other_writers
from gateway.data_path.config import DataPathConfig
from gateway.data_path.listeners import check_ports
from gateway.ownership_driver import FleetError
from gateway.settings import BROKER_CONFIGS, Settings, file_key
from gateway.state_folder import bind_to_cluster
from gateway.state_log.kafka.shards import (
    find_writers,
)

log = structlog.get_logger()

CHECK_TIMEOUT_S = 10.0
"""The limit for the questions about permissions and limits of connections. The start continues
without what has not been answered by then."""

MANY_COORDINATOR_NODES = 64
"""librdkafka runs a thread for each node that Metadata lists."""


async def find_usable_cluster(
    settings: Settings, access: Access, data_path: DataPathConfig, *, has_ports: bool
) -> FoundCluster:
    """Find the cluster, and check folder and ports before anything else uses the cluster:
    librdkafka does not say which address hangs, and the current owner of the state topic ends as
    soon as we take it. `has_ports`: whether other processes of the fleet have the ports already.
    Raises UpstreamError, StateFolderError, ListenError."""
    cluster = await find_cluster(settings.upstream, access)
    bind_to_cluster(settings.state_dir, cluster.cluster_id)
    if not has_ports:
        await _check_advertised_name(settings)
        await check_ports(data_path, cluster.brokers)
    return cluster


async def _check_advertised_name(settings: Settings) -> None:
    """Log that clients may not find the gateway under its advertised name. It may be known where
    they run and not here."""
    if settings.advertise is None:
        return
    try:
        with trio.move_on_after(CHECK_TIMEOUT_S):
            await trio.socket.getaddrinfo(settings.advertise, None)
    except OSError as error:
        log.warning("advertise_unresolved", advertise=settings.advertise, reason=str(error))


async def check_cluster(
    settings: Settings,
    address: Address,
    access: Access,
    own_topics: Collection[str],
    max_connections: int,
) -> None:
    """Log what the cluster does not allow the gateway, how few connections its brokers accept, and
    who else may write the gateway's topics. A broker that does not say does not prevent the
    start."""
    with suppress(UpstreamError), trio.move_on_after(CHECK_TIMEOUT_S):
        async with await BrokerConnection.open(*address, access=access) as connection:
            if is_embedded(connection.versions):
                return
            transactional_ids = (
                await find_writers(connection, settings.state_topic, has_shards=settings.has_shards)
                if settings.state == "kafka"
                else ()
            )
            for missing in await missing_permissions(
                connection, own_topics, transactional_ids, settings.fleet_group
            ):
                log.warning("permission_missing", **asdict(missing))
            for low in await connection_limits_below(max_connections, connection, access):
                log.warning("connection_limit_low", **asdict(low), max_connections=max_connections)
    own = None if access.credentials is None else f"User:{access.credentials.username}"
    with suppress(UpstreamError):
        config = client_config(settings.upstream, "groupferry-start", access)
        for topic, writers in (await other_writers(config, own_topics, own)).items():
            if writers:
                log.warning("own_topic_open", topic=topic, principals=sorted(writers))


async def group_config_at(settings: Settings, address: Address, access: Access) -> GroupConfig:
    """The engine's configuration with the brokers' own configs of groups where none is set. Logs
    where one is set to another value: a group behind the gateway then meets a value other than the
    cluster's."""
    configs: Mapping[str, int] = {}
    with suppress(UpstreamError), trio.move_on_after(CHECK_TIMEOUT_S):
        async with await BrokerConnection.open(*address, access=access) as connection:
            if not is_embedded(connection.versions):
                names = [file_key(name) for name in BROKER_CONFIGS]
                configs = await cluster_numbers(connection, access, names)
    theirs = {name: configs[file_key(name)] for name in BROKER_CONFIGS if file_key(name) in configs}
    for name in sorted(settings.model_fields_set & theirs.keys()):
        if (value := getattr(settings, name)) != theirs[name]:
            log.warning("broker_config_differs", setting=name, value=value, broker=theirs[name])
    try:
        settings = settings.with_broker_configs(theirs)
    except ValueError as error:
        log.warning("broker_configs_not_taken", reason=str(error))
    return replace(settings.group_config(), broker_limits=tuple(configs.items()))


def warn_of_nodes(processes: int, cluster: FoundCluster) -> None:
    """Log that a fleet of this many processes, on all its machines, has many coordinator nodes."""
    nodes = processes * len(cluster.brokers)
    if nodes > MANY_COORDINATOR_NODES:
        log.warning("coordinator_nodes_many", nodes=nodes, processes=processes)


async def check_fleet_group(group_id: str, address: Address, access: Access) -> None:
    """Raises FleetError if the gateway may not join the group of its fleet. A broker that does not
    say does not prevent the start."""
    with suppress(UpstreamError), trio.move_on_after(CHECK_TIMEOUT_S):
        async with await BrokerConnection.open(*address, access=access) as connection:
            if not await may_read_group(connection, group_id):
                raise FleetError(
                    f"the gateway's user has no READ on the group {group_id} in the cluster, by"
                    " which its fleet shares the groups: allow it"
                )
