"""The tracker knows of a group what the engine knows, and every grant has one end."""

import pytest

from gateway.events.group_events import GroupLoaded
from gateway.events.member_events import GrantEnded, PartitionsAssigned
from tests.support.simulated_events import simulate_events


@pytest.mark.parametrize("seed", range(20))
def test_every_grant_ends_once(seed: int) -> None:
    """A grant may still be open at the end. A loaded group states its grants again."""
    open_grants: dict[tuple[str, int], str] = {}
    for step in simulate_events(seed):
        for event in step.events:
            match event:
                case GroupLoaded(members=members):
                    open_grants = {
                        (topic, number): member.member_id
                        for member in members
                        for topic, numbers in (member.partitions or {}).items()
                        for number in numbers
                    }
                case PartitionsAssigned(member_id=member_id, partitions=partitions):
                    for topic, numbers in partitions.items():
                        for number in numbers:
                            assert open_grants.setdefault((topic, number), member_id) == member_id
                case GrantEnded(member_id=member_id, partitions=partitions):
                    for topic, numbers in partitions.items():
                        for number in numbers:
                            assert open_grants.pop((topic, number), None) == member_id, event
                case _:
                    pass
        assert open_grants == step.holdings
