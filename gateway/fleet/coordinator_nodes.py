"""Shows the coordinator nodes of a fleet in Metadata and FindCoordinator. Pure functions on decoded
messages.
"""

from collections.abc import Callable
from dataclasses import replace

from gateway.fleet.member import FleetMember, coordinator_id
from kafka_codecs.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.metadata import MetadataResponse, MetadataResponseBroker


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
        slot = member.slot_of(coordinator.key)
        return replace(coordinator, node_id=coordinator_id(slot, coordinator.node_id))

    if answer.node_id >= 0 and answer.host:
        slot = member.slot_of(request.key)
        answer = replace(answer, node_id=coordinator_id(slot, answer.node_id))
    return replace(answer, coordinators=tuple(map(name_owner, answer.coordinators)))
