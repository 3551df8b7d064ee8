"""One request of each api that names a group, about a group that is not hosted."""

from collections.abc import Callable, Mapping

from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_codecs.sync_group import SyncGroupRequest
from tests.support.commits import commit_of, transactional_commit_of
from tests.support.group_requests import offset_delete_request

OFFSETS = {"numbers": {0: 7}}
Make = Callable[[str], Struct]


REQUESTS: Mapping[str, Make] = {
    "SyncGroup": lambda group: SyncGroupRequest(
        group_id=group, generation_id=1, member_id="m", assignments=()
    ),
    "Heartbeat": lambda group: HeartbeatRequest(group_id=group, generation_id=1, member_id="m"),
    "LeaveGroup": lambda group: LeaveGroupRequest(
        group_id=group, members=(MemberIdentity(member_id="m"),)
    ),
    "ConsumerGroupHeartbeat": lambda group: ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=3
    ),
    "ConsumerGroupHeartbeat to leave": lambda group: ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=-1
    ),
    "OffsetCommit of a member": lambda group: commit_of(
        OFFSETS, group_id=group, member_id="m", epoch=3
    ),
    "TxnOffsetCommit of a member": lambda group: transactional_commit_of(
        OFFSETS, group_id=group, member_id="m", generation=3
    ),
    "OffsetDelete": lambda group: offset_delete_request(group, {"numbers": [0]}),
    "OffsetFetch": lambda group: OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=group, topics=None),)
    ),
    "DescribeGroups": lambda group: DescribeGroupsRequest(groups=(group,)),
    "DeleteGroups": lambda group: DeleteGroupsRequest(groups_names=(group,)),
}
OF_NO_MEMBER: Mapping[str, Make] = {
    "OffsetCommit": lambda group: commit_of(OFFSETS, group_id=group),
    "TxnOffsetCommit": lambda group: transactional_commit_of(OFFSETS, group_id=group),
}
"""A group that a setting has hosted answers these itself, because a member may join meanwhile."""
