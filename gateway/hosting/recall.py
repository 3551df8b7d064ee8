"""What recalled members are told: to rejoin, and then to come back without their ids.

A member is recalled before its group goes back to the cluster. Its former id has no future there,
so requests under it that are still on their way are void. Its commits travel under the ids of the
member that keeps the group meanwhile, the *guard*.
"""

from collections.abc import Callable, Mapping

from coordinator.interface.events import (
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    OffsetCommitReceived,
    SyncGroupReceived,
)
from coordinator.interface.records import ClassicGroupMember
from coordinator.interface.replies import LeaveGroupReply, LeftMember, OffsetVerdict
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.adoption_steps import GaveUp, Heard
from gateway.hosting.anchor import ABOUT_THE_ANCHOR
from gateway.hosting.answers import Situation
from gateway.hosting.calls import Answer, Call, Commits, Outcome, Refused, Store
from gateway.hosting.identity import AnchorIds
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import decode_subscription

RECALLED = Refused(Situation.RECALLED, "the group goes back to the cluster: rejoin")
STILL_OWNS = Refused(Situation.STILL_OWNS, "its member has gone: give up its partitions")

Members = Mapping[str, ClassicGroupMember]


class Recall:
    """One recall at a time."""

    def __init__(
        self, tell: Callable[[Heard | GaveUp, int], None], *, owners_may_return: bool
    ) -> None:
        """`tell` learns which members are alive, and which have given up. Whether clients may
        return that still own partitions: franz-go keeps them on UNKNOWN_MEMBER_ID for its next
        round. Otherwise they get an error on which it loses them."""
        self.in_flight = 0
        """Commits under the ids of the guard that have no answer yet."""
        self._tell = tell
        self._owners_may_return = owners_may_return
        self._on_their_way: dict[int | None, str] = {}
        """The clients that got UNKNOWN_MEMBER_ID instead of a place in the next round, by their
        connections, and their former ids."""
        self._has_stray = False
        """Whether the answer to a commit under the ids of the guard was lost."""

    def end(self) -> None:
        """It is over. The next one begins with nothing."""
        self.in_flight = 0
        self._on_their_way.clear()
        self._has_stray = False

    # -- requests of membership ------------------------------------------------------------------

    def answer(self, call: Call, members: Members, now_ms: int) -> Answer | None:
        """The answer to a call, None while it has to wait. `members` are those that were
        recalled."""
        match call.event:
            case HeartbeatReceived(member_id=member_id) if member_id in members:
                self._tell(Heard(member_id), now_ms)
                return RECALLED
            case SyncGroupReceived(member_id=member_id) if member_id in members:
                return RECALLED
            case LeaveGroupReceived(members=leavers) if all(
                each.member_id in members for each in leavers
            ):
                left = []
                for each in leavers:
                    self._tell(GaveUp(each.member_id, comes_back=False), now_ms)
                    left.append(LeftMember(member_id=each.member_id, instance_id=each.instance_id))
                return LeaveGroupReply(members=tuple(left))
            case JoinGroupReceived(member_id=member_id) as event if member_id in members:
                return self._rejoin(call, event, now_ms)
            case JoinGroupReceived(member_id="") as event if call.connection in self._on_their_way:
                return self._return(call, still_owns=not _owns_nothing(event), now_ms=now_ms)
            case _:
                return None

    def _rejoin(self, call: Call, event: JoinGroupReceived, now_ms: int) -> Answer:
        """Its id is void from now on. Whether it has given up everything, its JoinGroup says, or
        the next one on its connection does."""
        if not _owns_nothing(event) and call.connection is not None:
            self._on_their_way[call.connection] = event.member_id
            self._tell(Heard(event.member_id), now_ms)
        elif _owns_nothing(event):
            self._tell(GaveUp(event.member_id), now_ms)
        return RECALLED

    def _return(self, call: Call, *, still_owns: bool, now_ms: int) -> Answer | None:
        former_id = self._on_their_way[call.connection]
        if still_owns and not self._owners_may_return:
            self._tell(Heard(former_id), now_ms)
            return STILL_OWNS
        del self._on_their_way[call.connection]
        self._tell(GaveUp(former_id, still_owns=still_owns), now_ms)
        return None

    # -- commits ---------------------------------------------------------------------------------

    def store(
        self, call: Commits, topics: Topics, members: Members, guard: AnchorIds | None
    ) -> Answer | None:
        """Have the commits of a recalled member stored under the ids of the guard. After one that
        is lost, no later one: the cluster might store the lost one last."""
        if call.errand is not None:
            return None
        events = [each.make(each.token, topics) for each in call.commits.values()]
        committers = {each.member_id for each in events if isinstance(each, OffsetCommitReceived)}
        if guard is None or self._has_stray or not committers <= members.keys():
            return RECALLED
        for commit in call.commits.values():
            commit.outcome = Outcome(verdict=OffsetVerdict())
        self.in_flight += 1
        call.send_on(Store(tuple(call.commits), guard))
        return None

    def stored(self, call: Commits, codes: Mapping[Token, frozenset[int] | str]) -> Answer:
        """What became of commits under the ids of the guard."""
        self.in_flight -= 1
        for token, commit in call.commits.items():
            told = codes[token]
            if isinstance(told, str):
                self._has_stray = True
                commit.outcome = Outcome(verdict=OffsetVerdict(), is_away=True)
            elif told & ABOUT_THE_ANCHOR:
                commit.outcome = Outcome(refused=RECALLED)
        return call.outcomes

    def lose(self) -> None:
        """The client of such a commit has gone; the cluster may store it at any time."""
        self.in_flight -= 1
        self._has_stray = True


def _owns_nothing(event: JoinGroupReceived) -> bool:
    """Whether the client says that it has given up its partitions, under each of its assignors."""
    try:
        subscriptions = [decode_subscription(data)[1] for _name, data in event.protocols]
    except WireError:
        return False
    owned = [each for one in subscriptions for each in one.owned_partitions]
    return bool(subscriptions) and not any(each.partitions for each in owned)
