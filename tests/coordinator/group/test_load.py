"""Loading a group from its log (rules 2.10, 3.12)."""

import pytest

from coordinator.group.load import has_adoption, has_group, has_members, newest, overrides_in
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import AdoptionRecord, GroupConfigs, MemberState
from coordinator.interface.volatile_records import (
    ClassicPhase,
    DeadlineKey,
    DeadlineKind,
    MemberPhase,
)
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.simulation.invariants import check_group
from tests.support.durable_records import RECORDS
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript

FOO_0 = {"foo": (0,)}


def test_sessions_of_a_loaded_classic_group_restart(group: GroupScript) -> None:
    """Sessions have full length, or longer to allow a reconnect. Pending ids and a running
    rebalance are forgotten."""
    ids = group.stable_classic_group({"a": FOO_0, "b": {}})
    handed_out = group.take_id()
    group.send_join(ids["a"], topics=("bar",))
    group.wait(5_000)
    phases = [group.classic.phase]
    group.restart()
    phases.append(group.classic.phase)
    assert phases == [ClassicPhase.PREPARING_REBALANCE, ClassicPhase.STABLE]
    assert {key: at - group.now_ms for key, at in group.engine.state.deadlines.items()} == {
        DeadlineKey(DeadlineKind.SESSION, id_): 15_000 for id_ in ids.values()
    }
    assert group.join(handed_out).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat(ids["a"], 1).error == ErrorCode.NONE
    assert group.engine.next_deadline_ms() == group.now_ms + 10_000


@pytest.mark.parametrize(("session_timeout_ms", "first_ms"), [(6_000, 15_000), (20_000, 20_000)])
def test_the_first_session_is_long_enough_to_reconnect(
    group: GroupScript, session_timeout_ms: int, first_ms: int
) -> None:
    """DEV D41: by default, clients wait up to 10 s before they reconnect. The next session has its
    normal length."""
    group.given_consumer_group(given_classic("c", session_timeout_ms=session_timeout_ms))
    assert group.left_ms(DeadlineKind.SESSION, "c") == first_ms
    group.beat("c", 10)
    assert group.left_ms(DeadlineKind.SESSION, "c") == session_timeout_ms


def test_the_whole_protocol_list_survives_a_load(group: GroupScript) -> None:
    """Kafka keeps only the selected protocol, so a rejoin with the same list counts as a change."""
    metadata = given_classic_group_member("a").protocols[0][1]
    protocols = (("range", metadata), ("sticky", metadata))
    ids = group.stable_classic_group({"a": FOO_0, "b": {}}, protocols=protocols)
    group.restart()
    follower = next(id_ for id_ in ids.values() if id_ != group.classic.core.leader)
    assert group.join(follower, protocols=protocols).generation == 1
    assert group.classic.phase is ClassicPhase.STABLE


def test_a_pending_revocation_survives_a_load(group: GroupScript) -> None:
    """Native and classic members have a full rebalance timeout."""
    state = MemberState.UNREVOKED_PARTITIONS
    group.given_consumer_group(
        given_native("n1", pending=FOO_0, state=state, rebalance_timeout_ms=4_000),
        given_classic("c1", pending={"foo": (1,)}, state=state, rebalance_timeout_ms=5_000),
    )
    assert group.left_ms(DeadlineKind.REVOCATION, "n1") == 4_000
    assert group.left_ms(DeadlineKind.REVOCATION, "c1") == 5_000


def test_an_assignment_is_not_repeated_for_ever_after_a_load(group: GroupScript) -> None:
    """A native member gets its rebalance timeout from its first heartbeat on."""
    group.given_consumer_group(given_native("n1", rebalance_timeout_ms=4_000))
    group.restart()
    now_ms, session_ms = group.now_ms, group.config.consumer_session_timeout_ms
    assert group.consumer.repetitions["n1"].until_ms == now_ms + 4_000 + session_ms


def test_a_member_behind_the_target_has_to_rejoin(group: GroupScript) -> None:
    """DEV D7: it is in PrepareRebalance, with its join timer. Other members are Stable."""
    group.given_consumer_group(
        given_classic("c1", epoch=9), given_classic("c2"), given_native("n1", epoch=9)
    )
    assert dict(group.consumer.phases) == {
        "c1": MemberPhase.PREPARE_REBALANCE,
        "c2": MemberPhase.STABLE,
    }
    joins = [key.owner for key in group.engine.state.deadlines if key.kind is DeadlineKind.JOIN]
    assert joins == ["c1"]


def test_a_restart_creates_no_group(group: GroupScript) -> None:
    """No member ever joined the group."""
    group.restart()
    assert group.engine.state.group is None
    assert group.engine.state.is_quiet


def test_an_interrupted_downgrade_continues(group: GroupScript) -> None:
    """Without a rebalance the native member's partitions would stay without an owner."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_native("n1", assigned={"foo": (1, 2)})
    )
    group.native("n1", -1)
    group.restart()
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.left_ms(DeadlineKind.JOIN_PHASE) == 10_000
    assert group.join("c1").generation == 11


def test_a_group_beyond_its_size_limit_rebalances(make_group: MakeGroup) -> None:
    """The limit was lowered while the gateway was down (rule 2.10)."""
    group = make_group(config=GroupConfig(classic_max_size=1))
    group.given_classic_group(
        given_classic_group_member("a", FOO_0), given_classic_group_member("b")
    )
    assert group.beat("a", 0).error == ErrorCode.REBALANCE_IN_PROGRESS
    token = group.send_join("a")
    assert group.join("b").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not group.is_parked(token)


def test_a_member_that_left_temporarily_has_no_revocation_deadline(group: GroupScript) -> None:
    """The member gave up its partitions when it left, so after a restart only its session runs."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1)}, target={}, instance_id="i1"), epoch=11
    )
    group.native("n1", 10, owned={"foo": (0, 1)})
    group.native("n1", -2, instance_id="i1")
    group.restart()
    assert {key.kind for key in group.engine.state.deadlines} == {DeadlineKind.SESSION}


def test_a_partly_compacted_log_restores_the_group(group: GroupScript) -> None:
    """Some of the older records are missing. Partitions that n2 had in between do not affect the
    assignment or target of n1."""
    at_first = list(given_native("n1", assigned=FOO_0).records())
    in_between = list(given_native("n2", assigned=FOO_0).records())
    group.given_consumer_group(given_native("n2"), given_native("n1", assigned={"foo": (0, 1)}))
    in_the_end = list(group.log)
    group.log[:0] = [*at_first, *in_between]
    assert list(newest(group.log)) == in_the_end
    group.restart()
    check_group(group.engine.state)
    assert set(group.consumer.holders.values()) == {"n1"}
    group.log = in_the_end


def test_a_restarted_rebalance_waits_for_the_longest_timeout(group: GroupScript) -> None:
    """Every join phase does."""
    group.given_consumer_group(
        given_classic("c1", rebalance_timeout_ms=7_000),
        given_classic("c2", rebalance_timeout_ms=9_000),
        given_native("n1"),
    )
    group.native("n1", -1)
    group.restart()
    assert group.left_ms(DeadlineKind.JOIN_PHASE) == 9_000


def test_a_log_shows_members_without_loading(group: GroupScript) -> None:
    """The gateway takes over groups with members at its start."""
    assert not has_members(group.log)
    ids = group.stable_classic_group({"a": FOO_0})
    assert has_members(newest(group.log))
    joined = group.native("n")
    group.leave(ids["a"])
    assert has_members(newest(group.log))
    group.native("n", -1)
    group.wait(5_000)
    assert joined.error is ErrorCode.NONE
    assert not has_members(newest(group.log))


def test_a_log_shows_a_group_without_loading(group: GroupScript) -> None:
    """The log has a group, or only configs."""
    configs = GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000})
    assert (has_group([]), overrides_in([])) == (False, {})
    assert (has_group([configs]), overrides_in([configs])) == (False, configs.overrides)
    group.given_consumer_group(given_native("n1"))
    records = [*group.log, configs]
    assert (has_group(records), overrides_in(records)) == (True, configs.overrides)
    assert overrides_in(group.log) == {}


def test_a_log_shows_an_adoption_under_way_without_loading() -> None:
    """Whatever else it has, and until the record of its end."""
    configs = GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000})
    begun = RECORDS["group_adoption"]
    ended = AdoptionRecord(value=None)
    assert not has_adoption([])
    assert not has_adoption([configs])
    assert has_adoption([configs, begun])
    assert not has_adoption(newest([begun, configs, ended]))


HOUR_MS = 3_600_000


def test_a_clock_that_was_ahead_delays_no_target(group: GroupScript) -> None:
    """The machine's clock was set back while no gateway ran, so the stored time is in the
    future."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1, 2)}), timestamp_ms=group.now_ms + HOUR_MS
    )
    group.native("n2", 0)
    assert group.consumer.assignment_epoch == group.consumer.epoch == 11


def test_a_clock_that_was_ahead_delays_no_resolution(group: GroupScript) -> None:
    """The regular expressions are matched again, and then at their interval."""
    group.native("n1", regex="f.*")
    group.resolve()
    group.now_ms -= HOUR_MS
    group.restart()
    step_is_due = group.native("n1", regex="f.*")
    assert step_is_due.error == ErrorCode.NONE
    assert group.last_step.resolution is not None


def test_a_loaded_member_is_told_to_rejoin_at_its_heartbeat(
    make_group: MakeGroup,
) -> None:
    """DEV D79: perhaps it need not rejoin at all. Until it was told, no timer may remove it."""
    group = make_group(config=GroupConfig(unaffected_members_rejoin=False))
    group.given_consumer_group(
        given_classic("c1", epoch=9, assigned=FOO_0, target={}), given_native("n1")
    )
    assert group.left_ms(DeadlineKind.JOIN, "c1") is None
    assert group.beat("c1", 9).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.left_ms(DeadlineKind.JOIN, "c1") == 10_000
