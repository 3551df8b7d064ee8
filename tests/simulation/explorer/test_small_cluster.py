"""The cluster of a small world holds an anchor as brokers do."""

from gateway.hosting.identity import INSTANCE_ID, AnchorIds, unreadable_subscription
from gateway.hosting.standing import Nobody
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest
from tests.simulation.explorer.small_cluster import GROUP, Cluster


def join(cluster: Cluster, member_id: str = "", log_id: str = "log") -> JoinGroupResponse:
    answer = cluster.answer(
        JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=INSTANCE_ID,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=(JoinGroupProtocol(name=log_id, metadata=unreadable_subscription(1)),),
        ),
        0,
    )
    assert isinstance(answer, JoinGroupResponse)
    return answer


def sync(cluster: Cluster, ids: AnchorIds) -> int:
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=ids.generation,
        member_id=ids.member_id,
        group_instance_id=INSTANCE_ID,
        assignments=(SyncGroupAssignment(member_id=ids.member_id, assignment=b""),),
    )
    return cluster.answer(request, 0).error_code


def anchored() -> tuple[Cluster, AnchorIds]:
    cluster = Cluster([0, 0])
    joined = join(cluster)
    ids = AnchorIds(member_id=joined.member_id, generation=joined.generation_id)
    assert not sync(cluster, ids)
    return cluster, ids


def beat(cluster: Cluster, ids: AnchorIds) -> int:
    request = HeartbeatRequest(
        group_id=GROUP,
        generation_id=ids.generation,
        member_id=ids.member_id,
        group_instance_id=INSTANCE_ID,
    )
    return cluster.answer(request, 1_000).error_code


def test_a_heartbeat_prolongs_the_anchors_session() -> None:
    cluster, ids = anchored()
    assert not beat(cluster, ids)
    assert cluster.expires_ms == 61_000


def test_only_the_anchors_ids_may_commit() -> None:
    cluster, ids = anchored()
    assert cluster.commit(None, {0: 1}) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not cluster.commit(ids, {0: 1})
    assert cluster.offsets == [1, 0]


def test_a_successor_fences_the_ids_of_its_predecessor() -> None:
    cluster, ids = anchored()
    successor = join(cluster)
    assert successor.skip_assignment
    assert beat(cluster, ids) == ErrorCode.FENCED_INSTANCE_ID
    assert cluster.commit(ids, {0: 1}) == ErrorCode.FENCED_INSTANCE_ID
    again = join(cluster, successor.member_id)
    assert again.generation_id == ids.generation + 1


def test_a_stray_commit_is_forgotten_once_its_ids_are_gone_for_good() -> None:
    cluster, ids = anchored()
    cluster.strays = [(ids, {0: 1}), (None, {0: 1})]
    join(cluster)
    assert cluster.strays == [(None, {0: 1})]


def test_a_removed_anchor_is_unknown_and_anyone_may_commit_and_join() -> None:
    cluster, ids = anchored()
    cluster.remove_member()
    assert beat(cluster, ids) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not cluster.commit(None, {1: 2})
    assert isinstance(cluster.coordinator.look(GROUP), Nobody)
    cluster.admit_stranger()
    assert cluster.has_stranger
    assert join(cluster).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert beat(cluster, ids) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_anchor_that_leaves_frees_the_group() -> None:
    cluster, ids = anchored()
    member = MemberIdentity(member_id=ids.member_id, group_instance_id=INSTANCE_ID)
    cluster.answer(LeaveGroupRequest(group_id=GROUP, members=(member,)), 0)
    assert isinstance(cluster.coordinator.look(GROUP), Nobody)
    assert cluster.expires_ms is None
