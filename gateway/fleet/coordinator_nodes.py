"""Shows the coordinator nodes of a fleet in Metadata, FindCoordinator and DescribeConfigs. Pure
functions on decoded messages.
"""

from collections.abc import Callable
from dataclasses import replace

from gateway.fleet.member import ID_DIGITS, FleetMember, broker_of
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.metadata import MetadataResponse, MetadataResponseBroker

_NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def add_coordinators(
    member: FleetMember, answer: MetadataResponse, address_of: Callable[[int], tuple[str, int]]
) -> MetadataResponse:
    """The answer with the coordinator nodes of each of its brokers: clients ignore a coordinator
    that Metadata does not list. The same at every process."""
    nodes = [
        MetadataResponseBroker(node_id=node_id, host=host, port=port)
        for broker in answer.brokers
        for node_id in member.coordinator_ids(broker.node_id)
        for host, port in (address_of(node_id),)
    ]
    return replace(answer, brokers=(*answer.brokers, *nodes))


def name_owners(
    member: FleetMember, request: FindCoordinatorRequest, answer: FindCoordinatorResponse
) -> FindCoordinatorResponse:
    """The answer with the coordinator node of each group's owner in place of the broker. Its
    addresses stay those of the brokers."""
    if request.key_type != CoordinatorType.GROUP:
        return answer

    def name_owner(coordinator: Coordinator) -> Coordinator:
        if coordinator.error_code or coordinator.node_id < 0:
            return coordinator
        node_id = member.node_of(coordinator.key, coordinator.node_id)
        if node_id is None:
            return Coordinator(
                key=coordinator.key, node_id=-1, host="", port=-1, error_code=_NOT_AVAILABLE
            )
        return replace(coordinator, node_id=node_id)

    if answer.node_id >= 0 and answer.host:
        node_id = member.node_of(request.key, answer.node_id)
        if node_id is None:
            return FindCoordinatorResponse(node_id=-1, port=-1, error_code=_NOT_AVAILABLE)
        answer = replace(answer, node_id=node_id)
    return replace(answer, coordinators=tuple(map(name_owner, answer.coordinators)))


def ask_brokers(request: DescribeConfigsRequest) -> DescribeConfigsRequest:
    """The request with brokers in place of their coordinator nodes, which the cluster does not
    know."""
    return replace(request, resources=tuple(map(_of_broker, request.resources)))


def answer_for_nodes(
    request: DescribeConfigsRequest, answer: DescribeConfigsResponse
) -> DescribeConfigsResponse:
    """The answer to that with the names of the client's own request."""
    original_names = {
        _of_broker(resource).resource_name: resource.resource_name
        for resource in request.resources
        if resource.resource_type == ConfigResourceType.BROKER
    }
    return replace(
        answer,
        results=tuple(
            replace(
                result, resource_name=original_names.get(result.resource_name, result.resource_name)
            )
            if result.resource_type == ConfigResourceType.BROKER
            else result
            for result in answer.results
        ),
    )


def _of_broker(resource: DescribeConfigsResource) -> DescribeConfigsResource:
    name = resource.resource_name
    is_broker = resource.resource_type == ConfigResourceType.BROKER
    # A client may send thousands of digits, which Python does not convert to a number.
    if not (is_broker and len(name) == ID_DIGITS and name.isdecimal()):
        return resource
    return replace(resource, resource_name=str(broker_of(int(name))))
