"""One anchor: takes its group, keeps it, takes it again when lost, and leaves in the end.

`run` alone sends requests and ends the phases that these begin; others may say at any time that the
anchor is needed, in doubt, or to be dropped. Must not know who answers for the group meanwhile.
"""

import math
import random
from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol

import structlog
import trio

from coordinator.events import OffsetCommitEnded
from coordinator.volatile import Token
from gateway.anchor.errors import AnchorDisplaced, AnchorRefused, AnswerLost
from gateway.anchor.identity import AnchorIds
from gateway.anchor.membership import Membership
from gateway.anchor.phases import Phase, check_move
from gateway.cluster.errors import UpstreamError

log = structlog.get_logger()

HEARTBEAT_INTERVAL_S = 3.0
"""On average, as in Kafka's clients; a removed anchor is noticed this late, or as soon as the group
commits or gives partitions to somebody."""
SPREAD = 0.2
"""Heartbeats come this much sooner or later, so that those of many anchors drift apart."""
ANXIOUS_INTERVAL_S = 2.0
"""Between heartbeats while the coordinator does not answer them."""
FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 2.0
NO_MEMBER = ""
"""The member id of a commit to a group without members."""


class GroupHolder(Enum):
    """Who has a group in the cluster."""

    OURS = auto()
    """We, or nobody: it may be taken."""
    THEIRS = auto()
    """Somebody else: our members are fenced."""
    UNKNOWN = auto()
    """The cluster does not say."""


class Groups(Protocol):
    """What anchors ask of those who serve the groups."""

    def is_live(self, group_id: str) -> bool:
        """Whether the group has members here."""

    def end_commit(self, group_id: str, event: OffsetCommitEnded) -> None:
        """How a commit ended: the cluster refuses it from now on."""

    async def is_left_behind(self, group_id: str) -> bool:
        """Whether an anchor with our state log is in the group, though we have none here."""

    async def holder_of(self, group_id: str, *, is_replaced: bool) -> GroupHolder:
        """Who has the group, after we were refused or replaced; THEIRS: we have given way."""


class Anchor:
    """Stable or not, and under which ids."""

    def __init__(self, membership: Membership, *, groups: Groups, linger_s: float) -> None:
        self.group_id = membership.group_id
        self.phase = Phase.ABSENT
        self.why = "it is being taken"
        """Why the group is not held, as long as it is not; for clients, too."""
        self.has_given_way = False
        self.changed = trio.Event()
        """Set when the phase has changed; a new event then takes its place."""
        self.turn = trio.Lock()
        """Who waits for it goes on in the order of arrival: who joins first shall lead."""
        self._membership = membership
        self._groups = groups
        self._linger_s = linger_s
        self._ids: AnchorIds | None = None
        self._heard_s = -math.inf
        self._lost_s = trio.current_time()
        self._needed_until_s = trio.current_time() + linger_s
        # With members here and no anchor, the group may have been given away a moment ago.
        self._must_look = groups.is_live(self.group_id)
        self._was_replaced = False
        self._is_dropped = False
        self._reported: str | None = None
        self._stray_commits: dict[Token, str] = {}
        self._roused = trio.Event()

    def ids(self, *, since_s: float = -math.inf) -> AnchorIds | None:
        """The ids under which the group is held, as the cluster has confirmed at that time or
        later; None while it is not, or not surely."""
        is_held = self.phase is Phase.STABLE and trio.current_time() < self._held_until_s
        return self._ids if is_held and self._heard_s >= since_s else None

    @property
    def lost_for_s(self) -> float:
        """How long the group has not been held, 0 while it is."""
        since_s = self._held_until_s if self.phase is Phase.STABLE else self._lost_s
        return max(0.0, trio.current_time() - since_s)

    def need(self) -> None:
        """Somebody relies on it: it lingers from now on at the earliest."""
        self._needed_until_s = trio.current_time() + self._linger_s

    def check(self) -> None:
        """Let the cluster confirm now that the group is held."""
        if self.phase is Phase.STABLE:
            self._rouse()

    def drop(self) -> None:
        """Leave as soon as possible."""
        self._is_dropped = True
        self._rouse()

    def doubt(self, ids: AnchorIds, error: AnchorDisplaced) -> None:
        """The cluster refused these ids."""
        if self.phase is Phase.STABLE and ids == self._ids:
            self._lose(error)

    def renew(self, ids: AnchorIds | None, commit: Token) -> None:
        """The answer to a commit under these ids was lost: the cluster may still store it until the
        anchor has another member id, or is there at all if the commit was nobody's. Then, and not
        before, the commit has ended."""
        self._stray_commits[commit] = ids.member_id if ids is not None else NO_MEMBER
        if self.phase is Phase.STABLE:
            self._end_stray_commits()

    def look_around(self) -> None:
        """The coordinator has moved: follow it now."""
        self._membership.forget_coordinator()
        self._rouse()

    def announce(self) -> None:
        """Let those who wait for a change look again."""
        self.changed.set()
        self.changed = trio.Event()

    def start_again(self) -> None:
        """`run` was ended by a bug: whatever it was doing, the group is to be taken again."""
        self.phase = Phase.LOST
        self._lost_s = trio.current_time()

    async def run(self) -> None:
        """Hold the group until nobody needs it, or somebody else has it."""
        while await self._take():
            await self._keep()
            if self.phase is Phase.STABLE and await self._leave():
                return

    # -- taking it -------------------------------------------------------------------------------

    async def _take(self) -> bool:
        """Until it is Stable. False if it is no longer needed, or somebody else has the group."""
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
        """Those under another member id than the present one are refused by the cluster."""
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
        """Until it is lost, or no longer needed."""
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
        """The coordinator has heard us, no sooner than that: it keeps us for a session at least."""
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
        """Whether it is surely gone, or nobody minds."""
        assert self._ids is not None
        self._move(Phase.LEAVING)
        try:
            await self._membership.leave(self._ids)
        except AnchorDisplaced:
            pass  # it was gone already
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
        """A commit may have been sooner to tell."""
        if self.phase is Phase.STABLE:
            self._lose(error)

    def _lose(self, error: AnchorRefused | AnchorDisplaced | AnswerLost | UpstreamError) -> None:
        self.why = f"the anchor is taken again: {error}"
        match error:
            case UpstreamError():
                self.why = "the anchor is taken again: its coordinator does not answer as it should"
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
