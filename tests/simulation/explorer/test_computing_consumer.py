"""A consumer of a small world that runs an assignor itself (rule 9.7)."""

from typing import TypeVar
from uuid import UUID

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    InstallAssignmentReceived,
    PrepareAssignmentReceived,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    InstallAssignmentReply,
    PrepareAssignmentReply,
    PreparedMember,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.computing_consumer import ASSIGNORS, ComputingConsumer
from tests.simulation.explorer.small_consumers import TOPIC, TOPIC_ID

T = TypeVar("T")
TOLD = ConsumerHeartbeatReply(member_id="n", member_epoch=1, should_compute=True)
PREPARED = PrepareAssignmentReply(
    group_epoch=2,
    assignor=ASSIGNORS[0].name,
    members=(
        PreparedMember(
            member_id="n",
            member_epoch=1,
            instance_id=None,
            rack_id=None,
            topic_ids=frozenset({TOPIC_ID}),
            reason=0,
            version=0,
            metadata=b"",
            target=frozenset(),
        ),
    ),
    topics=((TOPIC_ID, TOPIC, 2),),
)


def consumer_asked_to_compute() -> ComputingConsumer:
    """A consumer that has joined, and was told to compute the target."""
    consumer = ComputingConsumer(name="n")
    assert _request(consumer, ConsumerHeartbeatReceived).client_assignors == ASSIGNORS
    consumer.hear(TOLD, 0)
    return consumer


def _request(consumer: ComputingConsumer, kind: type[T]) -> T:
    _api, event = consumer.ask(1, UUID(int=1), 0)
    assert isinstance(event, kind)
    return event


def test_it_asks_for_the_group_and_installs_a_whole_target() -> None:
    """The consumer then sends a heartbeat immediately."""
    consumer = consumer_asked_to_compute()
    assert consumer.has_something_to_say()
    assert _request(consumer, PrepareAssignmentReceived).member_epoch == 1
    consumer.hear(PREPARED, 0)
    installs = _request(consumer, InstallAssignmentReceived)
    assert (installs.group_epoch, len(installs.target["n"])) == (2, 2)
    consumer.hear(InstallAssignmentReply(), 0)
    assert consumer.beat_due_ms == 0
    assert _request(consumer, ConsumerHeartbeatReceived).client_assignors is None


def test_after_a_failure_it_waits_until_it_is_told_again() -> None:
    """A refusal does not end it, and neither does a lost answer."""
    consumer = consumer_asked_to_compute()
    _request(consumer, PrepareAssignmentReceived)
    consumer.hear(PrepareAssignmentReply(error=ErrorCode.UNKNOWN_MEMBER_ID), 0)
    assert not consumer.has_something_to_say()
    consumer.hear(TOLD, 0)
    consumer.miss(0)
    assert _request(consumer, ConsumerHeartbeatReceived).client_assignors == ASSIGNORS
