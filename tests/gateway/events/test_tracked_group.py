"""A tracked group has what its events have said, no more and no less."""

import pytest

from gateway.events.group_events import GroupLoaded
from gateway.events.tracked_group import TrackedGroup
from tests.support.group_events import joins
from tests.support.simulated_events import simulate_events


@pytest.mark.parametrize("seed", range(6))
def test_the_events_determine_the_members_and_their_partitions(seed: int) -> None:
    """The tracked group equals the engine's state after every step of a simulated run."""
    group = TrackedGroup()
    for step in simulate_events(seed):
        for event in step.events:
            group.apply(event)
        members = {member.member_id: member for member in group.snapshot().members}
        assert members.keys() == step.members.keys()
        for member_id, known in step.members.items():
            assert members[member_id].protocol == known.protocol
        held = {
            (topic, number): member.member_id
            for member in members.values()
            for topic, numbers in (member.partitions or {}).items()
            for number in numbers
        }
        assert held == step.holdings


def test_a_snapshot_replaces_all_that_was_known() -> None:
    """A reader needs nothing that was written before it."""
    group = TrackedGroup()
    group.apply(joins("a"))
    group.apply(GroupLoaded(kind="classic", state="Stable", group_epoch=3, members=()))
    assert group.snapshot() == GroupLoaded(
        kind="classic", state="Stable", group_epoch=3, members=()
    )
