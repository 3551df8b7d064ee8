"""What clients of a fleet see in Metadata and FindCoordinator."""

from gateway.fleet.coordinator_nodes import (
    add_coordinators,
    answer_for_nodes,
    ask_brokers,
    name_owners,
)
from gateway.fleet.member import FleetMember, broker_of, coordinator_id
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.metadata import MetadataResponse, MetadataResponseBroker

FLEET = [FleetMember(slot=slot, slots=2, shards=16) for slot in range(2)]
MEMBER = FLEET[0]


def address_of(node_id: int) -> tuple[str, int]:
    """An address that tells nodes apart."""
    return "gateway", node_id % 60_000


def coordinator(key: str, node_id: int) -> Coordinator:
    """A coordinator as a broker names it."""
    return Coordinator(key=key, node_id=node_id, host="broker", port=9092)


def test_metadata_is_the_same_at_every_process() -> None:
    """Clients keep one list, wherever they have asked for it."""
    brokers = tuple(
        MetadataResponseBroker(node_id=node_id, host="gateway", port=node_id, rack="a")
        for node_id in (1, 2)
    )
    answer = MetadataResponse(brokers=brokers, controller_id=2)
    shown = [add_coordinators(member, answer, address_of) for member in FLEET]
    assert shown[0] == shown[1]
    assert shown[0].brokers[:2] == brokers
    listed = {broker.node_id: (broker.host, broker.port) for broker in shown[0].brokers[2:]}
    ids = [coordinator_id(slot, broker) for broker in (1, 2) for slot in range(2)]
    assert listed == {node_id: address_of(node_id) for node_id in ids}
    assert shown[0].controller_id == 2


def test_metadata_without_brokers_gets_no_coordinator_nodes() -> None:
    """An answer with an error names none."""
    answer = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    assert add_coordinators(MEMBER, answer, address_of) == answer


def test_every_group_of_a_batch_is_sent_to_its_owner_at_the_same_broker() -> None:
    """The owner's node leads to the broker that coordinates the group in the cluster."""
    keys = [f"group-{number}" for number in range(20)]
    request = FindCoordinatorRequest(coordinator_keys=tuple(keys))
    answer = FindCoordinatorResponse(
        coordinators=tuple(coordinator(key, 1 + number % 3) for number, key in enumerate(keys))
    )
    named = name_owners(MEMBER, request, answer)
    assert named == name_owners(FLEET[1], request, answer)
    for before, after in zip(answer.coordinators, named.coordinators, strict=True):
        assert broker_of(after.node_id) == before.node_id
        assert after.node_id == coordinator_id(MEMBER.slot_of(after.key), before.node_id)
    assert len({MEMBER.slot_of(key) for key in keys}) == 2


def test_the_group_of_an_older_request_is_sent_to_its_owner() -> None:
    """Up to v3 the answer does not repeat the key."""
    request = FindCoordinatorRequest(key="orders")
    answer = FindCoordinatorResponse(node_id=3, host="broker", port=9092)
    named = name_owners(MEMBER, request, answer)
    assert named.node_id == coordinator_id(MEMBER.slot_of("orders"), 3)


def test_transactions_stay_with_their_broker() -> None:
    """Only groups have owners among the processes."""
    for key_type in (CoordinatorType.TRANSACTION, CoordinatorType.SHARE):
        request = FindCoordinatorRequest(key="orders", key_type=key_type)
        answer = FindCoordinatorResponse(
            node_id=3, host="broker", port=9092, coordinators=(coordinator("orders", 3),)
        )
        assert name_owners(MEMBER, request, answer) is answer


def test_an_error_stays_an_error() -> None:
    """An error names no node."""
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    one = Coordinator(key="orders", node_id=-1, host="", port=-1, error_code=code)
    batch = FindCoordinatorResponse(coordinators=(one,))
    request = FindCoordinatorRequest(coordinator_keys=("orders",))
    assert name_owners(MEMBER, request, batch) == batch
    single = FindCoordinatorResponse(error_code=code, node_id=-1, port=-1)
    assert name_owners(MEMBER, FindCoordinatorRequest(key="orders"), single) == single


def test_a_coordinator_node_has_the_configs_of_its_broker() -> None:
    """The answer has the name that the client has asked for. Other names may look like a node's."""
    node = str(coordinator_id(1, 7))
    asked = [
        (ConfigResourceType.BROKER, node),
        (ConfigResourceType.BROKER, "3"),
        (ConfigResourceType.BROKER, ""),
        (ConfigResourceType.BROKER, "0" * 30_000 + node),
        (ConfigResourceType.TOPIC, node),
    ]
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in asked
        )
    )
    of_brokers = [resource.resource_name for resource in ask_brokers(request).resources]
    assert of_brokers == ["7", "3", "", asked[3][1], node]
    answer = DescribeConfigsResponse(
        results=tuple(
            DescribeConfigsResult(resource_type=kind, resource_name=name)
            for (kind, _), name in zip(asked, of_brokers, strict=True)
        )
    )
    named = answer_for_nodes(request, answer)
    assert [(result.resource_type, result.resource_name) for result in named.results] == asked
