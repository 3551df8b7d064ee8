"""Downgrades (rule 6). The scenarios cover complete histories."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import MemberState
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import ClassicPhase, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, read_assignment, subscription

GOOD = subscription(["foo"])
JUNK = b"\x00\x01 junk"


def test_unreadable_metadata_does_not_prevent_a_downgrade(group: GroupScript) -> None:
    """JoinGroup checks only the first protocol. If the members select another one, its bytes must
    not fail the downgrade, because a timer has no request to refuse."""
    group.native("n1")
    first = group.join(version=3, protocols=(("range", GOOD), ("sticky", JUNK))).member_id
    group.join(version=3, protocols=(("sticky", GOOD),))
    for _ in range(4):
        group.wait(9_000)
        for member_id in group.consumer.phases:
            group.join(
                member_id,
                protocols=group.consumer.members[member_id].classic.protocols,  # type: ignore[union-attr]
            )
    group.wait(9_000)  # n1's session expires
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    assert group.classic.core.protocol == "sticky"
    assert group.classic.members[first].assignment[:2] == b"\x00\x01"


def test_unreadable_metadata_does_not_prevent_a_view(group: GroupScript) -> None:
    """After an upgrade the first protocol in a member's list may never have been selected."""
    tokens = [
        group.send_join(version=3, protocols=(("sticky", JUNK), ("range", GOOD))),
        group.send_join(version=3, protocols=(("range", GOOD),)),
    ]
    group.native("n1")
    assert {group.answers[token].error for token in tokens} == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert [member.is_classic for member in group.view().members].count(True) == 2


@pytest.mark.parametrize("has_synced", [True, False])
def test_a_replacement_rebalances_unless_every_member_has_synced(
    make_group: MakeGroup, has_synced: bool
) -> None:
    """A later SyncGroup names the protocol of its JoinGroup, not the selected one."""
    group = make_group(config=GroupConfig(consumer_assignment_interval_ms=0))
    group.native("n1", instance_id="i1")
    protocols = (("sticky", GOOD), ("range", GOOD))
    c1 = group.join(version=3, protocols=protocols)
    group.native("n1", 2, owned={"foo": (0, 1, 2)})
    group.native("n1", 2, owned={"foo": (0, 1)})
    while group.view().state != "Stable":
        c1 = group.join(c1.member_id, protocols=protocols)
    if has_synced:
        assert group.sync_assignment(c1.member_id, c1.generation, protocol_name="sticky")
    token = group.send_join(instance_id="i1", protocols=(("range", GOOD), ("sticky", GOOD)))
    assert group.is_parked(token) is not has_synced


def test_a_member_that_waits_for_a_partition_causes_a_rebalance(group: GroupScript) -> None:
    """c1 shall get foo-1, and n2 returns as classic before it has revoked it. Without a rebalance
    the owner would keep it."""
    group.given_consumer_group(
        given_classic(
            "c1",
            assigned={"foo": (0,)},
            target={"foo": (0, 1)},
            state=MemberState.UNRELEASED_PARTITIONS,
        ),
        given_native("n2", assigned={"foo": (1, 2)}, target={"foo": (2,)}, instance_id="i2"),
    )
    assert group.sync_assignment("c1", 10) == {"foo": (0,)}
    assert group.is_parked(group.send_join(instance_id="i2"))
    assert group.classic.phase is ClassicPhase.PREPARING_REBALANCE
    kinds = {key.kind for key in group.engine.state.deadlines}
    assert DeadlineKind.NEW_MEMBER_JOIN not in kinds, "it is not a new member"


def test_a_downgrade_keeps_the_members_identities(group: GroupScript) -> None:
    """Client, timeouts, instance and protocols stay. In a quiet group the member with the first id
    leads."""
    c3 = given_classic("c3", instance_id="i3", session_timeout_ms=7_000, rebalance_timeout_ms=8_000)
    group.given_consumer_group(c3, given_classic("c1"), given_native("n2", instance_id="n2"))
    before = group.consumer.members["c3"]
    last = group.join(instance_id="n2").member_id
    after = group.classic.members["c3"]
    assert (after.client_id, after.client_host) == (before.client_id, before.client_host)
    assert (after.session_timeout_ms, after.rebalance_timeout_ms) == (7_000, 8_000)
    assert before.classic is not None
    assert (after.instance_id, after.protocols) == ("i3", before.classic.protocols)
    assert group.classic.core.leader == min("c1", last)


def test_a_downgrade_stores_pending_revocations_as_assigned(group: GroupScript) -> None:
    """The member holds them until it has revoked them. After a restart only the log shows that, and
    no new member may get them (DEV D17)."""
    group.given_consumer_group(
        given_classic(
            "c1",
            assigned={"foo": (0,)},
            pending={"foo": (1,)},
            state=MemberState.UNREVOKED_PARTITIONS,
        ),
        given_native("n1", assigned={"foo": (2,)}),
        epoch=11,
    )
    group.native("n1", -1)
    group.restart()
    stored = group.classic.members["c1"].assignment
    assert read_assignment(stored) == {"foo": (0, 1)}
    assert group.names_of(group.native("n2").assignment) == {"foo": (2,)}


def test_the_first_member_leads_after_a_downgrade(group: GroupScript) -> None:
    """The first member to rejoin leads, unless the leader rejoins."""
    group.given_consumer_group(given_classic("c1"), given_classic("c2"), given_native("n1"))
    group.native("n1", -1)
    tokens = [group.send_join(member_id) for member_id in ("c2", "c1")]
    assert {group.answer(token, JoinGroupReply).leader for token in tokens} == {"c1"}


def given_member_at_older_epoch(make_group: MakeGroup) -> GroupScript:
    """A classic member that has its target at an older epoch (DEV D79), and a native static one."""
    group = make_group(config=GroupConfig(unaffected_members_rejoin=False))
    group.given_consumer_group(
        given_classic("c1", epoch=7, assigned={"foo": (0,)}),
        given_native("n1", instance_id="i1", assigned={"foo": (1, 2)}),
    )
    return group


def test_a_member_with_an_older_epoch_continues_with_it_after_a_quiet_downgrade(
    make_group: MakeGroup,
) -> None:
    """The member has its target, so it need not rejoin (DEV D79). Once it has, it has the
    generation."""
    group = given_member_at_older_epoch(make_group)
    joined = group.join(instance_id="i1")
    assert (joined.error, joined.generation) == (ErrorCode.NONE, 10)
    assert group.beat("c1", 7).error == ErrorCode.NONE
    assert group.commit("c1", 7, {"foo": (0,)})[1].error == ErrorCode.NONE
    assert group.beat("c1", 8).error == ErrorCode.ILLEGAL_GENERATION
    assert group.join("c1").generation == 10
    assert group.sync_assignment("c1", 10) == {"foo": (0,)}
    assert group.beat("c1", 7).error == ErrorCode.ILLEGAL_GENERATION
    group.native("n2", instance_id="i1")
    assert group.beat("c1", 10).error == ErrorCode.NONE


def test_a_restart_after_a_quiet_downgrade_knows_the_older_epoch(make_group: MakeGroup) -> None:
    """The client would drop its partitions as lost, only because a gateway was restarted."""
    group = given_member_at_older_epoch(make_group)
    group.join(instance_id="i1")
    group.restart()
    assert group.beat("c1", 7).error == ErrorCode.NONE
    assert group.commit("c1", 7, {"foo": (0,)})[1].error == ErrorCode.NONE
    assert group.beat("c1", 8).error == ErrorCode.ILLEGAL_GENERATION
    group.native("n2", instance_id="i1")
    assert group.beat("c1", 7).error == ErrorCode.NONE
    assert group.granted_partitions("c1") == {"foo": (0,)}


def test_a_restart_knows_that_a_member_has_the_generation(make_group: MakeGroup) -> None:
    """The member has the generation since it joined again, and would be fenced at its older epoch
    if the group is upgraded."""
    group = given_member_at_older_epoch(make_group)
    group.join(instance_id="i1")
    assert group.join("c1").generation == 10
    group.restart()
    assert group.beat("c1", 7).error == ErrorCode.ILLEGAL_GENERATION
    group.native("n2", instance_id="i1")
    assert group.beat("c1", 10).error == ErrorCode.NONE


def test_a_member_that_has_left_no_longer_lags(make_group: MakeGroup) -> None:
    """The log and the group agree about that."""
    group = given_member_at_older_epoch(make_group)
    group.join(instance_id="i1")
    group.leave("c1")
    assert group.classic.stored_value().older_epochs == {}
    group.restart()
    assert group.classic.stored_value().older_epochs == {}


def test_a_restart_forgets_a_lag_that_a_rebalance_has_ended(make_group: MakeGroup) -> None:
    """Who states the older epoch now has missed what others were assigned."""
    group = given_member_at_older_epoch(make_group)
    static_id = group.join(instance_id="i1").member_id
    new_id = group.take_id()
    tokens = [group.send_join(member_id) for member_id in (new_id, "c1")]
    tokens.append(group.send_join(static_id, instance_id="i1"))
    replies = [group.answer(token, JoinGroupReply) for token in tokens]
    (leader,) = {reply.leader for reply in replies}
    group.send_sync(leader, replies[0].generation, assignments={"c1": {"foo": (0,)}})
    group.restart()
    assert group.beat("c1", replies[0].generation).error == ErrorCode.NONE
    assert group.beat("c1", 7).error == ErrorCode.ILLEGAL_GENERATION


def test_a_replacement_leaves_members_with_an_older_epoch_alone(make_group: MakeGroup) -> None:
    """The replacement needs no rebalance, although the group is stored."""
    group = given_member_at_older_epoch(make_group)
    group.join(instance_id="i1")
    assert group.join(instance_id="i1").generation == 10
    assert group.classic.phase is ClassicPhase.STABLE
    assert group.beat("c1", 7).error == ErrorCode.NONE


def test_a_member_that_lags_after_a_quiet_downgrade_is_upgraded_as_it_is(
    make_group: MakeGroup,
) -> None:
    group = given_member_at_older_epoch(make_group)
    group.join(instance_id="i1")
    group.native("n2", instance_id="i1")
    assert group.beat("c1", 7).error == ErrorCode.NONE
    assert group.granted_partitions("c1") == {"foo": (0,)}
