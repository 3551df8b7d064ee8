"""Finds and replaces broker addresses in upstream answers. Pure functions on decoded messages."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gateway.cluster.broker_connection import Address
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from kafka_codecs.describe_log_dirs import DescribeLogDirsResponse
from kafka_codecs.describe_quorum import DescribeQuorumResponse
from kafka_codecs.find_coordinator import Coordinator, FindCoordinatorResponse
from kafka_codecs.list_transactions import ListTransactionsResponse
from kafka_codecs.metadata import MetadataResponse, MetadataResponseBroker
from kafka_codecs.produce import NodeEndpoint, ProduceResponse
from kafka_codecs.share_acknowledge import ShareAcknowledgeResponse
from kafka_codecs.share_fetch import ShareFetchResponse

Readdress = Callable[[int, Address], Address]
"""Maps a node id and its upstream address to the address for clients."""

_Addressed = TypeVar(
    "_Addressed",
    MetadataResponseBroker,
    DescribeClusterBroker,
    Coordinator,
    FindCoordinatorResponse,
    NodeEndpoint,
)


def addresses_in(message: Struct) -> dict[int, Address]:
    """All broker addresses in an answer, by node id."""
    match message:
        case MetadataResponse(brokers=brokers):
            named = [(broker.node_id, broker.host, broker.port) for broker in brokers]
        case DescribeClusterResponse(brokers=described):
            named = [(broker.broker_id, broker.host, broker.port) for broker in described]
        case FindCoordinatorResponse(coordinators=coordinators):
            named = [
                (coordinator.node_id, coordinator.host, coordinator.port)
                for coordinator in coordinators
            ]
            named.append((message.node_id, message.host, message.port))
        case DescribeQuorumResponse() | ListTransactionsResponse() | DescribeLogDirsResponse():
            named = []
        case ProduceResponse() | ShareFetchResponse() | ShareAcknowledgeResponse():
            named = [(node.node_id, node.host, node.port) for node in message.node_endpoints]
        case _:
            raise TypeError(f"{type(message).__name__} has no addresses to rewrite")
    return {node_id: (host, port) for node_id, host, port in named if host}


def with_addresses(message: Struct, readdress: Readdress) -> Struct:
    """The answer with all broker addresses replaced. Those of controllers are left out, because no
    client needs them.

    An empty host stays: FindCoordinator has none when it returns an error.
    """

    def replace_address(named: _Addressed, node_id: int) -> _Addressed:
        if not named.host:
            return named
        host, port = readdress(node_id, (named.host, named.port))
        return replace(named, host=host, port=port)

    match message:
        case MetadataResponse(brokers=brokers):
            return replace(message, brokers=tuple(replace_address(b, b.node_id) for b in brokers))
        case DescribeClusterResponse(brokers=described):
            return replace(
                message, brokers=tuple(replace_address(b, b.broker_id) for b in described)
            )
        case FindCoordinatorResponse(coordinators=coordinators):
            batch = tuple(
                replace_address(coordinator, coordinator.node_id) for coordinator in coordinators
            )
            return replace(replace_address(message, message.node_id), coordinators=batch)
        case ListTransactionsResponse() | DescribeLogDirsResponse():
            return message
        case DescribeQuorumResponse(nodes=nodes):
            return replace(message, nodes=tuple(replace(node, listeners=()) for node in nodes))
        case ProduceResponse() | ShareFetchResponse() | ShareAcknowledgeResponse():
            endpoints = tuple(
                replace_address(node, node.node_id) for node in message.node_endpoints
            )
            return replace(message, node_endpoints=endpoints)
        case _:
            raise TypeError(f"{type(message).__name__} has no addresses to rewrite")
