"""JoinGroup on a generic group (spec 2.2 to 2.4)."""

from coordinator.errors import ErrorCode
from coordinator.replies import JoinGroupReply
from coordinator.volatile import GenericPhase
from tests.support.group_script import GroupScript


def stable_static_member(group: GroupScript, instance_id: str = "i1") -> str:
    """A group of one static member, Stable at generation 1."""
    token = group.send_join(instance_id=instance_id)
    group.wait(3_000)
    member_id = group.answer(token, JoinGroupReply).member_id
    group.sync(member_id, 1, instance_id=instance_id, assignments={member_id: {"foo": (0, 1, 2)}})
    return member_id


def test_a_member_stays_static_when_it_leaves_its_instance_id_out(group: GroupScript) -> None:
    """The index of instance ids must not point to a member that is gone."""
    member_id = stable_static_member(group)
    group.join(member_id)  # the leader: a rebalance, complete at once
    assert group.generic.members[member_id].instance_id == "i1"
    group.leave(member_id)
    again = group.send_join(instance_id="i1")
    group.wait(3_000)
    assert group.answer(again, JoinGroupReply).error == ErrorCode.NONE
    assert group.generic.phase is GenericPhase.COMPLETING_REBALANCE
