"""Targets that plug-ins compute outside the engine (rule 9.6, DEV D86)."""

from collections.abc import Mapping

import pytest

from coordinator.consumer.external_assignors import REASON_CHARS_MAX, RETRY_MS
from coordinator.group.step_builder import SHORT_COMPUTATION_MAX
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.errors import LongComputation
from coordinator.interface.events import AssignmentReceived
from coordinator.interface.records import TargetAssignmentMember
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.volatile_records import ComputationFailed, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, Owned, make_topics, partitions, topic_id

PLUG_IN = GroupConfig(
    consumer_assignors=("by-weight", "uniform"), consumer_assignment_interval_ms=0
)
ALL = {"foo": (0, 1, 2)}


@pytest.fixture
def group(make_group: MakeGroup) -> GroupScript:
    """A group whose default assignor is a plug-in."""
    return make_group(config=PLUG_IN)


@pytest.fixture
def settled_group(group: GroupScript) -> GroupScript:
    """One member with everything, at epoch 10."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    return group


def targets(group: GroupScript) -> dict[str, Mapping[str, tuple[int, ...]]]:
    """The target of each member, as names and numbers."""
    return {id_: group.names_of(group.consumer.target_of(id_)) for id_ in group.consumer.members}


def begins_a_computation(group: GroupScript) -> bool:
    return group.last_step.computation is not None


def failure(group: GroupScript) -> ComputationFailed:
    """Why the last step kept the target."""
    (computation,) = [
        record for record in group.last_step.records if isinstance(record, ComputationFailed)
    ]
    return computation


def test_a_group_continues_while_its_target_is_computed(settled_group: GroupScript) -> None:
    """Members keep what they have, and heartbeats are answered immediately."""
    reply = settled_group.native("n2")
    assert (reply.error, reply.member_epoch, reply.assignment) == (0, 10, frozenset())
    computation = settled_group.last_step.computation
    assert computation is not None
    assert (computation.epoch, computation.assignor) == (11, "by-weight")
    assert set(computation.members) == {"n1", "n2"}
    assert computation.partition_counts == {topic_id("foo"): 3}
    assert computation.target == {"n1": partitions(ALL)}
    assert settled_group.view().state == "Assigning"
    assert settled_group.native("n1", 10).member_epoch == 10


def test_a_received_target_is_installed(settled_group: GroupScript) -> None:
    """Members hear of it at their next heartbeats, as of any other target."""
    settled_group.native("n2")
    settled_group.finish_computation({"n1": {"foo": (0,)}, "n2": {"foo": (1, 2)}})
    consumer = settled_group.consumer
    assert (consumer.assignment_epoch, consumer.epoch, consumer.assignor) == (11, 11, "by-weight")
    assert settled_group.names_of(settled_group.native("n1", 10).assignment) == {"foo": (0,)}
    settled_group.native("n1", 10, owned={"foo": (0,)})
    assert settled_group.names_of(settled_group.native("n2", 10).assignment) == {"foo": (1, 2)}


def test_a_member_that_the_result_omits_keeps_its_target(settled_group: GroupScript) -> None:
    """A result has the changes only, like that of any other assignor."""
    settled_group.native("n2")
    settled_group.finish_computation({"n2": {}})
    assert settled_group.consumer.assignment_epoch == 11
    assert targets(settled_group) == {"n1": ALL, "n2": {}}
    written = [r for r in settled_group.last_step.durable if isinstance(r, TargetAssignmentMember)]
    assert written == []


def test_one_computation_is_under_way_at_a_time(settled_group: GroupScript) -> None:
    """What changes meanwhile needs another one, after the result of the first."""
    settled_group.native("n2")
    settled_group.native("n3")
    assert settled_group.last_step.records
    assert not begins_a_computation(settled_group)
    settled_group.finish_computation()
    assert (settled_group.consumer.assignment_epoch, settled_group.consumer.epoch) == (11, 12)
    settled_group.native("n3", 10)
    assert begins_a_computation(settled_group)
    settled_group.finish_computation()
    assert settled_group.consumer.assignment_epoch == 12
    assert all(targets(settled_group).values())


def test_the_result_is_installed_although_the_group_moved_on(settled_group: GroupScript) -> None:
    """The group always makes progress. The assignment epoch is that of the metadata from which the
    target was computed. A member that left loses its share, and one that joined waits."""
    settled_group.native("n2")
    settled_group.native("n3")
    settled_group.native("n1", -1)
    settled_group.finish_computation({"n1": {"foo": (0,)}, "n2": {"foo": (1, 2)}})
    assert (settled_group.consumer.assignment_epoch, settled_group.consumer.epoch) == (11, 13)
    assert targets(settled_group) == {"n2": {"foo": (1, 2)}, "n3": {}}


def test_a_static_replacement_gets_the_share_of_its_predecessor(group: GroupScript) -> None:
    """The replacement bumps no epoch, so no later target would have it."""
    group.given_consumer_group(given_native("n1", assigned=ALL, instance_id="i"))
    group.native("n2")
    group.native("n1", -2, instance_id="i")
    group.native("n3", instance_id="i")
    group.finish_computation({"n1": {"foo": (0,)}, "n2": {"foo": (1, 2)}})
    assert group.consumer.assignment_epoch == group.consumer.epoch == 11
    assert targets(group) == {"n3": {"foo": (0,)}, "n2": {"foo": (1, 2)}}


def test_the_share_of_a_predecessor_whose_instance_nobody_has_is_computed_again(
    group: GroupScript,
) -> None:
    """The replacement bumped no epoch, and has another instance id now."""
    group.given_consumer_group(given_native("n1", assigned=ALL, instance_id="i"))
    group.native("n2")
    group.native("n1", -2, instance_id="i")
    group.native("n3", instance_id="i")
    group.native("n3", -2, instance_id="i")
    group.native("n3", instance_id="other")
    group.finish_computation({"n1": {"foo": (0,)}, "n2": {"foo": (1, 2)}})
    assert targets(group) == {"n2": {"foo": (1, 2)}, "n3": {}}
    assert (group.consumer.assignment_epoch, group.consumer.epoch) == (11, 12)
    group.native("n2", 10)
    assert begins_a_computation(group)
    group.finish_computation({"n3": {"foo": (0,)}})
    assert targets(group) == {"n2": {"foo": (1, 2)}, "n3": {"foo": (0,)}}


def test_a_member_that_takes_over_an_instance_gets_one_share(group: GroupScript) -> None:
    """The member is known under its id already. Its epoch bump asks for another target."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0,)}, instance_id="i"),
        given_native("n2", assigned={"foo": (1, 2)}),
    )
    group.native("n4")
    group.native("n1", -2, instance_id="i")
    group.native("n2", instance_id="i")
    assert group.consumer.epoch == 12
    group.finish_computation({"n1": {"foo": (0,)}, "n2": {"foo": (1,)}, "n4": {"foo": (2,)}})
    assert targets(group) == {"n2": {"foo": (1,)}, "n4": {"foo": (2,)}}


def test_the_share_of_an_instance_that_was_taken_over_replaces_no_other(
    group: GroupScript,
) -> None:
    """Its new holder has a share of its own, whichever comes first in the result."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (1, 2)}),
        given_native("n2", assigned={"foo": (0,)}, instance_id="i"),
    )
    group.native("n4")
    group.native("n2", -2, instance_id="i")
    group.native("n1", instance_id="i")
    group.finish_computation({"n1": {"foo": (1,)}, "n2": {"foo": (0,)}, "n4": {"foo": (2,)}})
    assert targets(group) == {"n1": {"foo": (1,)}, "n4": {"foo": (2,)}}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({"n1": {"foo": (0, 1)}, "n2": {"foo": (1, 2)}}, "foo-1 went to both 'n1' and 'n2'"),
        ({"n2": {"foo": (1,)}}, "foo-1 went to both 'n1' and 'n2'"),
        ({"n1": {"foo": (0,)}, "n2": {"foo": (1,)}}, "foo-2 was assigned to no member"),
        ({"who": {"foo": (1,)}}, "'who' is not a member"),
        ({"n1": {"foo": (0, 1, 2, 3)}, "n2": {}}, "no partition foo-3"),
        ({"n1": {**ALL, "bar": (0,)}, "n2": {}}, "'n1' does not subscribe to the topic bar"),
    ],
)
def test_a_wrong_target_changes_nothing(
    make_group: MakeGroup, target: dict[str, Owned], reason: str
) -> None:
    """The group keeps the target that it has, and says why."""
    group = make_group(config=PLUG_IN, topics=make_topics(foo=3, bar=1))
    group.given_consumer_group(given_native("n1", assigned=ALL))
    group.native("n2")
    group.finish_computation(target)
    assert reason in failure(group).reason
    assert group.last_step.durable == ()
    assert (group.consumer.assignment_epoch, group.consumer.epoch) == (10, 11)
    assert targets(group) == {"n1": ALL, "n2": {}}
    assert group.native("n1", 10).error is ErrorCode.NONE


def test_a_failed_computation_is_repeated_later(settled_group: GroupScript) -> None:
    """The computation is not repeated at each heartbeat, and a change of the group does not prevent
    it."""
    settled_group.native("n2")
    settled_group.finish_computation(reason="x" * 10_000)
    assert failure(settled_group).reason == "x" * REASON_CHARS_MAX
    settled_group.native("n3")
    settled_group.wait(RETRY_MS - 1)
    for member_id in ("n1", "n2", "n3"):
        settled_group.native(member_id, 10)
        assert not begins_a_computation(settled_group)
    settled_group.wait(1)
    settled_group.native("n1", 10)
    settled_group.finish_computation()
    assert settled_group.consumer.assignment_epoch == settled_group.consumer.epoch == 12
    settled_group.native("n4")
    assert begins_a_computation(settled_group), "a success ends the delay"


def test_a_group_without_native_members_is_advanced_by_its_timer(make_group: MakeGroup) -> None:
    """Its timer does not run while the target is computed, and waits after a failure."""
    group = make_group(
        config=GroupConfig(
            consumer_assignors=("by-weight",),
            consumer_assignment_interval_ms=0,
            consumer_migration_policy=MigrationPolicy.UPGRADE,
            reconnect_timeout_ms=0,
        )
    )
    group.given_consumer_group(
        given_classic("c1", session_timeout_ms=60_000),
        given_classic("c2", session_timeout_ms=60_000),
        epoch=11,
        assignment_epoch=10,
    )
    group.beat("c1", 10)
    assert group.left_ms(DeadlineKind.TARGET_DUE) == 0
    group.wait(0)
    assert group.consumer.computation is not None
    assert group.left_ms(DeadlineKind.TARGET_DUE) is None
    group.finish_computation(reason="broken")
    assert group.left_ms(DeadlineKind.TARGET_DUE) == RETRY_MS
    group.wait(RETRY_MS)
    group.finish_computation()
    assert group.consumer.assignment_epoch == 11


def test_a_restart_begins_the_computation_again(settled_group: GroupScript) -> None:
    """The result of the earlier one is ignored, until then and after."""
    settled_group.native("n2")
    settled_group.restart()
    assert settled_group.finish_computation({"n1": {}, "n2": ALL}, epoch=11).records == ()
    settled_group.native("n1", 10, owned=ALL)
    settled_group.native("n3")
    settled_group.finish_computation()
    assert settled_group.finish_computation({"n1": {}, "n2": ALL}, epoch=11).records == ()
    assert settled_group.consumer.assignment_epoch == 11


def test_the_result_of_an_earlier_computation_is_not_that_of_the_present_one(
    settled_group: GroupScript,
) -> None:
    """A plug-in answers late, after a restart and a change of the group."""
    settled_group.native("n2")
    settled_group.restart()
    settled_group.native("n3")
    assert begins_a_computation(settled_group)
    assert settled_group.finish_computation({"n1": {}, "n2": ALL}, epoch=11).records == ()
    settled_group.finish_computation({"n3": ALL, "n1": {}, "n2": {}})
    assert settled_group.consumer.assignment_epoch == settled_group.consumer.epoch == 12


def test_a_group_upgraded_during_its_first_rebalance_waits_at_an_epoch(
    group: GroupScript,
) -> None:
    """Epoch 0 would mean to join again. A new group waits at epoch 1, too."""
    classic_id = group.take_id()
    group.send_join(classic_id)
    assert group.native("n1").member_epoch == 1
    group.finish_computation()
    assert (group.consumer.assignment_epoch, group.consumer.epoch) == (2, 2)
    assert group.native("n1", 1).member_epoch == 2


def test_a_conversion_ends_the_computation(settled_group: GroupScript) -> None:
    """The result is for a group that does not exist any more."""
    settled_group.native("n2")
    settled_group.native("n2", -1)
    settled_group.native("n1", -1)
    settled_group.send_join(settled_group.take_id())
    assert set(settled_group.classic.members)
    assert not settled_group.feed(AssignmentReceived(epoch=11)).records


def test_a_paused_group_installs_nothing(settled_group: GroupScript) -> None:
    """DEV D75: it keeps the target that it has."""
    settled_group.native("n2")
    settled_group.set_policy(RollMode.PAUSE)
    settled_group.finish_computation()
    assert failure(settled_group).reason == "the group is paused"
    assert settled_group.consumer.assignment_epoch == 10


def test_only_a_short_result_is_checked_at_once(make_group: MakeGroup) -> None:
    """DEV D65: a long one is repeated where it does not delay others."""
    group = make_group(config=PLUG_IN, topics=make_topics(foo=SHORT_COMPUTATION_MAX))
    group.native("n1")
    assert group.consumer.computation is not None
    with pytest.raises(LongComputation):
        group.engine.handle(
            AssignmentReceived(epoch=2),
            now_ms=group.now_ms,
            topics=group.topics,
            may_take_long=False,
        )
    group.finish_computation()
    assert group.consumer.assignment_epoch == 2


def test_members_may_prefer_the_plug_in(make_group: MakeGroup) -> None:
    """Its name is one of the assignors that heartbeats may request."""
    group = make_group(config=GroupConfig(consumer_assignors=("uniform", "by-weight")))
    group.native("n1", assignor="by-weight")
    assert begins_a_computation(group)
    assert group.native("n2", assignor="other").error is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_plug_in_that_was_removed_is_replaced_by_the_default(make_group: MakeGroup) -> None:
    """A member's preference may be older than the settings."""
    group = make_group(config=GroupConfig(consumer_assignors=("uniform", "by-weight")))
    group.native("n1", assignor="by-weight")
    group.config = GroupConfig(reconnect_timeout_ms=0)
    group.restart()
    group.native("n1", 1, owned={})
    assert not begins_a_computation(group)
    assert group.consumer.assignor == "uniform"
