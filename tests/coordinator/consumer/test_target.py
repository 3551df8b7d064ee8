"""The target assignment: its time, its assignor and its records (rule 3.6)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.assignors import ASSIGNORS, GroupSpec, Target
from coordinator.consumer import target as target_module
from coordinator.consumer.target import group_spec
from coordinator.group.step_builder import SHORT_COMPUTATION_MAX
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.errors import GroupError, LongComputation
from coordinator.interface.records import TargetAssignmentMember, TargetAssignmentMetadata
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topic, Topics
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.assignor_strategies import Case, check_contract, fewest_moves, moves
from tests.support.engine_requests import NATIVE_JOIN
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, make_topics, subscription, topic_id
from tests.support.hypothesis_profile import examples

ALL = {"foo": (0, 1, 2)}


def test_a_target_is_computed_once_per_interval(group: GroupScript) -> None:
    """Until then the old target applies, and the group is in Assigning."""
    group.native("n1")
    reply = group.native("n2")
    assert (reply.member_epoch, reply.assignment) == (2, frozenset())
    assert group.view().state == "Assigning"
    group.wait(999)
    assert group.native("n2", 2).member_epoch == 2
    group.wait(1)
    assert group.native("n2", 2).member_epoch == 3
    assert group.consumer.target_timestamp_ms == group.now_ms


def test_the_second_target_after_a_quiet_time_does_not_wait(make_group: MakeGroup) -> None:
    """DEV D83: a restart is two changes, and a burst waits from its third change on."""
    group = make_group(config=GroupConfig(second_target_waits=False))
    group.given_consumer_group(given_native("n1", assigned=ALL), timestamp_ms=group.now_ms - 5_000)
    group.native("n2")
    group.wait(400)
    group.native("n2", -1)
    group.wait(400)
    assert group.native("n3").member_epoch == group.consumer.epoch == 13
    group.native("n4")
    assert group.view().state == "Assigning"
    group.wait(199)
    assert group.native("n4", 13).member_epoch == 13
    group.wait(1)
    assert group.native("n4", 13).member_epoch == group.consumer.epoch == 14
    group.wait(1_000)
    group.native("n4", -1)
    group.native("n1", 14, owned={})
    group.native("n5")
    assert group.consumer.assignment_epoch == group.consumer.epoch == 16


def test_only_a_long_computation_is_refused(make_group: MakeGroup) -> None:
    """DEV D65: the caller repeats it where it does not delay others."""
    group = make_group(topics=make_topics(foo=1, large=SHORT_COMPUTATION_MAX))
    short = {"now_ms": group.now_ms, "topics": group.topics, "may_take_long": False}
    group.engine.handle(NATIVE_JOIN, **short)  # type: ignore[arg-type]
    with pytest.raises(LongComputation):
        group.engine.handle(replace(NATIVE_JOIN, topic_names=("large",)), **short)  # type: ignore[arg-type]


def test_a_target_without_timestamp_does_not_delay_the_next(group: GroupScript) -> None:
    """A conversion writes such a target."""
    group.given_consumer_group(given_native("n1", assigned=ALL), timestamp_ms=0)
    assert group.native("n2").member_epoch == 11


def test_only_changed_targets_are_written(make_group: MakeGroup) -> None:
    """A member without topics has an empty target before and after."""
    group = make_group(config=GroupConfig(consumer_assignment_interval_ms=0))
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1)}),
        given_native("n2", assigned={"foo": (2,)}),
    )
    group.native("n3", topics=("missing",))
    written = [r for r in group.last_step.durable if isinstance(r, TargetAssignmentMember)]
    assert written == []
    targets = [r for r in group.last_step.durable if isinstance(r, TargetAssignmentMetadata)]
    assert [(r.epoch, r.assignor) for r in targets] == [(11, "uniform")]


def test_a_paused_group_upgraded_during_its_first_rebalance_waits_at_an_epoch(
    group: GroupScript,
) -> None:
    """DEV D75: it gets no target. Its members wait at the epoch where it became classic."""
    group.native("n1")
    group.set_policy(RollMode.PAUSE)
    group.native("n1", -1)
    group.send_join(group.take_id())
    assert group.native("n2").member_epoch == 3
    assert (group.consumer.assignment_epoch, group.consumer.epoch) == (3, 4)
    group.set_policy(RollMode.ALLOW)
    assert group.native("n2", 3).member_epoch == 4


def test_an_empty_group_computes_no_target(group: GroupScript) -> None:
    """The assignment epoch lags until a member joins, as in Kafka 4.3."""
    group.native("n1")
    group.native("n1", -1)
    group.wait(1_000)
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (3, 2)
    assert group.native("n2").member_epoch == 4


def failing(_spec: GroupSpec) -> Target:
    raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR, "the assignor does not know the topic x")


@pytest.fixture
def failing_assignors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "ASSIGNORS", dict.fromkeys(ASSIGNORS, failing))


@pytest.mark.usefixtures("failing_assignors")
def test_a_failed_assignor_writes_no_record(group: GroupScript) -> None:
    """The requester gets UNKNOWN_SERVER_ERROR, by heartbeat or JoinGroup (rules 3.6, 5.2 row 11),
    and does not become a member."""
    group.given_consumer_group(given_native("n1", assigned=ALL))
    assert group.native("n2").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.last_step.records == ()
    joined = group.join("c1")
    assert (joined.error, joined.member_id, joined.generation) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "",
        -1,
    )
    assert group.last_step.records == ()
    assert set(group.consumer.members) == {"n1"}


@pytest.mark.usefixtures("failing_assignors")
def test_an_assignor_that_fails_on_a_timer_is_retried(make_group: MakeGroup) -> None:
    """The timer of a group with only classic members retries it. Other timers are not delayed."""
    policy = MigrationPolicy.UPGRADE
    config = GroupConfig(reconnect_timeout_ms=0, consumer_migration_policy=policy)
    group = make_group(config=config)
    group.given_consumer_group(
        given_classic("c1", session_timeout_ms=60_000),
        given_classic("c2", session_timeout_ms=5_000),
        epoch=11,
        assignment_epoch=10,
        timestamp_ms=group.now_ms,
    )
    group.beat("c1", 10)
    group.wait(4_500)
    assert group.left_ms(DeadlineKind.TARGET_DUE) == 500
    assert group.consumer.assignment_epoch == 10
    group.wait(1_000)
    assert set(group.consumer.members) == {"c1"}


def test_the_assignor_sees_the_union_of_names_and_regexes(group: GroupScript) -> None:
    """A topic counts once per member even if name and regular expression match it. Nonexistent
    topics are omitted."""
    group.topics = make_topics(foo=3, bar=2)
    group.native("n1", topics=("foo", "missing"), regex="fo+|ba.")
    group.native("n2", topics=("foo",))
    group.resolve()
    spec = group_spec(group.consumer, group.topics, group.config)
    assert spec.subscriber_counts == {topic_id("foo"): 2, topic_id("bar"): 1}
    assert spec.partition_counts == {topic_id("foo"): 3, topic_id("bar"): 2}
    assert {id_: member.topic_ids for id_, member in spec.members.items()} == {
        "n1": {topic_id("foo"), topic_id("bar")},
        "n2": {topic_id("foo")},
    }
    assert len(spec.members) == 2


class Cluster:
    """Topics that grow, vanish, and return with another id."""

    def __init__(self) -> None:
        self.counts = {"foo": 4, "bar": 2}
        self.incarnations = {"foo": 0, "bar": 0}
        self.version = 0

    def image(self) -> Topics:
        self.version += 1
        topics = {
            name: Topic(
                name=name,
                topic_id=topic_id(f"{name} {self.incarnations[name]}"),
                partition_count=count,
            )
            for name, count in self.counts.items()
            if count
        }
        return Topics(topics, version=self.version)

    def change(self, name: str, count: int) -> None:
        """A smaller count means a recreated topic, 0 a deleted one."""
        if count < self.counts[name]:
            self.incarnations[name] += 1
        self.counts[name] = count


BOTH = ("bar", "foo")
MEMBERS = st.sampled_from(["m1", "m2", "m3", "m4", "m5"])
DEEDS = st.one_of(
    st.tuples(st.just("join"), MEMBERS, st.just(BOTH)),
    st.tuples(st.just("join"), MEMBERS, st.sampled_from([BOTH, ("foo",), ("bar", "none"), ()])),
    st.tuples(st.just("leave"), MEMBERS, st.none()),
    st.tuples(st.just("topic"), st.sampled_from(BOTH), st.integers(0, 12)),
)


def case_of(group: GroupScript, old: Target) -> Case:
    """The group in the form of the assignors' tests."""
    spec = group_spec(group.consumer, group.topics, group.config)
    return Case(dict(spec.members), spec.partition_counts, old)


@settings(max_examples=examples(200))
@given(st.lists(DEEDS, max_size=14))
def test_every_target_is_balanced_and_sticky(
    deeds: list[tuple[str, str, tuple[str, ...] | int | None]],
) -> None:
    """Members join, leave and change their subscriptions; topics grow and vanish. With equal
    subscriptions no balanced target needs fewer moves, and only changes are written."""
    cluster = Cluster()
    group = GroupScript(
        config=GroupConfig(consumer_assignment_interval_ms=0), topics=cluster.image()
    )
    subscribed: dict[str, tuple[str, ...]] = {"m0": BOTH}
    group.native("m0", topics=BOTH)
    for what, name, detail in deeds:
        if what == "topic" and isinstance(detail, int):
            cluster.change(name, detail)
            group.topics = cluster.image()
        elif isinstance(detail, tuple):
            subscribed[name] = detail
        elif name in subscribed:
            del subscribed[name]
            group.native(name, -1)
        old = dict(group.consumer.targets)
        witness = name if name in subscribed else "m0"
        group.native(witness, topics=subscribed[witness])
        check_target(group, old)
    group.check_replay()


def check_target(group: GroupScript, old: Target) -> None:
    consumer = group.consumer
    case = case_of(group, old)
    target = {member_id: consumer.target_of(member_id) for member_id in consumer.members}
    check_contract(case, target)
    if group_spec(consumer, group.topics, group.config).is_homogeneous:
        loads = sorted(len(share) for share in target.values())
        assert loads[-1] - loads[0] <= 1
        assert moves(case.kept_partitions, target) == fewest_moves(
            case.kept_partitions, len(case.subscribed_partitions)
        )
    written = {
        r.member_id for r in group.last_step.durable if isinstance(r, TargetAssignmentMember)
    }
    assert written == {id_ for id_, share in target.items() if share != old.get(id_, frozenset())}


def test_the_first_target_is_computed_whatever_the_clock_says(group: GroupScript) -> None:
    """No earlier target imposes an interval."""
    group.now_ms = 0
    assert group.names_of(group.native("n1").assignment) == {"foo": (0, 1, 2)}


def topic_in_racks(*racks: str, version: int = 1) -> Topics:
    """The topic foo, each partition with one replica."""
    foo = Topic(
        name="foo",
        topic_id=topic_id("foo"),
        partition_count=len(racks),
        racks=tuple(map(frozenset, racks)),
    )
    return Topics({"foo": foo}, version=version)


def targets_in_foo(group: GroupScript) -> dict[str, tuple[int, ...]]:
    return {member.member_id: tuple(member.target["foo"]) for member in group.view().members}


@pytest.mark.parametrize("rack_aware", [True, False])
def test_a_replica_that_moves_to_another_rack_may_move_its_partition(
    make_group: MakeGroup, *, rack_aware: bool
) -> None:
    """DEV D84: if the settings say so. The group epoch is bumped in any case (rule 3.5)."""
    config = GroupConfig(consumer_assignment_interval_ms=0, rack_aware=rack_aware)
    group = make_group(config=config, topics=topic_in_racks("a", "a", "b", "b"))
    group.native("n1", rack_id="a")
    group.native("n2", rack_id="b")
    before = {"n1": (0, 1), "n2": (2, 3)}
    assert targets_in_foo(group) == before
    group.topics = topic_in_racks("b", "a", "a", "b", version=2)
    assert group.native("n1", rack_id="a").error == ErrorCode.NONE
    assert group.consumer.assignment_epoch == 4
    after = {"n1": (1, 2), "n2": (0, 3)}
    assert targets_in_foo(group) == (after if rack_aware else before)


@pytest.mark.parametrize("rack_aware", [True, False])
def test_a_classic_member_counts_as_in_the_rack_of_its_subscription(
    make_group: MakeGroup, *, rack_aware: bool
) -> None:
    """DEV D84: native members tell theirs in heartbeats."""
    config = GroupConfig(consumer_assignment_interval_ms=0, rack_aware=rack_aware)
    group = make_group(config=config, topics=topic_in_racks("b", "b", "a", "a"))
    group.native("n1", rack_id="a")
    member_id = group.take_id()
    group.join(member_id, metadata=subscription(("foo",), rack_id="b", version=3))
    shares = [(2, 3), (0, 1)] if rack_aware else [(0, 1), (2, 3)]
    assert targets_in_foo(group) == dict(zip(("n1", member_id), shares, strict=True))


def test_the_range_assignor_ranks_static_members_first(make_group: MakeGroup) -> None:
    """Static members are ranked by instance id, so a restart with another member id moves
    nothing."""
    group = make_group(config=GroupConfig(consumer_assignment_interval_ms=0))
    group.native("a", assignor="range")
    group.native("b", instance_id="i1", assignor="range")
    target = {member.member_id: member.target for member in group.view().members}
    assert target == {"a": {"foo": (2,)}, "b": {"foo": (0, 1)}}
