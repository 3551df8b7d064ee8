"""A classic joiner of an empty consumer group (rule 6.6)."""

from coordinator.interface.records import EpochCause, GroupEpoch
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_script import GroupScript


def test_a_join_with_a_member_id_is_refused_by_an_empty_consumer_group(group: GroupScript) -> None:
    """The group knows no member ids. The answer is UNKNOWN_MEMBER_ID, and the consumer group
    stays."""
    group.native("n1")
    group.native("n1", -1)
    assert group.join("n1").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.consumer.epoch == 3


def test_no_timer_of_the_consumer_group_outlives_it(group: GroupScript) -> None:
    """An empty group has no timer, not even for the target that the last leave made due."""
    group.native("n1")
    group.native("n1", -1)
    assert not group.engine.state.deadlines
    group.take_id()
    causes = [r.cause for r in group.last_step.durable if isinstance(r, GroupEpoch)]
    assert causes == [EpochCause.GROUP_REMOVED]
    assert {key.kind for key in group.engine.state.deadlines} == {DeadlineKind.PENDING_ID}


def test_a_late_request_of_an_earlier_member_states_no_epoch_of_a_present_one(
    group: GroupScript,
) -> None:
    """DEV D88: a late copy of a join makes a native member present again whose client left long
    ago. Its late commit has the epoch of then, and another member has the partitions."""
    earlier = group.native("n1").member_epoch
    group.native("n1", -1)
    group.stable_classic_group({"c1": {"foo": (0, 1, 2)}})
    assert group.native("n1").member_epoch > earlier
    _commit, verdict = group.commit("n1", earlier, {"foo": (0,)})
    assert verdict.error == ErrorCode.STALE_MEMBER_EPOCH
