"""The messages of client-side assignors, to and from the engine's events and replies."""

from uuid import UUID

import pytest

from coordinator.interface.events import PrepareAssignmentReceived
from coordinator.interface.records import AssignmentMetadata, ClientAssignor
from coordinator.interface.replies import (
    InstallAssignmentReply,
    PrepareAssignmentReply,
    PreparedMember,
)
from coordinator.interface.topics import Partition
from gateway.requests import assignments
from kafka_codecs import consumer_group_heartbeat, consumer_group_prepare_assignment
from kafka_codecs.consumer_group_heartbeat import TopicPartitions
from kafka_codecs.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    Member,
)
from kafka_codecs.consumer_group_prepare_assignment import (
    Assignor,
    ConsumerGroupPrepareAssignmentRequest,
    TopicMetadata,
)
from kafka_codecs.error_codes import ErrorCode

FOO, BAR = UUID(int=7), UUID(int=9)


def install(*members: Member) -> ConsumerGroupInstallAssignmentRequest:
    """A request with shares for these members."""
    return ConsumerGroupInstallAssignmentRequest(
        group_id="g", member_id="m", member_epoch=4, group_epoch=6, error=-3, members=members
    )


def share(member_id: str, *topics: tuple[UUID, tuple[int, ...]]) -> Member:
    """What a member is to own."""
    return Member(
        member_id=member_id,
        partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=ns) for topic_id, ns in topics
        ),
        metadata_version=2,
        metadata_bytes=member_id.encode(),
    )


def test_an_assignor_keeps_its_versions_and_metadata() -> None:
    assignor = consumer_group_heartbeat.ClientAssignor(
        name="weights",
        minimum_version=-1,
        maximum_version=3,
        reason=1,
        metadata_version=2,
        metadata_bytes=b"x",
    )
    assert assignments.client_assignor(assignor) == ClientAssignor(
        name="weights", minimum_version=-1, maximum_version=3, reason=1, version=2, metadata=b"x"
    )


def test_a_member_asks_what_to_compute_from() -> None:
    request = ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=4)
    assert assignments.prepare_event(1, request) == PrepareAssignmentReceived(
        token=1, member_id="m", member_epoch=4
    )


def test_the_answer_has_the_group_as_it_is() -> None:
    """The answer has everything that an assignor may need."""
    member = PreparedMember(
        member_id="m",
        member_epoch=4,
        instance_id="i",
        rack_id="r",
        topic_ids=frozenset({FOO}),
        reason=1,
        version=2,
        metadata=b"x",
        target=frozenset({Partition(BAR, 0), Partition(FOO, 3), Partition(FOO, 1)}),
    )
    answer = assignments.prepare_response(
        PrepareAssignmentReply(
            group_epoch=6, assignor="weights", members=(member,), topics=((FOO, "foo", 4),)
        )
    )
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.group_epoch, answer.assignor_name) == (6, "weights")
    assert answer.topics == (TopicMetadata(topic_id=FOO, topic_name="foo", num_partitions=4),)
    assert answer.members == (
        consumer_group_prepare_assignment.Member(
            member_id="m",
            member_epoch=4,
            instance_id="i",
            rack_id="r",
            subscribed_topic_ids=(FOO,),
            assignor=Assignor(reason=1, metadata_version=2, metadata_bytes=b"x"),
            topic_partitions=(
                TopicPartitions(topic_id=FOO, partitions=(1, 3)),
                TopicPartitions(topic_id=BAR, partitions=(0,)),
            ),
        ),
    )


def test_a_computed_target_has_a_share_and_metadata_for_each_member() -> None:
    event = assignments.install_event(1, install(share("m", (FOO, (0, 1))), share("n")))
    assert (event.member_id, event.member_epoch, event.group_epoch) == ("m", 4, 6)
    assert event.error == -3
    assert event.target == {
        "m": frozenset({Partition(FOO, 0), Partition(FOO, 1)}),
        "n": frozenset(),
    }
    assert event.metadata["n"] == AssignmentMetadata(version=2, metadata=b"n")
    assert event.flaw == ""


@pytest.mark.parametrize(
    ("members", "flaw"),
    [
        ((share("m", (FOO, (0,))), share("m", (FOO, (1,)))), "'m' is named twice"),
        ((share("m", (FOO, (0, 1, 0))),), "'m' got a partition twice"),
        ((share("m", (FOO, (0,)), (FOO, (0,))),), "'m' got a partition twice"),
    ],
)
def test_what_is_named_twice_is_never_silently_merged(
    members: tuple[Member, ...], flaw: str
) -> None:
    """The engine's mappings cannot express it."""
    assert assignments.install_event(1, install(*members)).flaw == flaw


def test_refusals_carry_the_reason() -> None:
    stale = ErrorCode.STALE_MEMBER_EPOCH
    prepared = assignments.prepare_response(PrepareAssignmentReply(error=stale, reason="old"))
    installed = assignments.install_response(InstallAssignmentReply(error=stale, reason="old"))
    assert (prepared.error_code, prepared.error_message) == (stale, "old")
    assert (installed.error_code, installed.error_message) == (stale, "old")
    assert assignments.install_response(InstallAssignmentReply()).error_message is None
