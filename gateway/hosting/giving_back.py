"""An adoption that failed gives the group back to the cluster.

The members are told to rejoin. Meanwhile the leader's member, the *guard*, leads every round and
assigns nothing to outsiders. Once no member can hold a partition any more, all former members
leave, so that requests that are still on their way are void.
"""

from gateway.hosting.adoption_requests import BACKOFF_MS, GONE, Requests, have_left
from gateway.hosting.adoption_steps import Effect, Lane
from gateway.hosting.holders import Holders
from gateway.hosting.identity import AnchorIds
from gateway.hosting.lanes import Lanes
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse

HEARTBEAT_INTERVAL_MS = 3_000


class GivingBack:
    """From the failure until all former members have left. Times are milliseconds."""

    def __init__(
        self,
        requests: Requests,
        lanes: Lanes,
        effects: list[Effect],
        *,
        led_round: JoinGroupResponse | None,
        has_synced: bool,
        is_locked: bool,
        holders: Holders,
        now_ms: int,
    ) -> None:
        """`led_round`: the round that the leader's member leads, if there is one. `has_synced`:
        whether it has completed that round. `is_locked`: whether an anchor in the group is ours.
        The anchor joins only a locked group; before, it may be another gateway's."""
        self.is_over = False
        """Whether all have left."""
        self._requests = requests
        self._lanes = lanes
        self._effects = effects
        self._round = led_round
        self._has_synced = has_synced
        self._is_locked = is_locked
        self._is_guard_gone = self._is_releasing_all = False
        """Whether the guard is no longer in the group, and whether the LeaveGroup of all members is
        on its way."""
        self._not_before_ms = now_ms
        self.holders = holders
        """The members that may still hold partitions."""

    @property
    def guard(self) -> AnchorIds | None:
        """The ids under which recalled members can commit: the guard's, while it leads a complete
        round."""
        if not self._has_synced or self._round is None:
            return None
        return AnchorIds(
            member_id=self._round.member_id,
            generation=self._round.generation_id,
            instance_id=self._requests.leader.instance_id or "",
        )

    def next_ms(self) -> int | None:
        """When `advance` has something to do; None while only an answer can change anything."""
        silent_ms = self.holders.next_ms()
        if not self._waits_for_time:
            return silent_ms
        return self._not_before_ms if silent_ms is None else min(silent_ms, self._not_before_ms)

    @property
    def _waits_for_time(self) -> bool:
        """Whether something is due that no outstanding answer brings about."""
        if Lane.OTHERS in self._lanes:
            return False
        if not self.holders and Lane.ANCHOR not in self._lanes:
            return True
        if self._round is None:
            return Lane.LEADER not in self._lanes and not self._is_guard_gone
        return True

    def heard(self, member_id: str, now_ms: int) -> None:
        """A recalled member has sent a request."""
        self.holders.heard(member_id, now_ms)

    def gave_up(self, member_id: str, now_ms: int) -> None:
        """A recalled member holds nothing any more."""
        if self.holders.let_go(member_id):
            self._not_before_ms = now_ms

    def advance(self, now_ms: int) -> None:
        """Do what is due."""
        if [*self.holders.give_up(now_ms)] and not self.holders:
            self._not_before_ms = now_ms
        if now_ms < self._not_before_ms or Lane.OTHERS in self._lanes:
            return
        if not self.holders and Lane.ANCHOR not in self._lanes:
            self._is_releasing_all = True
            members = self._requests.group.members
            self._ask(Lane.OTHERS, self._requests.leave(members, with_anchor=self._is_locked))
        elif self._is_guard_gone:
            return
        elif self._round is None:
            if Lane.LEADER not in self._lanes:
                self._ask(Lane.LEADER, self._requests.rejoin(is_locked=False))
        elif not self._has_synced:
            there = (member.member_id for member in self._round.members)
            outsiders = [each for each in there if each != self._round.member_id]
            protocol = self._round.protocol_name or ""
            sync = self._requests.sync(self._round.generation_id, protocol, outsiders)
            self._ask(Lane.OTHERS, sync)
        else:
            beat = self._requests.beat(self._requests.leader, self._round.generation_id)
            self._ask(Lane.OTHERS, beat)

    def answered(self, lane: Lane, asked: Struct, answer: Struct, now_ms: int) -> None:
        """The coordinator has answered a request, perhaps one from before the failure."""
        leader_id = self._requests.leader.member_id
        match asked, answer:
            case _, LeaveGroupResponse() if self._is_releasing_all:
                self._is_releasing_all = False
                self.is_over = have_left(answer)
                if not self.is_over:
                    self._not_before_ms = now_ms + BACKOFF_MS
            case _ if lane is Lane.ANCHOR:
                pass  # it leaves with the others
            case HeartbeatRequest(member_id=member_id), _ if member_id != leader_id:
                pass  # it was sent to see whether the round had begun
            case _, JoinGroupResponse() | SyncGroupResponse() | HeartbeatResponse():
                self._guarded(answer, now_ms)
            case _:
                pass

    def unanswered(self, lane: Lane, now_ms: int) -> None:
        """The request may have been carried out, or be carried out later."""
        if lane is Lane.OTHERS and self._is_releasing_all:
            self._is_releasing_all = False
        else:
            self._round, self._has_synced = None, False
        self._not_before_ms = now_ms + BACKOFF_MS

    def _guarded(
        self, answer: JoinGroupResponse | SyncGroupResponse | HeartbeatResponse, now_ms: int
    ) -> None:
        """An answer about the guard."""
        code = answer.error_code
        if code in GONE:
            self._is_guard_gone, self._round = True, None
        elif isinstance(answer, JoinGroupResponse):
            self._has_synced = False
            self._round = None if code else answer
            self._not_before_ms = now_ms + (BACKOFF_MS if code else 0)
        elif code:
            self._round = None  # somebody has come: join the next round, and lead it
        else:
            self._has_synced = True
            self._not_before_ms = now_ms + HEARTBEAT_INTERVAL_MS

    def _ask(self, lane: Lane, message: Struct) -> None:
        self._effects.append(self._lanes.ask(lane, message))
