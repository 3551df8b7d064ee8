"""Anchors under Trio's mock clock, in front of a fake coordinator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from coordinator.interface.events import OffsetCommitEnded
from gateway.anchor.anchor import GroupHolder
from gateway.anchor.anchors import Anchors
from gateway.anchor.errors import NotAnchored
from gateway.anchor.identity import Gateway
from gateway.cluster.errors import UpstreamError
from gateway.room import Room
from kafka_codecs.declaration import Struct
from tests.support.fake_coordinator import FakeCoordinator, FakeGroup, FakeLinks
from tests.support.until import until_answered

GROUP = "orders"
OURS = Gateway(log_id="log-1", run_id="run-1")
NODE = 1


@dataclass(slots=True, kw_only=True)
class FakeGroups:
    """The answers of the engine and of the cluster look-up; see `gateway.anchor.anchor.Groups`."""

    live: set[str] = field(default_factory=set)
    ended: list[OffsetCommitEnded] = field(default_factory=list)
    verdict: GroupHolder = GroupHolder.OURS
    has_left_behind: bool = False
    looks: list[bool] = field(default_factory=list)
    """For each look-up, whether the anchor had been replaced."""

    def is_live(self, group_id: str) -> bool:
        """The answer that the test has set."""
        return group_id in self.live

    def end_commit(self, group_id: str, event: OffsetCommitEnded) -> None:
        """Remember it."""
        self.ended.append(event)

    async def is_left_behind(self, group_id: str) -> bool:
        """The answer that the test has set."""
        return self.has_left_behind

    async def holder_of(self, group_id: str, *, is_replaced: bool) -> GroupHolder:
        """The verdict that the test has set."""
        self.looks.append(is_replaced)
        return self.verdict


class AnchorScene:
    """Anchors, their fake coordinator, and one group."""

    def __init__(
        self, nursery: trio.Nursery, *, linger_s: float, anchors_max: int, per_address_max: int
    ) -> None:
        self.connections = FakeLinks()
        self.groups = FakeGroups()
        self.node_id = NODE
        self.coordinator_failure: UpstreamError | None = None
        self.anchors = Anchors(
            gateway=OURS,
            connections=self.connections,
            coordinator_of=self._coordinator_of,
            groups=self.groups,
            linger_s=linger_s,
            room=Room("anchored", groups_max=anchors_max, groups_per_address_max=per_address_max),
            nursery=nursery,
        )

    async def _coordinator_of(self, group_id: str) -> int:
        await trio.lowlevel.checkpoint()
        if self.coordinator_failure is not None:
            raise self.coordinator_failure
        return self.node_id

    @property
    def coordinator(self) -> FakeCoordinator:
        """The group's coordinator."""
        return self.connections.coordinator

    @property
    def group(self) -> FakeGroup:
        """The group in the cluster."""
        return self.coordinator.group(GROUP)

    def asked(self, kind: type[Struct]) -> int:
        """How often the coordinator received this kind of request."""
        return sum(isinstance(message, kind) for _, message in self.connections.asked)

    async def until_held(self, length_s: float = 60) -> None:
        """Wait until the anchor is Stable."""
        with trio.fail_after(length_s):
            await until_answered(self.is_held)  # as before every request

    async def is_held(self, group_id: str = GROUP) -> bool:
        """Whether the anchor is Stable. If it is not, this starts taking it."""
        try:
            return await self.anchors.hold(group_id, patience_s=0) is not None
        except NotAnchored:
            return False


def anchors_off(nursery: trio.Nursery) -> Anchors:
    """Anchors that are switched off, as in front of the embedded cluster."""

    async def nobody(group_id: str) -> int:
        raise AssertionError(f"an anchor that is off must not look up a coordinator: {group_id}")

    return Anchors(
        gateway=OURS,
        connections=FakeLinks(),
        coordinator_of=nobody,
        groups=FakeGroups(),
        linger_s=1,
        room=Room("anchored", groups_max=0, groups_per_address_max=0),
        nursery=nursery,
        is_on=False,
    )


@asynccontextmanager
async def anchor_scene(
    *, linger_s: float = 60, anchors_max: int = 8, per_address_max: int = 8
) -> AsyncIterator[AnchorScene]:
    """An anchor scene for the length of the block."""
    async with trio.open_nursery() as nursery:
        yield AnchorScene(
            nursery, linger_s=linger_s, anchors_max=anchors_max, per_address_max=per_address_max
        )
        nursery.cancel_scope.cancel()
