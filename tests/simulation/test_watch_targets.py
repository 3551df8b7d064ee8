"""Which partitions the checks of targets expect a member to keep."""

from uuid import UUID

from coordinator.interface.topics import Partition
from tests.simulation.watch_targets import Pool, readable

FOO, BAR = (
    frozenset(Partition(UUID(int=topic), number) for number in range(2)) for topic in (1, 2)
)


def test_nobody_is_expected_to_keep_a_topic_that_it_no_longer_reads() -> None:
    """A classic member may change its subscription in a JoinGroup long before the next target
    (seed 2026200131)."""
    pools = [Pool(FOO, ["both", "foo"]), Pool(BAR, ["both"])]
    assert [readable(pools, member_id) for member_id in ("both", "foo")] == [FOO | BAR, FOO]
