"""Writes a simulated run as gateways would. Each load starts a new process."""

from collections.abc import Sequence

from gateway.events.member_events import ClientSeen, MemberJoined
from tests.support.event_writer import START_MS, EventWriter
from tests.support.simulated_events import SimulatedStep


def write(steps: Sequence[SimulatedStep], writer: EventWriter) -> None:
    """Write the steps. Times are simulated, from START_MS on."""
    processes = 1
    for step in steps:
        if step.loaded is not None:
            processes += 1
        writer.process_id = f"process {processes}"
        at_s = step.at_ms / 1000
        (writer.tell if step.is_durable else writer.beside)(at_s, *step.events)
        if step.is_durable:
            natives = [each for each in step.events if _is_native(each)]
            writer.beside(at_s, *(seen(each) for each in natives))


def write_reports(step: SimulatedStep, writer: EventWriter) -> None:
    """Write the reports of commits and fetches. Times are those of the simulator."""
    for at_ms, event in step.offsets:
        writer.beside((at_ms - START_MS) / 1000, event)


def _is_native(event: object) -> bool:
    return isinstance(event, MemberJoined) and event.protocol == "consumer"


def seen(joined: object) -> ClientSeen:
    """The gateway's report of the client that joined."""
    assert isinstance(joined, MemberJoined)
    return ClientSeen(
        member_id=joined.member_id,
        client_id=joined.client_id,
        client_host=joined.client_host,
        instance_id=joined.instance_id,
        software_name=None,
        software_version=None,
        protocol=joined.protocol,
        protocol_type="consumer",
        embedded_version=None,
        assignors=(),
    )
