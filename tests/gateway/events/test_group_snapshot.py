"""The snapshot of a group states its members with what they hold."""

import pytest

from coordinator.interface.topics import Topics
from gateway.events.group_snapshot import snapshot_group
from tests.support.group_script import GroupScript


def test_a_classic_group_is_stated_with_the_leaders_assignment() -> None:
    """By name, so that a group whose topics are not known yet can be stated."""
    group = GroupScript()
    ids = group.stable_classic_group({"a": {"foo": [0, 1]}, "b": {"foo": [2]}})
    for topics, is_known in ((group.topics, True), (Topics(), False)):
        loaded = snapshot_group(group.engine.state, topics, are_topics_known=is_known)
        assert (loaded.kind, loaded.state, loaded.assignment_epoch) == ("classic", "Stable", None)
        assert {member.member_id: member.partitions for member in loaded.members} == {
            ids["a"]: {"foo": (0, 1)},
            ids["b"]: {"foo": (2,)},
        }
    assert snapshot_group(group.engine.state, Topics()).members[0].partitions == {}


def test_a_consumer_group_is_stated_with_what_it_has_to_give_up() -> None:
    """A partition that is being revoked is still held."""
    group = GroupScript()
    first = group.native("a").member_epoch
    group.native("b")
    group.wait(5_000)
    group.native("a", first)
    loaded = snapshot_group(group.engine.state, group.topics)
    (a,) = [member for member in loaded.members if member.member_id == "a"]
    assert (loaded.kind, loaded.state) == ("consumer", "Reconciling")
    assert a.partitions == {"foo": (0, 1, 2)}
    assert a.pending_revocation == {"foo": (2,)}
    assert loaded.topic_ids.keys() == {"foo"}


@pytest.mark.parametrize("topics", [Topics()])
def test_a_group_that_does_not_exist_has_no_members(topics: Topics) -> None:
    """A group that does not exist has a snapshot, too, when its hosting begins."""
    loaded = snapshot_group(GroupScript().engine.state, topics)
    assert (loaded.kind, loaded.members) == (None, ())
