"""One anchor: joins its group in the cluster, keeps its place, rejoins when lost, and finally
leaves.

Only `run` sends requests and completes phases. Other tasks may say at any time that they need the
anchor, doubt it, or want it dropped.
"""

import math
import random
from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol

import structlog
import trio

from coordinator.interface.events import OffsetCommitEnded
from coordinator.interface.volatile_records import Token
from gateway.anchor.errors import AnchorDisplaced, AnchorRefused, AnswerLost
from gateway.anchor.identity import AnchorIds
from gateway.anchor.membership import Membership
from gateway.anchor.phases import Phase, check_move
from gateway.cluster.errors import UpstreamError

log = structlog.get_logger()

HEARTBEAT_INTERVAL_S = 3.0
"""The average interval, as in Kafka's clients. The gateway notices a removed anchor at the next
heartbeat, commit or grant of partitions."""
SPREAD = 0.2
"""Random share of the interval, so that the heartbeats of many anchors drift apart."""
ANXIOUS_INTERVAL_S = 2.0
"""The heartbeat interval while the coordinator does not answer."""
FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 2.0
NO_MEMBER = ""
"""The member id of a commit to a group without members."""


class GroupHolder(Enum):
    """The holder of a group in the cluster."""

    OURS = auto()
    """This gateway, or no member at all: the anchor may join."""
    THEIRS = auto()
    """Another member: the gateway fences its own members."""
    UNKNOWN = auto()
    """The cluster did not answer."""


class Groups(Protocol):
    """What an anchor needs from the gateway's group handling."""

    def is_live(self, group_id: str) -> bool:
        """Whether the group has members here."""

    def end_commit(self, group_id: str, event: OffsetCommitEnded) -> None:
        """Report that a commit has ended: the cluster refuses it from now on."""

    async def is_left_behind(self, group_id: str) -> bool:
        """Whether an anchor of an earlier process with our state log is still in the group."""

    async def holder_of(self, group_id: str, *, is_replaced: bool) -> GroupHolder:
        """The holder, after our anchor was refused or replaced. THEIRS means that the gateway has
        fenced its members."""


class Anchor:
    """The anchor of one group: its phase and its ids."""

    def __init__(self, membership: Membership, *, groups: Groups, linger_s: float) -> None:
        self.group_id = membership.group_id
        self.phase = Phase.ABSENT
        self.why = "the anchor has not joined yet"
        """While the group is not held, the reason. Clients see it too."""
        self.has_given_way = False
        self.changed = trio.Event()
        """Set at each change of phase, and then replaced by a new event."""
        self.turn = trio.Lock()
        """Serves waiting joins in order of arrival, because the first one to join leads."""
        self._membership = membership
        self._groups = groups
        self._linger_s = linger_s
        self._ids: AnchorIds | None = None
        self._heard_s = -math.inf
        self._lost_s = trio.current_time()
        self._needed_until_s = trio.current_time() + linger_s
        # The group has members but no anchor, so the cluster may just have admitted another client.
        self._must_look = groups.is_live(self.group_id)
        self._was_replaced = False
        self._is_dropped = False
        self._reported: str | None = None
        self._stray_commits: dict[Token, str] = {}
        self._roused = trio.Event()

    def ids(self, *, since_s: float = -math.inf) -> AnchorIds | None:
        """The ids that the cluster confirmed at `since_s` or later; None if it has not."""
        is_held = self.phase is Phase.STABLE and trio.current_time() < self._held_until_s
        return self._ids if is_held and self._heard_s >= since_s else None

    @property
    def lost_for_s(self) -> float:
        """Seconds since the anchor lost the group; 0 while it holds it."""
        since_s = self._held_until_s if self.phase is Phase.STABLE else self._lost_s
        return max(0.0, trio.current_time() - since_s)

    def need(self) -> None:
        """Keep the anchor for at least the linger time from now on."""
        self._needed_until_s = trio.current_time() + self._linger_s

    def check(self) -> None:
        """Have the cluster confirm now that the anchor holds the group."""
        if self.phase is Phase.STABLE:
            self._rouse()

    def drop(self) -> None:
        """Leave as soon as possible."""
        self._is_dropped = True
        self._rouse()

    def doubt(self, ids: AnchorIds, error: AnchorDisplaced) -> None:
        """Report that the cluster refused these ids."""
        if self.phase is Phase.STABLE and ids == self._ids:
            self._lose(error)

    def renew(self, ids: AnchorIds | None, commit: Token) -> None:
        """Report that the answer to a commit under these ids was lost.

        The cluster may still store the commit until the anchor has a new member id, or has joined
        if the commit named no member. Only then has the commit ended.
        """
        self._stray_commits[commit] = ids.member_id if ids is not None else NO_MEMBER
        if self.phase is Phase.STABLE:
            self._end_stray_commits()

    def look_around(self) -> None:
        """Report that the coordinator has moved."""
        self._membership.forget_coordinator()
        self._rouse()

    def announce(self) -> None:
        """Wake all tasks that wait for a change."""
        self.changed.set()
        self.changed = trio.Event()

    def start_again(self) -> None:
        """Prepare for another `run` after a bug ended the last one: join again."""
        self.phase = Phase.LOST
        self._lost_s = trio.current_time()

    async def run(self) -> None:
        """Hold the group until the anchor is no longer needed or another member holds the group."""
        while await self._take():
            await self._keep()
            if self.phase is Phase.STABLE and await self._leave():
                return

    # -- taking it -------------------------------------------------------------------------------

    async def _take(self) -> bool:
        """Join until Stable. False if the anchor is no longer needed or another member holds the
        group."""
        backoff_s = 0.0
        while self._is_dropped or self._is_needed() or self._stray_commits:
            await trio.sleep(backoff_s)
            backoff_s = min(max(2 * backoff_s, FIRST_BACKOFF_S), LAST_BACKOFF_S)
            if self._must_look:
                holder = await self._groups.holder_of(self.group_id, is_replaced=self._was_replaced)
                if holder is GroupHolder.UNKNOWN:
                    continue
                if holder is GroupHolder.THEIRS:
                    self.has_given_way = True
                    self._end_commits(self._stray_commits)
                    break
                self._must_look = self._was_replaced = False
            if await self._try():
                return True
        if self.phase is not Phase.ABSENT:
            self._move(Phase.ABSENT)
        self.announce()
        return False

    async def _try(self) -> bool:
        self._move(Phase.JOINING)
        try:
            ids = await self._membership.join()
            self._move(Phase.SYNCING)
            sent_s = trio.current_time()
            await self._membership.sync(ids)
        except (AnchorRefused, AnchorDisplaced, UpstreamError) as error:
            self._lose(error)
            return False
        self._ids = ids
        self._confirm(sent_s)
        self.need()
        self._reported = None
        self._move(Phase.STABLE)
        log.info(
            "anchor_taken",
            group_id=self.group_id,
            member_id=ids.member_id,
            generation=ids.generation,
            node_id=self._membership.node_id,
        )
        self._end_stray_commits()
        return self.phase is Phase.STABLE

    def _end_stray_commits(self) -> None:
        """End commits under earlier member ids, which the cluster refuses by now."""
        assert self._ids is not None
        present = self._ids.member_id
        self._end_commits(
            [commit for commit, under in self._stray_commits.items() if under != present]
        )
        if self._stray_commits:
            self._lose(AnswerLost("the answer to a commit was lost"))

    def _end_commits(self, commits: Iterable[Token]) -> None:
        for commit in tuple(commits):
            del self._stray_commits[commit]
            self._groups.end_commit(self.group_id, OffsetCommitEnded(commit=commit))

    # -- keeping it ------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Send heartbeats until the anchor is lost or no longer needed."""
        self._roused = trio.Event()
        interval_s = HEARTBEAT_INTERVAL_S
        while self._is_kept() and self._is_needed():
            await self._rest(interval_s * random.uniform(1 - SPREAD, 1 + SPREAD))  # noqa: S311
            if self._is_kept():
                is_confirmed = await self._beat()
                interval_s = HEARTBEAT_INTERVAL_S if is_confirmed else ANXIOUS_INTERVAL_S

    def _is_kept(self) -> bool:
        return self.phase is Phase.STABLE and not self._is_dropped

    async def _rest(self, length_s: float) -> None:
        if not self._groups.is_live(self.group_id):
            length_s = min(length_s, self._needed_until_s - trio.current_time())
        with trio.move_on_after(length_s):
            await self._roused.wait()
        self._roused = trio.Event()

    async def _beat(self) -> bool:
        assert self._ids is not None
        sent_s = trio.current_time()
        try:
            await self._membership.beat(self._ids)
        except AnchorDisplaced as error:
            self._lose_if_stable(error)
        except UpstreamError as error:
            self._membership.forget_coordinator()
            if trio.current_time() >= self._held_until_s:
                self._lose_if_stable(error)
        else:
            self._confirm(sent_s)
            self.announce()
            return True
        return False

    def _confirm(self, sent_s: float) -> None:
        """The coordinator answered a request sent at `sent_s`: the session lasts from then on."""
        self._heard_s = sent_s

    @property
    def _held_until_s(self) -> float:
        return self._heard_s + self._membership.session_timeout_ms / 1000

    def _is_needed(self) -> bool:
        if self._groups.is_live(self.group_id):
            self.need()
        return trio.current_time() < self._needed_until_s

    # -- losing and leaving ----------------------------------------------------------------------

    async def _leave(self) -> bool:
        """True if the anchor has certainly left, or its absence does not need to be certain."""
        assert self._ids is not None
        self._move(Phase.LEAVING)
        try:
            await self._membership.leave(self._ids)
        except AnchorDisplaced:
            pass  # the cluster had removed it already
        except UpstreamError as error:
            log.warning("anchor_left_behind", group_id=self.group_id, reason=str(error))
            if self._stray_commits:
                self._lose(error)
                return False
        self._end_commits(self._stray_commits)
        self._move(Phase.ABSENT)
        log.info("anchor_left", group_id=self.group_id)
        return True

    def _lose_if_stable(self, error: AnchorDisplaced | UpstreamError) -> None:
        """Lose the group, unless a commit has reported the loss already."""
        if self.phase is Phase.STABLE:
            self._lose(error)

    def _lose(self, error: AnchorRefused | AnchorDisplaced | AnswerLost | UpstreamError) -> None:
        self.why = f"the anchor rejoins: {error}"
        match error:
            case UpstreamError():
                self.why = "the anchor rejoins: its coordinator gave no usable answer"
                self._membership.forget_coordinator()
            case AnchorRefused():
                self._must_look = True
            case AnchorDisplaced(is_replaced=True):
                self._must_look = self._was_replaced = True
            case _:
                pass
        if self._reported != str(error):
            log.warning("anchor_lost", group_id=self.group_id, reason=str(error))
        self._reported = str(error)
        self._move(Phase.LOST)
        self._rouse()

    def _rouse(self) -> None:
        self._roused.set()

    def _move(self, phase: Phase) -> None:
        check_move(self.phase, phase)
        if self.phase is Phase.STABLE:
            self._lost_s = trio.current_time()
        self.phase = phase
        self.announce()
