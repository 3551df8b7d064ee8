"""What brokers do with an anchor that opens its group and leaves: a release relies on it.

The group is never Empty, so the consumers do not wait for `group.initial.rebalance.delay.ms`.
"""

import pytest
import trio

from gateway.hosting.identity import INSTANCE_ID, unreadable_subscription
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest
from tests.support.group_client import GroupClient, fresh_group, group_client, parked_join
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import with_anchors
from tests.support.until import until, until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

PRIVATE = "groupferry-log"
ANSWERED_S = 2.0
"""Less than the initial delay of an Empty group."""


async def join(direct: GroupClient, member_id: str, *names: str) -> JoinGroupResponse:
    """The anchor joins, and ends its round."""
    metadata = unreadable_subscription(7)
    joined: JoinGroupResponse = await direct.connection.ask(
        JoinGroupRequest(
            group_id=direct.group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=INSTANCE_ID,
            protocol_type="consumer",
            protocols=tuple(JoinGroupProtocol(name=name, metadata=metadata) for name in names),
        )
    )
    assert joined.error_code == 0
    synced = await direct.connection.ask(
        SyncGroupRequest(
            group_id=direct.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=INSTANCE_ID,
            protocol_type="consumer",
            protocol_name=PRIVATE,
            assignments=(SyncGroupAssignment(member_id=joined.member_id, assignment=b""),),
        )
    )
    assert synced.error_code == 0
    return joined


async def leave(direct: GroupClient, member_id: str) -> int:
    """The anchor leaves, under this member id. Returns the error code for it."""
    member = MemberIdentity(member_id=member_id, group_instance_id=INSTANCE_ID)
    answer: LeaveGroupResponse = await direct.connection.ask(
        LeaveGroupRequest(group_id=direct.group, members=(member,))
    )
    return answer.error_code or answer.members[0].error_code


@with_anchors()
async def test_consumers_join_in_the_round_in_which_the_anchor_leaves(kafka: KafkaCluster) -> None:
    """Their joins wait until the anchor leaves, and are answered in one generation, which has no
    other member."""
    group = fresh_group("opened")
    answers: dict[str, JoinGroupResponse] = {}

    async def come(name: str, client: GroupClient) -> None:
        answers[name] = await parked_join(client)

    async with (
        group_client(kafka.addresses[0], group) as anchor,
        group_client(kafka.addresses[0], group) as a,
        group_client(kafka.addresses[0], group) as b,
        trio.open_nursery() as nursery,
    ):
        held = await join(anchor, "", PRIVATE)
        assert (await a.join(version=5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        opened = await join(anchor, held.member_id, PRIVATE, "range")
        assert opened.generation_id == held.generation_id + 1
        nursery.start_soon(come, "a", a)
        nursery.start_soon(come, "b", b)
        described = await until_answered(anchor.describe, lambda group: len(group.members) == 3)
        assert described.group_state == "PreparingRebalance"
        assert answers == {}
        assert await leave(anchor, opened.member_id) == 0
        with trio.fail_after(ANSWERED_S):
            await until(lambda: len(answers) == 2)
        assert {answer.generation_id for answer in answers.values()} == {opened.generation_id + 1}
        (leader,) = [answer for answer in answers.values() if answer.members]
        assert {member.member_id for member in leader.members} == {
            answer.member_id for answer in answers.values()
        }
        assert leader.protocol_name == "range"
        assert await leave(anchor, opened.member_id) == ErrorCode.UNKNOWN_MEMBER_ID
        code = await anchor.commit(
            {0: 1},
            member_id=opened.member_id,
            epoch=opened.generation_id,
            instance_id=INSTANCE_ID,
            version=8,
        )
        assert code == {0: ErrorCode.UNKNOWN_MEMBER_ID}
