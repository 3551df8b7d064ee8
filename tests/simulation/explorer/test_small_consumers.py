"""The consumers of a small world follow the protocol."""

from typing import TypeVar
from uuid import UUID

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    SyncGroupReceived,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    HeartbeatReply,
    JoinedMember,
    JoinGroupReply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.simulation import leader
from tests.simulation.explorer.small_consumers import (
    SESSION_TIMEOUT_MS,
    TOPIC,
    TOPIC_ID,
    ClassicConsumer,
    Consumer,
    Kind,
    MakeCommit,
    NativeConsumer,
    shares_are_fair,
    small_topics,
    start,
)

T = TypeVar("T")
TOPICS = small_topics(2)
ZERO, ONE = Partition(TOPIC_ID, 0), Partition(TOPIC_ID, 1)


def native() -> NativeConsumer:
    consumer = start("n", Kind.NATIVE, TOPICS, 0)
    assert isinstance(consumer, NativeConsumer)
    return consumer


def classic(kind: Kind = Kind.COOPERATIVE) -> ClassicConsumer:
    """A classic consumer that has both partitions."""
    consumer = start("c", kind, TOPICS, 0)
    assert isinstance(consumer, ClassicConsumer)
    metadata = _request(consumer, JoinGroupReceived).protocols[0][1]
    consumer.hear(JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="c-1"), 0)
    consumer.hear(
        JoinGroupReply(
            member_id="c-1",
            generation=1,
            leader="c-1",
            protocol_name="cooperative-sticky" if kind is Kind.COOPERATIVE else "range",
            members=(JoinedMember(member_id="c-1", instance_id=None, metadata=metadata),),
        ),
        0,
    )
    ((_member_id, assignment),) = _request(consumer, SyncGroupReceived).assignments
    consumer.hear(SyncGroupReply(assignment=assignment), 0)
    return consumer


def _request(consumer: Consumer, kind: type[T]) -> T:
    _api, event = consumer.ask(1, UUID(int=1), 0)
    assert isinstance(event, kind)
    return event


def test_a_native_consumer_states_everything_at_first_and_after_an_error() -> None:
    consumer = native()
    assert _request(consumer, ConsumerHeartbeatReceived).is_full
    consumer.hear(ConsumerHeartbeatReply(member_epoch=1), 0)
    assert not _request(consumer, ConsumerHeartbeatReceived).is_full
    consumer.hear(ConsumerHeartbeatReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE), 0)
    assert _request(consumer, ConsumerHeartbeatReceived).is_full


def test_a_native_consumer_acknowledges_what_it_is_assigned() -> None:
    consumer = native()
    _request(consumer, ConsumerHeartbeatReceived)
    consumer.hear(ConsumerHeartbeatReply(member_epoch=1, assignment=frozenset((ZERO,))), 0)
    assert consumer.claims == {ZERO}
    assert consumer.has_something_to_say()
    assert _request(consumer, ConsumerHeartbeatReceived).owned == frozenset((ZERO,))
    consumer.hear(ConsumerHeartbeatReply(member_epoch=1), 0)
    assert not consumer.has_something_to_say()
    assert consumer.is_fine


def test_a_fenced_native_consumer_gives_up_everything_and_joins() -> None:
    consumer = native()
    _request(consumer, ConsumerHeartbeatReceived)
    consumer.hear(ConsumerHeartbeatReply(member_epoch=1, assignment=frozenset((ZERO,))), 0)
    consumer.hear(ConsumerHeartbeatReply(error=ErrorCode.FENCED_MEMBER_EPOCH), 0)
    assert not consumer.claims
    assert _request(consumer, ConsumerHeartbeatReceived).member_epoch == 0


def test_a_leader_assigns_all_partitions_to_itself() -> None:
    assert classic().claims == {ZERO, ONE}


def test_an_eager_consumer_gives_up_its_partitions_before_it_rejoins() -> None:
    eager, cooperative = classic(Kind.EAGER), classic()
    for consumer in (eager, cooperative):
        consumer.hear(HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS), 0)
    assert not eager.claims
    assert cooperative.claims == {ZERO, ONE}


def test_a_cooperative_consumer_that_loses_partitions_rejoins() -> None:
    consumer = classic()
    consumer.hear(SyncGroupReply(assignment=leader.write_assignment([(TOPIC, 0)])), 0)
    assert consumer.claims == {ZERO}
    assert consumer.has_something_to_say()


def test_a_closing_consumer_gives_up_everything_and_leaves() -> None:
    consumer = classic()
    consumer.close(0)
    assert not consumer.claims
    _request(consumer, LeaveGroupReceived)
    consumer.miss(0)
    assert consumer.is_over


def test_the_lease_counts_from_the_sending_of_an_answered_heartbeat() -> None:
    consumer = native()
    consumer.ask(1, UUID(int=1), 1_000)
    consumer.hear(ConsumerHeartbeatReply(member_epoch=1), 5_000)
    assert consumer.lease_over_ms == 1_000 + SESSION_TIMEOUT_MS


def test_an_error_that_is_fatal_to_real_clients_ends_a_consumer() -> None:
    consumer = native()
    consumer.hear(ConsumerHeartbeatReply(error=ErrorCode.GROUP_ID_NOT_FOUND), 0)
    assert consumer.is_over
    assert consumer.died_of == "GROUP_ID_NOT_FOUND"


def test_a_commit_names_its_member_and_partitions() -> None:
    event = MakeCommit(member_id="n", epoch=3, numbers=(1,))(7, TOPICS)
    assert (event.token, event.member_id, event.epoch) == (7, "n", 3)
    assert event.partitions == {ONE}


def test_fair_shares_cover_all_partitions_and_differ_by_one_at_most() -> None:
    full, empty = classic(), native()
    assert shares_are_fair([], 2)
    assert shares_are_fair([full], 2)
    assert not shares_are_fair([full, empty], 2)
    assert not shares_are_fair([empty], 2)
