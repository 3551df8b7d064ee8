"""Messages become the events that they were made from."""

from uuid import UUID

import pytest

from coordinator.interface.events import HeartbeatReceived, LeaveGroupReceived
from gateway.requests.messages import event
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.header import RequestHeader
from tests.simulation.cluster import GROUP
from tests.simulation.explorer.small_consumers import Kind, small_topics, start
from tests.simulation.messages import VERSION, request_message

HEADER = RequestHeader(
    api_key=ApiKey.JOIN_GROUP, api_version=VERSION, correlation_id=0, client_id="a"
)


@pytest.mark.parametrize("kind", [Kind.EAGER, Kind.LIBRDKAFKA])
def test_a_message_of_a_classic_consumer_becomes_its_event_again(kind: Kind) -> None:
    consumer = start("a", kind, small_topics(2), 0, is_static=True)
    _api, asked = consumer.ask(1, UUID(int=1), 0)
    again = event(1, HEADER, request_message(asked, GROUP), "127.0.0.1")
    for name in ("member_id", "instance_id", "protocols", "rebalance_timeout_ms"):
        assert getattr(again, name) == getattr(asked, name)


def test_a_heartbeat_and_a_leave_become_their_events_again() -> None:
    consumer = start("a", Kind.EAGER, small_topics(2), 0)
    beat = HeartbeatReceived(token=1, member_id="m", instance_id=None, generation=3)
    assert event(1, HEADER, request_message(beat, GROUP), "") == beat
    consumer.member_id = "m"
    consumer.close(0)
    _api, leave = consumer.ask(1, UUID(int=1), 0)
    assert isinstance(leave, LeaveGroupReceived)
    assert event(1, HEADER, request_message(leave, GROUP), "") == leave


def test_a_native_heartbeat_keeps_its_epoch() -> None:
    consumer = start("n", Kind.NATIVE, small_topics(2), 0)
    _api, asked = consumer.ask(1, UUID(int=1), 0)
    message = request_message(asked, GROUP)
    assert (message.member_id, message.member_epoch) == ("n", 0)  # type: ignore[union-attr]
