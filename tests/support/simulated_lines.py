"""Writes a simulated run as gateways would. Each load starts a new process."""

from collections.abc import Sequence
from dataclasses import replace

from gateway.events.event import GatewayEvent
from gateway.events.group_events import HostingStarted, RebalanceEnded, StepEnded
from gateway.events.offset_events import OffsetsCommitted
from tests.support.event_writer import START_MS, EventWriter
from tests.support.simulated_events import SimulatedStep


def write(steps: Sequence[SimulatedStep], writer: EventWriter) -> None:
    """Write the steps. Times are simulated, from START_MS on."""
    processes = 1
    writer.process_id = "process 1"
    _host(writer, steps[0].at_ms / 1000 if steps else 0)
    for step in steps:
        at_s = step.at_ms / 1000
        if step.loaded is not None:
            processes += 1
            writer.restart(f"process {processes}")
            _host(writer, at_s)
        write_reports(step, writer)
        tell = writer.emit if step.is_durable else writer.beside
        tell(at_s, *map(shift_times, step.events))


def _host(writer: EventWriter, at_s: float) -> None:
    writer.beside(at_s, HostingStarted(reason="it is free", anchor_generation=writer.run))


def write_reports(step: SimulatedStep, writer: EventWriter) -> None:
    for at_ms, event in step.offsets:
        writer.beside(at_ms / 1000, shift_times(event))


def shift_times(event: GatewayEvent, by_s: float = 0.0) -> GatewayEvent:
    """The same event; its times are those of the simulator. A clock may be ahead of them."""
    by_ms = START_MS + round(by_s * 1000)
    match event:
        case OffsetsCommitted():
            requested_ms = None if event.requested_ms is None else event.requested_ms + by_ms
            return replace(
                event,
                from_ms=event.from_ms + by_ms,
                to_ms=event.to_ms + by_ms,
                requested_ms=requested_ms,
                first_sequence=None,  # the simulator has no log
                last_sequence=None,
            )
        case RebalanceEnded() | StepEnded():
            return replace(event, started_ms=event.started_ms + by_ms)
        case _:
            return event
