"""The anchors of this gateway, one per hosted group, each with a task of its own.

Owns their number and who waits for them. Must not know what they say to the cluster.
"""

import math
from collections.abc import Awaitable, Callable

import structlog
import trio

from coordinator.events import OffsetCommitEnded
from coordinator.volatile import Token
from gateway.anchor.anchor import Anchor, Groups
from gateway.anchor.errors import AnchorDisplaced, NotAnchored
from gateway.anchor.identity import AnchorIds, Gateway
from gateway.anchor.membership import CoordinatorConnections, Membership

log = structlog.get_logger()

JOIN_PATIENCE_S = 10.0
"""How long a join waits for the anchor: Kafka's initial delay of 3 s, and then some."""
MEMBER_PATIENCE_S = 3.0
"""The same for whatever a member sends, counted from when the group was lost: its next heartbeat
waits behind all that it has sent, and a session may be as short as 6 s."""
RESTART_S = 5.0
"""After a bug of ours."""
LEAVE_TIMEOUT_S = 5.0
"""For all of them together, when the gateway ends."""


class Anchors:
    """Starts a group's anchor when it is needed; the anchor ends by itself."""

    def __init__(
        self,
        *,
        gateway: Gateway,
        connections: CoordinatorConnections,
        coordinator_of: Callable[[str], Awaitable[int]],
        groups: Groups,
        linger_s: float,
        anchors_max: int,
        nursery: trio.Nursery,
        is_on: bool = True,
    ) -> None:
        self._gateway = gateway
        self._connections = connections
        self._coordinator_of = coordinator_of
        self._groups = groups
        self._linger_s = linger_s
        self._anchors_max = anchors_max
        self._nursery = nursery
        self._is_on = is_on
        self._is_ending = False
        self._anchors: dict[str, Anchor] = {}

    async def hold(
        self, group_id: str, *, patience_s: float = JOIN_PATIENCE_S, since_s: float = -math.inf
    ) -> AnchorIds | None:
        """The ids under which the group is held, as soon as it is, and the cluster has confirmed
        so at `since_s` or later; None where anchors are off.

        In a group with members all waiting is over `patience_s` after the group was lost, however
        many requests come: they wait one behind the other. Raises NotAnchored.
        """
        if not self._is_on:
            return None
        anchor: Anchor | None = None
        with trio.move_on_after(max(0.0, patience_s - self._waited_s(group_id))):
            while not self._is_ending:
                anchor = self._needed(group_id)
                ids = anchor.ids(since_s=since_s) or await self._held(anchor, since_s)
                if ids is not None:
                    return ids
                if anchor.has_given_way:
                    break
        raise NotAnchored("the gateway is ending" if anchor is None else anchor.why)

    def _waited_s(self, group_id: str) -> float:
        """How long members of the group may have waited for its anchor already."""
        anchor = self._anchors.get(group_id)
        if anchor is None or not self._groups.is_live(group_id):
            return 0.0
        return anchor.lost_for_s

    async def _held(self, anchor: Anchor, since_s: float) -> AnchorIds | None:
        """Wait for this one; None if it came to an end instead, or the gateway does."""
        async with anchor.turn:
            while not self._is_ending and self._anchors.get(anchor.group_id) is anchor:
                anchor.need()
                if (ids := anchor.ids(since_s=since_s)) is not None:
                    return ids
                anchor.check()
                await anchor.changed.wait()
        return None

    def need(self, group_id: str) -> None:
        """Somebody relies on the anchor: it is being taken if it is not there. Raises
        NotAnchored."""
        if self._is_on:
            self._needed(group_id)

    def is_here(self, group_id: str) -> bool:
        """Whether we have the group's anchor, or are about to."""
        return group_id in self._anchors

    async def is_there(self, group_id: str) -> bool:
        """The same, or one was left behind whose place we may take: there is no passing it by."""
        return self.is_here(group_id) or (
            self._is_on and await self._groups.is_left_behind(group_id)
        )

    def doubt(self, group_id: str, ids: AnchorIds, error: AnchorDisplaced) -> None:
        """The cluster refused these ids; the anchor is repaired."""
        if (anchor := self._anchors.get(group_id)) is not None:
            anchor.doubt(ids, error)

    def look_around(self, group_id: str) -> None:
        """The group's coordinator is no longer where it was."""
        if (anchor := self._anchors.get(group_id)) is not None:
            anchor.look_around()

    def commit_lost(self, group_id: str, ids: AnchorIds | None, commit: Token) -> None:
        """The answer to a commit under these ids was lost; the anchor takes a new member id, or the
        group if it was not held, and then the commit has ended."""
        self._groups.end_commit(group_id, OffsetCommitEnded(commit=commit, answer_lost=True))
        if self._is_on:
            (self._anchors.get(group_id) or self._start(group_id)).renew(ids, commit)

    async def drop(self, group_id: str) -> None:
        """Let go of a group that is empty, also where an anchor was left behind: by taking its
        place. Raises NotAnchored if that takes too long, or if somebody waits to be let in."""
        if not await self.is_there(group_id):
            return
        anchor = self._needed(group_id)
        if anchor.turn.locked():
            raise NotAnchored("somebody is about to join")
        anchor.drop()
        with trio.move_on_after(MEMBER_PATIENCE_S) as limit:
            await self._until_gone(anchor)
        if limit.cancelled_caught:
            raise NotAnchored("the anchor has not left yet")

    def let_go(self, group_id: str) -> None:
        """Nobody was let in after all: there is nothing to linger for."""
        anchor = self._anchors.get(group_id)
        if anchor is not None and not anchor.turn.locked():
            anchor.drop()

    def release_waiting(self) -> None:
        """From now on nobody waits here: the gateway is about to end."""
        self._is_ending = True
        for anchor in self._anchors.values():
            anchor.announce()

    async def leave_all(self) -> None:
        """Let go of all groups, whoever is in them, for nothing of them will be left here."""
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

    def _needed(self, group_id: str) -> Anchor:
        anchor = self._anchors.get(group_id)
        if anchor is None:
            if len(self._anchors) >= self._anchors_max:
                raise NotAnchored(f"{self._anchors_max} groups have anchors already")
            anchor = self._start(group_id)
        anchor.need()
        return anchor

    def _start(self, group_id: str) -> Anchor:
        membership = Membership(
            group_id,
            gateway=self._gateway,
            connections=self._connections,
            coordinator_of=self._coordinator_of,
        )
        anchor = Anchor(membership, groups=self._groups, linger_s=self._linger_s)
        self._anchors[group_id] = anchor
        self._nursery.start_soon(self._run, anchor)
        return anchor

    async def _run(self, anchor: Anchor) -> None:
        structlog.contextvars.clear_contextvars()  # the connection that came first is not the group
        try:
            while True:
                try:
                    return await anchor.run()
                except Exception:  # the boundary: a bug, and it ends no other anchor
                    log.exception("anchor_failed", group_id=anchor.group_id)
                await trio.sleep(RESTART_S)
                anchor.start_again()
        finally:
            del self._anchors[anchor.group_id]
