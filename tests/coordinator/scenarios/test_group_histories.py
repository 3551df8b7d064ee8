"""Long histories: a group is rolled to the native protocol and back (rule 5.10, invariants 7, 8,
10).

As in every scenario, the log is replayed after a cut at each batch, and each decision is checked to
change nothing before it is applied.
"""

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import EpochCause, GroupEpoch
from coordinator.interface.replies import JoinGroupReply
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript

SHARES = {"i1": {"foo": (0,)}, "i2": {"foo": (1,)}, "i3": {"foo": (2,)}}


def test_a_static_group_goes_up_and_down_without_a_move(group: GroupScript) -> None:
    """Three static members restart one by one, twice. No other member notices, each gets its own
    partitions back, and the epoch stays."""
    members = [
        given_classic_group_member(f"c-{i}", owned, instance_id=i) for i, owned in SHARES.items()
    ]
    group.given_classic_group(*members, generation=7)
    classic = {instance: f"c-{instance}" for instance in SHARES}
    for instance, share in SHARES.items():
        del classic[instance]
        reply = group.native(f"n-{instance}", instance_id=instance)
        assert reply.member_epoch == 7
        assert group.names_of(reply.assignment) == share
        for other, member_id in classic.items():
            assert group.beat(member_id, 7, instance_id=other).error == ErrorCode.NONE
    assert (group.view().state, group.view().group_type) == ("Stable", "consumer")
    for instance, share in SHARES.items():
        group.native(f"n-{instance}", -2, instance_id=instance)
        reply_ = group.join(instance_id=instance)
        assert reply_.generation == 7
        assert group.sync_assignment(reply_.member_id, 7, instance_id=instance) == share
        classic[instance] = reply_.member_id
    assert (group.view().state, group.view().group_type) == ("Stable", "classic")
    for instance, member_id in classic.items():
        assert group.beat(member_id, 7, instance_id=instance).error == ErrorCode.NONE
    causes = [record.cause for record in group.log if isinstance(record, GroupEpoch)]
    assert causes == [EpochCause.CONVERTED, EpochCause.GROUP_REMOVED]


def test_a_dynamic_group_goes_up_and_down(make_group: MakeGroup) -> None:
    """Two eager members restart one after the other. Each restart costs a leave and a join, each
    conversion carries the epoch over, and no partition has two owners."""
    group = make_group(config=GroupConfig(consumer_assignment_interval_ms=0))
    ids = group.stable_classic_group({"a": {"foo": (0, 1)}, "b": {"foo": (2,)}})
    group.leave(ids["a"])
    group.native("n-a")  # before b could rejoin
    assert group.view().group_type == "consumer"
    assert group.beat(ids["b"], 1).error == ErrorCode.REBALANCE_IN_PROGRESS
    b = group.join(ids["b"])
    assert group.sync_assignment(ids["b"], b.generation)["foo"]
    group.native("n-a", 2)
    assert group.view().state == "Stable"
    group.leave(ids["b"])
    group.native("n-b")
    group.native("n-a", group.current("n-a").member_epoch, owned=group.granted_partitions("n-a"))
    group.native("n-a", group.current("n-a").member_epoch, owned=group.granted_partitions("n-a"))
    group.native("n-b", group.current("n-b").member_epoch, owned={})
    assert group.view().state == "Stable"
    epoch = group.consumer.epoch

    group.native("n-a", -1)
    a = group.join(group.take_id())
    assert a.generation > epoch
    group.native("n-b", group.current("n-b").member_epoch, owned=group.granted_partitions("n-b"))
    group.native("n-b", group.current("n-b").member_epoch, owned=group.granted_partitions("n-b"))
    epoch = group.consumer.epoch
    group.native("n-b", -1)
    assert group.classic.core.generation == epoch
    assert group.beat(a.member_id, a.generation).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join(a.member_id).generation == epoch + 1
    newcomer = group.send_join(group.take_id())
    assert group.is_parked(newcomer)
    assert group.beat(a.member_id, epoch + 1).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join(a.member_id).generation == epoch + 2
    assert group.answer(newcomer, JoinGroupReply).generation == epoch + 2
