"""One group's task and a long computation: other groups continue."""

import threading
from collections.abc import Mapping

import pytest
import trio

from coordinator.assignors import ASSIGNORS, GroupSpec
from coordinator.consumer import target
from coordinator.interface.config import GroupConfig
from coordinator.interface.replies import ConsumerHeartbeatReply
from coordinator.interface.topics import Partition
from tests.gateway.groups.pending import Pending
from tests.support.hosted_groups import hosted_groups

AT_ONCE = GroupConfig(consumer_assignment_interval_ms=0)
PARTITIONS = 2_000
LIMIT_S = 5.0


class Held:
    """An assignor for large groups that waits for the test."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._assign = ASSIGNORS["uniform"]

    def __call__(self, spec: GroupSpec) -> Mapping[str, frozenset[Partition]]:
        """The real result."""
        if sum(spec.partition_counts.values()) >= PARTITIONS:
            self._token.run_sync_soon(self.asked.set)
            assert self.go_on.wait(LIMIT_S), "no other task got a turn"
        return self._assign(spec)


@pytest.fixture
async def held_assignor(monkeypatch: pytest.MonkeyPatch) -> Held:
    """Used in place of the real assignor."""
    assignor = Held()
    monkeypatch.setattr(target, "ASSIGNORS", {**ASSIGNORS, "uniform": assignor})
    return assignor


async def test_a_long_computation_delays_only_its_group(held_assignor: Held) -> None:
    """Other groups are served, and compute small targets meanwhile."""
    with trio.fail_after(2 * LIMIT_S):
        async with hosted_groups(config=AT_ONCE) as groups:
            groups.cluster.partition_counts["foo"] = PARTITIONS
            large = await Pending.start(groups, lambda: groups.native("n"))
            await held_assignor.asked.wait()
            groups.cluster.partition_counts["foo"] = 3
            small = await groups.native("n", group="other")
            assert len(small.assignment or ()) == 3
            assert groups.view() is not None, "an admin tool need not wait either"
            assert not large.done.is_set()
            held_assignor.go_on.set()
            await large.done.wait()
            assert isinstance(large.reply, ConsumerHeartbeatReply)
            assert len(large.reply.assignment or ()) == PARTITIONS
