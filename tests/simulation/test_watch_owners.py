"""The claims of clients, and their commits."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import JOIN_EPOCH, OffsetCommitReceived
from coordinator.interface.records import CurrentAssignment, MemberMetadata, RemovalCause
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.native_client import NativeClient
from tests.simulation.network import ADMIN
from tests.support.simulation import Stage


def two_owners() -> tuple[Stage, NativeClient, NativeClient]:
    """Two clients with half of the partitions each."""
    stage = Stage()
    first, second = stage.native("n1"), stage.native("n2")
    stage.wait()
    return stage, first, second


def commit(client: NativeClient, *others: NativeClient) -> OffsetCommitReceived:
    """A commit of the client's partitions, or of those of others."""
    owners = others or (client,)
    return OffsetCommitReceived(
        token=0,
        version=9,
        member_id=client.member_id,
        instance_id=None,
        epoch=client.epoch,
        partitions=frozenset(p for owner in owners for p in owner.claims),
    )


def test_two_owners_are_found() -> None:
    """Both clients may be members."""
    stage, first, second = two_owners()
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    second.claims.update(first.claims)
    both = {**group.assignments["n1"].assigned, **group.assignments["n2"].assigned}
    group.assignments.put("n2", replace(group.assignments["n2"], assigned=both))
    with pytest.raises(BrokenInvariantError) as broken:
        stage.owners.check()
    assert broken.value.invariant is Invariant.SINGLE_OWNER


def test_an_owner_without_a_grant_is_found() -> None:
    """The group considers the partition given up."""
    stage, _first, _second = two_owners()
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    nothing = replace(group.assignments["n1"], assigned={})
    group.apply(CurrentAssignment(member_id="n1", value=nothing))
    with pytest.raises(BrokenInvariantError) as broken:
        stage.owners.check()
    assert broken.value.invariant is Invariant.GRANTED


def test_a_removed_member_may_claim_partitions_for_a_while() -> None:
    """The run counts that time separately."""
    stage, _first, second = two_owners()
    gone = MemberMetadata(member_id="n1", value=None, cause=RemovalCause.SESSION_EXPIRED)
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    both = {**group.assignments["n1"].assigned, **group.assignments["n2"].assigned}
    group.apply(CurrentAssignment(member_id="n1", value=None))
    everything = replace(group.assignments["n2"], assigned=both)
    group.apply(CurrentAssignment(member_id="n2", value=everything))
    stage.owners.after_step(Step(records=(gone,)))
    second.assign(both, granted_ms=stage.world.now_ms)
    stage.world.now_ms += 100
    stage.owners.check()
    assert stage.world.counts["stale ms"] == 200


@pytest.mark.parametrize("has_left", [False, True])
def test_an_answer_without_an_assignment_that_nobody_heard_is_found(*, has_left: bool) -> None:
    """Unless its client has left since, and will hear all when it joins again (seed 1550938)."""
    stage, first, _second = two_owners()
    epoch = first.epoch
    first._target = None
    if has_left:
        first.member_epoch = JOIN_EPOCH
    for stated, is_excused in ((epoch, has_left), (JOIN_EPOCH, False)):
        heartbeat = replace(first._heartbeat(stated), member_epoch=stated)
        with nullcontext() if is_excused else pytest.raises(BrokenInvariantError, match="n1 knows"):
            stage.owners.told_nothing_new(heartbeat, "n1", stage.foo(0))


def test_commits_of_foreign_partitions_are_found() -> None:
    """A client's own partitions are allowed."""
    stage, first, second = two_owners()
    stage.owners.vetted("n1", commit(first))
    with pytest.raises(BrokenInvariantError) as broken:
        stage.owners.vetted("n1", commit(first, second))
    assert broken.value.invariant is Invariant.STALE_COMMIT


def test_offsets_that_go_back_are_found() -> None:
    """An owner that began before a commit is found as well."""
    stage, first, _second = two_owners()
    partition, claim = next(iter(first.claims.items()))
    assert claim.position is not None
    stage.owners.stored("n1", partition, before=3, now=3)
    with pytest.raises(BrokenInvariantError, match="back to 2"):
        stage.owners.stored("n1", partition, before=3, now=2)
    with pytest.raises(BrokenInvariantError, match="n1 began ") as broken:
        stage.owners.stored("n2", partition, before=3, now=claim.position + 1)
    assert broken.value.invariant is Invariant.OFFSETS


def test_an_admins_reset_after_an_owner_began_is_found() -> None:
    """The offset may go back or forward. Before an owner begins, an admin may set it."""
    stage, first, _second = two_owners()
    partition, claim = next(iter(first.claims.items()))
    claim.position = None
    stage.owners.stored(ADMIN, partition, before=3, now=2)
    claim.position = 5
    for now in (2, 4):
        with pytest.raises(BrokenInvariantError, match="n1 began ") as broken:
            stage.owners.stored(ADMIN, partition, before=3, now=now)
        assert broken.value.invariant is Invariant.OFFSETS
