"""JoinGroup on a generic group (spec 2.2 to 2.4)."""

from coordinator.config import GroupConfig
from coordinator.errors import ErrorCode
from coordinator.replies import JoinGroupReply
from coordinator.volatile import GenericPhase
from tests.coordinator.conftest import MakeGroup
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


def test_a_member_that_no_longer_fits_is_removed(make_group: MakeGroup) -> None:
    """It comes too late to a join phase that is full: the others need not wait for it."""
    group = make_group(config=GroupConfig(generic_max_size=2))
    ids = group.stable_generic_group({"a": {"foo": (0,)}, "b": {"foo": (1,)}})
    group.leave(ids["a"])
    new = [group.take_id() for _ in range(2)]
    tokens = [group.send_join(id_) for id_ in new]
    assert group.join(ids["b"]).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.generic.members.keys() == set(new)
    assert [group.answer(token, JoinGroupReply).generation for token in tokens] == [2, 2]
