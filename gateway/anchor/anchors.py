"""The anchors of this gateway, one per hosted group, each in a task of its own.

Limits their number, and lets requests wait for an anchor.
"""

import math
from collections.abc import Awaitable, Callable

import structlog
import trio

from coordinator.interface.events import OffsetCommitEnded
from coordinator.interface.volatile_records import Token
from gateway.anchor.anchor import Anchor, Groups
from gateway.anchor.errors import AnchorDisplaced, NotAnchored
from gateway.anchor.identity import AnchorIds, Gateway
from gateway.anchor.membership import CoordinatorConnections, Membership
from gateway.room import Room, TooManyGroups

log = structlog.get_logger()

JOIN_PATIENCE_S = 10.0
"""How long a join waits for the anchor: more than Kafka's initial rebalance delay of 3 s."""
MEMBER_PATIENCE_S = 3.0
"""How long a member's requests wait for the anchor, counted from the loss of the group. The
member's next heartbeat queues behind them, and a session may be as short as 6 s."""
RESTART_S = 5.0
"""The delay before an anchor restarts after a bug."""
LEAVE_TIMEOUT_S = 5.0
"""The time for all anchors together to leave when the gateway exits."""


class Anchors:
    """Starts the anchor of a group on demand. The anchor ends by itself."""

    def __init__(
        self,
        *,
        gateway: Gateway,
        connections: CoordinatorConnections,
        coordinator_of: Callable[[str], Awaitable[int]],
        groups: Groups,
        linger_s: float,
        room: Room,
        nursery: trio.Nursery,
        is_on: bool = True,
    ) -> None:
        self._gateway = gateway
        self._connections = connections
        self._coordinator_of = coordinator_of
        self._groups = groups
        self._linger_s = linger_s
        self._room = room
        self._nursery = nursery
        self._is_on = is_on
        self._is_ending = False
        self._anchors: dict[str, Anchor] = {}

    async def hold(
        self,
        group_id: str,
        *,
        client_host: str | None = None,
        patience_s: float = JOIN_PATIENCE_S,
        since_s: float = -math.inf,
    ) -> AnchorIds | None:
        """Wait for ids that the cluster confirmed at `since_s` or later; None where anchors are
        off. An anchor that starts for a request counts towards the client's address.

        In a group with members, all requests stop waiting `patience_s` after the group was lost,
        because they queue one behind the other. Raises NotAnchored.
        """
        if not self._is_on:
            return None
        anchor: Anchor | None = None
        with trio.move_on_after(max(0.0, patience_s - self._waited_s(group_id))):
            while not self._is_ending:
                anchor = self._needed(group_id, client_host)
                ids = anchor.ids(since_s=since_s) or await self._held(anchor, since_s)
                if ids is not None:
                    return ids
                if anchor.has_given_way:
                    break
        raise NotAnchored("the gateway is shutting down" if anchor is None else anchor.why)

    def _waited_s(self, group_id: str) -> float:
        """How long the group's members have been waiting for the anchor."""
        anchor = self._anchors.get(group_id)
        if anchor is None or not self._groups.is_live(group_id):
            return 0.0
        return anchor.lost_for_s

    async def _held(self, anchor: Anchor, since_s: float) -> AnchorIds | None:
        """Wait for this anchor; None if it ends instead, or the gateway does."""
        async with anchor.turn:
            while not self._is_ending and self._anchors.get(anchor.group_id) is anchor:
                anchor.need()
                if (ids := anchor.ids(since_s=since_s)) is not None:
                    return ids
                anchor.check()
                await anchor.changed.wait()
        return None

    def need(self, group_id: str) -> None:
        """Start the anchor if the group has none, and keep it. Raises NotAnchored."""
        if self._is_on:
            self._needed(group_id)

    def is_here(self, group_id: str) -> bool:
        """Whether this gateway has an anchor for the group, Stable or not."""
        return group_id in self._anchors

    async def is_there(self, group_id: str) -> bool:
        """Whether an anchor is here, or an earlier process left one whose place we may take."""
        return self.is_here(group_id) or (
            self._is_on and await self._groups.is_left_behind(group_id)
        )

    def doubt(self, group_id: str, ids: AnchorIds, error: AnchorDisplaced) -> None:
        """Report that the cluster refused these ids. The anchor rejoins."""
        if (anchor := self._anchors.get(group_id)) is not None:
            anchor.doubt(ids, error)

    def look_around(self, group_id: str) -> None:
        """Report that the group's coordinator has moved."""
        if (anchor := self._anchors.get(group_id)) is not None:
            anchor.look_around()

    def commit_lost(self, group_id: str, ids: AnchorIds | None, commit: Token) -> None:
        """Report that the answer to a commit under these ids was lost. The commit ends once the
        anchor has a new member id, or has joined."""
        self._groups.end_commit(group_id, OffsetCommitEnded(commit=commit, answer_lost=True))
        if self._is_on:
            (self._anchors.get(group_id) or self._start(group_id)).renew(ids, commit)

    async def drop(self, group_id: str) -> None:
        """Release an empty group. If an earlier process left an anchor, first take its place.

        Raises NotAnchored if that takes too long, or if a client is waiting to join.
        """
        if not await self.is_there(group_id):
            return
        anchor = self._needed(group_id)
        if anchor.turn.locked():
            raise NotAnchored("a member is about to join")
        anchor.drop()
        with trio.move_on_after(MEMBER_PATIENCE_S) as limit:
            await self._until_gone(anchor)
        if limit.cancelled_caught:
            raise NotAnchored("the anchor has not left yet")

    def let_go(self, group_id: str) -> None:
        """Release the group without lingering, because no member was admitted."""
        anchor = self._anchors.get(group_id)
        if anchor is not None and not anchor.turn.locked():
            anchor.drop()

    def release_waiting(self) -> None:
        """End all waiting, now and from now on, because the gateway is shutting down."""
        self._is_ending = True
        for anchor in self._anchors.values():
            anchor.announce()

    async def leave_all(self) -> None:
        """Release all groups, with or without members: their state ends with this process."""
        with trio.move_on_after(LEAVE_TIMEOUT_S) as limit:
            async with trio.open_nursery() as nursery:
                for anchor in self._anchors.values():
                    anchor.drop()
                    nursery.start_soon(self._until_gone, anchor)
        if limit.cancelled_caught:
            log.warning("anchors_left_behind", groups=len(self._anchors))

    async def _until_gone(self, anchor: Anchor) -> None:
        while self._anchors.get(anchor.group_id) is anchor:
            await anchor.changed.wait()

    def _needed(self, group_id: str, client_host: str | None = None) -> Anchor:
        anchor = self._anchors.get(group_id)
        if anchor is None:
            try:
                self._room.check(client_host)
            except TooManyGroups as error:
                raise NotAnchored(str(error)) from None
            anchor = self._start(group_id, client_host)
        anchor.need()
        return anchor

    def _start(self, group_id: str, client_host: str | None = None) -> Anchor:
        membership = Membership(
            group_id,
            gateway=self._gateway,
            connections=self._connections,
            coordinator_of=self._coordinator_of,
        )
        anchor = Anchor(membership, groups=self._groups, linger_s=self._linger_s)
        self._anchors[group_id] = anchor
        self._room.take(group_id, client_host)
        self._nursery.start_soon(self._run, anchor)
        return anchor

    async def _run(self, anchor: Anchor) -> None:
        structlog.contextvars.clear_contextvars()  # do not log the connection that started it
        try:
            while True:
                try:
                    return await anchor.run()
                except Exception:  # a bug in one anchor must not end the others
                    log.exception("anchor_failed", group_id=anchor.group_id)
                await trio.sleep(RESTART_S)
                anchor.start_again()
        finally:
            del self._anchors[anchor.group_id]
            self._room.give_back(anchor.group_id)
