"""Addresses in answers are found and replaced, and other fields are unchanged."""

import pytest

from gateway.data_path.rewrite import addresses_in, with_addresses
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from kafka_codecs.describe_quorum import DescribeQuorumResponse, Listener, Node
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import Coordinator, FindCoordinatorResponse
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.metadata import MetadataResponse, MetadataResponseBroker
from kafka_codecs.produce import NodeEndpoint, ProduceResponse
from kafka_codecs.share_acknowledge import ShareAcknowledgeResponse
from kafka_codecs.share_fetch import ShareFetchResponse


def answers(one: tuple[str, int], two: tuple[str, int]) -> list[Struct]:
    """Every answer with addresses, each with the addresses of brokers 1 and 2."""
    (host, port), (other_host, other_port) = one, two
    endpoints = (
        NodeEndpoint(node_id=1, host=host, port=port, rack="r"),
        NodeEndpoint(node_id=2, host=other_host, port=other_port),
    )
    return [
        MetadataResponse(
            brokers=(
                MetadataResponseBroker(node_id=1, host=host, port=port, rack="r"),
                MetadataResponseBroker(node_id=2, host=other_host, port=other_port),
            ),
            cluster_id="c",
            controller_id=2,
        ),
        DescribeClusterResponse(
            cluster_id="c",
            brokers=(
                DescribeClusterBroker(broker_id=1, host=host, port=port, rack="r"),
                DescribeClusterBroker(broker_id=2, host=other_host, port=other_port),
            ),
        ),
        FindCoordinatorResponse(
            coordinators=(
                Coordinator(key="a", node_id=1, host=host, port=port),
                Coordinator(key="b", node_id=2, host=other_host, port=other_port),
                Coordinator(
                    key="c",
                    node_id=-1,
                    host="",
                    port=-1,
                    error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ),
            )
        ),
        ProduceResponse(node_endpoints=endpoints),
        ShareFetchResponse(node_endpoints=endpoints),
        ShareAcknowledgeResponse(node_endpoints=endpoints),
    ]


THEIRS = answers(("kafka-1", 9092), ("kafka-2", 9093))
OURS = answers(("gateway", 19093), ("gateway", 19094))


def test_the_addresses_of_controllers_are_left_out() -> None:
    """Clients need none of them, and they lead around the gateway."""
    listener = Listener(name="CONTROLLER", host="kafka-1", port=9093)
    answer = DescribeQuorumResponse(nodes=(Node(node_id=1, listeners=(listener,)),))
    assert addresses_in(answer) == {}
    assert with_addresses(answer, lambda _, address: address) == DescribeQuorumResponse(
        nodes=(Node(node_id=1, listeners=()),)
    )


@pytest.mark.parametrize("answer", THEIRS, ids=lambda answer: type(answer).__name__)
def test_every_address_is_found(answer: Struct) -> None:
    """Addresses are returned by node id."""
    assert addresses_in(answer) == {1: ("kafka-1", 9092), 2: ("kafka-2", 9093)}


@pytest.mark.parametrize(("theirs", "ours"), list(zip(THEIRS, OURS, strict=True)))
def test_only_addresses_are_replaced(theirs: Struct, ours: Struct) -> None:
    """Node ids, racks, errors and the addresses of missing brokers stay."""
    assert with_addresses(theirs, lambda node_id, _: ("gateway", 19092 + node_id)) == ours


def test_the_single_coordinator_of_old_versions_is_replaced() -> None:
    """Without a coordinator nothing is replaced."""
    coordinator = FindCoordinatorResponse(node_id=2, host="kafka-2", port=9093)
    ours = with_addresses(coordinator, lambda node_id, _: ("gateway", 19092 + node_id))
    assert ours == FindCoordinatorResponse(node_id=2, host="gateway", port=19094)
    nobody = FindCoordinatorResponse(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, host="", port=-1
    )
    assert with_addresses(nobody, lambda *_: ("gateway", 1)) == nobody


def test_answers_without_addresses_are_an_error() -> None:
    """The table lists the answers to rewrite."""
    with pytest.raises(TypeError):
        addresses_in(HeartbeatResponse())
