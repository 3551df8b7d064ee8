"""The two requests by which a member computes the target (rule 9.7). The scenarios of the KIP are
in `scenarios/test_client_side.py`."""

from dataclasses import replace

import pytest

from coordinator.group.step_builder import SHORT_COMPUTATION_MAX
from coordinator.handlers.size_limits import MEMBER_BYTES_MAX
from coordinator.interface.errors import LongComputation
from coordinator.interface.events import AssignmentReceived, PrepareAssignmentReceived
from coordinator.interface.records import AssignmentMetadata
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.client_assignors import CLIENT_SIDE, weighted_assignor
from tests.support.group_script import GroupScript, Owned, make_topics, subscription, topic_id

ALL = {"n1": {"foo": (0, 1, 2)}}


@pytest.fixture
def group(make_group: MakeGroup) -> GroupScript:
    """A group whose only member was told to compute the target."""
    group = make_group(config=CLIENT_SIDE)
    group.native("n1", client_assignors=[weighted_assignor()])
    return group


def test_a_target_belongs_to_the_group_that_the_member_asked_for_last(group: GroupScript) -> None:
    """Without that, and with another epoch, it is refused and changes nothing."""
    assert group.install("n1", 1, 2, ALL).error is ErrorCode.UNKNOWN_MEMBER_ID
    first = group.prepare("n1", 1).group_epoch
    group.topics = make_topics(version=2, foo=4)
    group.native("n1", 1)
    second = group.prepare("n1", 1)
    assert (second.group_epoch, second.topics[0][2]) == (first + 1, 4)
    assert group.install("n1", 1, first, ALL).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.install("n1", 1, first + 1, {"n1": {"foo": (0, 1, 2, 3)}}).error == 0


def test_a_chosen_member_that_left_and_joins_again_is_told_again(group: GroupScript) -> None:
    """Found by the simulator: nothing had happened in between."""
    epoch = group.prepare("n1", 1).group_epoch
    group.native("n1", -1)
    reply = group.native("n1", client_assignors=[weighted_assignor()])
    assert reply.should_compute
    refused = group.install("n1", reply.member_epoch, epoch, ALL)
    assert refused.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_each_member_says_something_to_the_selected_assignor(make_group: MakeGroup) -> None:
    """Whichever it prefers itself."""
    group = make_group(config=CLIENT_SIDE)
    a = weighted_assignor(-1, 3, name="a", metadata=b"n1 to a")
    group.native("n1", client_assignors=[a])
    both = [
        weighted_assignor(-1, 3, name=name, metadata=b"n2 to " + name.encode()) for name in "ba"
    ]
    group.native("n2", client_assignors=both)
    protocols = tuple((n, subscription(["foo"], user_data=b"c to " + n.encode())) for n in "ba")
    group.join(group.take_id(protocols=protocols), protocols=protocols)
    prepared = group.prepare("n1", 1)
    assert prepared.assignor == "a"
    assert {member.metadata for member in prepared.members} == {b"n1 to a", b"n2 to a", b"c to a"}


def test_a_member_that_can_no_longer_compute_does_not_get_the_group_again(
    group: GroupScript,
) -> None:
    """The member may install what it has computed, but cannot read the metadata that the group has
    now."""
    epoch = group.prepare("n1", 1).group_epoch
    group.native("n2", client_assignors=[weighted_assignor()])
    group.native("n1", 1, client_assignors=[weighted_assignor(0, 1)])
    assert group.view().assignor == "weighted"
    assert group.prepare("n1", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.install("n1", 1, epoch, ALL).error == 0


def test_the_slot_of_a_member_that_left_ends_when_the_group_is_prepared(
    make_group: MakeGroup,
) -> None:
    """Its share is dealt, so that a replacement cannot have it any more (rule 3.16)."""
    group = make_group(
        config=replace(CLIENT_SIDE, replacement_grace_ms=3_000, rolled_since_ms=1_000_000)
    )
    assignors = [weighted_assignor()]
    group.native("n1", client_assignors=assignors)
    group.native("n2", client_assignors=assignors)
    epoch = group.prepare("n1", 1).group_epoch
    shares: dict[str, Owned] = {"n1": {"foo": (0,)}, "n2": {"foo": (1, 2)}}
    assert group.install("n1", 1, epoch, shares).error == 0
    group.native("n2", 1)
    group.native("n2", -1)
    assert group.engine.state.member_slots
    epoch = group.native("n1", 1, client_assignors=[weighted_assignor(reason=1)]).member_epoch
    assert group.native("n1", epoch).should_compute
    prepared = group.prepare("n1", epoch)
    assert [member.member_id for member in prepared.members] == ["n1"]
    assert not group.engine.state.member_slots
    assert group.install("n1", epoch, prepared.group_epoch, ALL).error == 0
    group.native("n3", client_assignors=assignors)
    assert group.names_of(group.consumer.target_of("n3")) == {}


def test_a_member_that_is_not_named_gets_nothing(group: GroupScript) -> None:
    """A member that had a share loses it."""
    group.install("n1", 1, group.prepare("n1", 1).group_epoch, ALL)
    epoch = group.native("n1", 1).member_epoch
    joined = group.native("n2", client_assignors=[weighted_assignor()])
    assert joined.should_compute
    group_epoch = group.prepare("n2", joined.member_epoch).group_epoch
    reply = group.install("n2", joined.member_epoch, group_epoch, {"n2": {"foo": (0, 1, 2)}})
    assert reply.error == 0
    assert group.native("n1", epoch, owned={"foo": (0, 1, 2)}).assignment == frozenset()


def test_a_late_plug_in_installs_nothing_for_a_member(group: GroupScript) -> None:
    """The group may have been loaded again since, at the same epoch."""
    epoch = group.prepare("n1", 1).group_epoch
    everything = frozenset(Partition(topic_id("foo"), number) for number in range(3))
    group.feed(AssignmentReceived(epoch=epoch, target={"n1": everything}))
    assert not group.last_step.records
    assert group.install("n1", 1, epoch, ALL).error == 0


def test_a_repeated_target_is_refused(group: GroupScript) -> None:
    """The second may come from a client that did not hear the first answer."""
    epoch = group.prepare("n1", 1).group_epoch
    assert group.install("n1", 1, epoch, ALL).error == 0
    assert group.install("n1", 1, epoch, ALL).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not group.last_step.records


def test_metadata_for_a_stranger_and_a_flaw_of_the_message_are_invalid(group: GroupScript) -> None:
    metadata = AssignmentMetadata(version=1, metadata=b"")
    epoch = group.prepare("n1", 1).group_epoch
    reply = group.install("n1", 1, epoch, ALL, metadata={"n9": metadata})
    assert (reply.error, reply.reason) == (10_000, "'n9' is not a member of the group")
    group.wait(10_000)
    group.native("n1", 1)
    reply = group.install("n1", 1, group.prepare("n1", 1).group_epoch, ALL, flaw="n1 comes twice")
    assert (reply.error, reply.reason) == (10_000, "n1 comes twice")


def test_the_metadata_for_a_member_has_a_limit(group: GroupScript) -> None:
    """The metadata that a member sends has a limit, too."""
    epoch = group.prepare("n1", 1).group_epoch
    metadata = AssignmentMetadata(version=1, metadata=bytes(MEMBER_BYTES_MAX + 1))
    assert group.install("n1", 1, epoch, ALL, metadata={"n1": metadata}).error == -1
    assert (
        group.native("n2", client_assignors=[weighted_assignor(metadata=metadata.metadata)]).error
        == -1
    )


def test_a_paused_group_installs_nothing(group: GroupScript) -> None:
    """DEV D75."""
    epoch = group.prepare("n1", 1).group_epoch
    group.set_policy(RollMode.PAUSE)
    reply = group.install("n1", 1, epoch, ALL)
    assert (reply.error, reply.reason) == (ErrorCode.INVALID_ASSIGNMENT, "the group is paused")
    group.wait(60_000)
    assert not group.native("n1", 1).should_compute


def test_new_metadata_for_the_same_partitions_reaches_the_member(group: GroupScript) -> None:
    """Answers repeat it until the member states the new epoch, because an answer may be lost. A
    server-side target has none."""
    epoch = group.prepare("n1", 1).group_epoch
    group.install("n1", 1, epoch, ALL)
    group.native("n1", 1)
    group.native("n1", 2, client_assignors=[weighted_assignor(metadata=b"new")])
    metadata = AssignmentMetadata(version=3, metadata=b"for you")
    group.install("n1", 2, group.prepare("n1", 2).group_epoch, ALL, metadata={"n1": metadata})
    for _ in range(2):
        reply = group.native("n1", 2)
        assert (reply.member_epoch, reply.assignment_metadata) == (3, metadata)
        assert reply.assignment is not None
    assert group.native("n1", 3).assignment is None
    group.native("n2")
    assert not group.consumer.target_metadata


def test_the_group_of_a_long_computation_is_copied_aside(make_group: MakeGroup) -> None:
    """DEV D65: the step may not take long."""
    group = make_group(config=CLIENT_SIDE, topics=make_topics(foo=SHORT_COMPUTATION_MAX))
    group.native("n1", client_assignors=[weighted_assignor()])
    request = PrepareAssignmentReceived(token=99, member_id="n1", member_epoch=1)
    with pytest.raises(LongComputation):
        group.engine.handle(request, now_ms=group.now_ms, topics=group.topics, may_take_long=False)
