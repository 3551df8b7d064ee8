"""An adoption that failed gives the group back to the cluster.

The members are told to rejoin. Meanwhile the leader's member, the *guard*, leads every round and
assigns nothing to outsiders. Once no member can hold a partition any more, all former members
leave, so that requests that are still on their way are void.
"""

from gateway.hosting.adoptees import Adoptees, have_left
from gateway.hosting.effects import Ask, Requester
from gateway.hosting.moving import BACKOFF_MS
from gateway.hosting.recall import Recall
from gateway.hosting.upstream_member import (
    NOTHING,
    In,
    Joined,
    Meaning,
    Out,
    Refusal,
    UpstreamMember,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.leave_group import LeaveGroupResponse


class AdoptionRollback:
    """From the failure until all former members have left. Times are milliseconds."""

    def __init__(
        self,
        adoptees: Adoptees,
        guard: UpstreamMember,
        anchor: UpstreamMember,
        *,
        is_locked: bool,
        recall: Recall,
    ) -> None:
        """`guard`: the leader's member, wherever the failure has left it. `is_locked`: whether an
        anchor in the group is ours. It joins only a locked group; before, it may be another
        gateway's."""
        self.recall = recall
        self.is_releasing_all = False
        """Whether the LeaveGroup of all members is on its way."""
        self._adoptees = adoptees
        self._guard, self._anchor = guard, anchor
        self._is_locked = is_locked
        self._release_from_ms = 0

    def next_ms(self, *, is_asking: bool) -> int | None:
        """When `advance` has something to do; None while only an answer can change anything."""
        times_ms = [self.recall.holders.next_ms(), self._guard_ms]
        if self._may_release_all and not is_asking:
            times_ms.append(self._release_from_ms)
        return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)

    def advance(self, now_ms: int, *, is_asking: bool) -> list[Ask]:
        """Return what is due. `is_asking`: whether a request about other members is under way."""
        self.recall.give_up_overdue(now_ms)
        guard_ms = self._guard_ms
        if self._may_release_all and now_ms >= self._release_from_ms and not is_asking:
            self.is_releasing_all = True
            members = self._adoptees.group.members
            return [
                Ask(Requester.OTHERS, self._adoptees.leave(members, with_anchor=self._is_locked))
            ]
        if guard_ms is not None and now_ms >= guard_ms:
            return [Ask(Requester.LEADER, self._keep_guard(now_ms))]
        return []

    def have_all_left(self, answer: Struct | None, now_ms: int) -> bool:
        """Take the answer to the LeaveGroup of all members, None if there is none. Returns whether
        it is over."""
        self.is_releasing_all = False
        self._release_from_ms = now_ms + BACKOFF_MS
        return isinstance(answer, LeaveGroupResponse) and have_left(answer)

    @property
    def _may_release_all(self) -> bool:
        """Whether no member holds anything, and the anchor cannot join afterwards."""
        return not (self.recall.holders or self._anchor.awaits_answer or self.is_releasing_all)

    @property
    def _guard_ms(self) -> int | None:
        """When the guard has something to do. Once it was removed, it is not missed: its client has
        come back under another id, or its session is over."""
        is_needed = self.recall.holders or self._anchor.awaits_answer
        match self._guard.stage:
            case Out(refusal=Refusal(meaning=Meaning.GONE)):
                return None
            case _:
                return self._guard.next_ms() if is_needed else None

    def _keep_guard(self, now_ms: int) -> Struct:
        match self._guard.stage:
            case Joined() as joined:
                return self._guard.sync(dict.fromkeys(joined.others, NOTHING), now_ms)
            case In():
                return self._guard.beat(now_ms)
            case _:
                member_id = self._adoptees.leader.member_id
                return self._guard.join(now_ms, member_id=member_id, names=self._adoptees.names)
