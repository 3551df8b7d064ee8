"""What recalled members are told: to rejoin, and then to come back without their ids.

A native member is told instead to own nothing. It revokes its partitions as in any reconciliation,
and once it has acknowledged that, it is fenced, upon which it comes back with epoch 0.

A member is recalled before its group goes back to the cluster. Its former id has no future there,
so requests under it that are still on their way are void. Its commits travel under the ids of the
member that keeps the group meanwhile, the *guard*.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    OffsetCommitReceived,
    SyncGroupReceived,
)
from coordinator.interface.records import ClassicGroupMember
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    LeftMember,
    OffsetVerdict,
    SyncGroupReply,
)
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.adoption_steps import GaveUp, Heard
from gateway.hosting.anchor import ABOUT_THE_ANCHOR
from gateway.hosting.answers import Situation
from gateway.hosting.calls import (
    Answer,
    Call,
    CommitCodes,
    Commits,
    Outcome,
    Refused,
    StoreCommits,
)
from gateway.hosting.identity import AnchorIds
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import Assignment, decode_subscription, encode_assignment

RECALLED = Refused(Situation.RECALLED, "the group goes back to the cluster: rejoin")
FENCED = Refused(Situation.FENCED, "the group goes back to the cluster: rejoin with epoch 0")
NOT_GUARDED = Refused(Situation.NOT_ANCHORED, "nobody keeps the group at the moment")

_GENERATION, _LEADER = 1, "groupferry"
_NOTHING = SyncGroupReply(assignment=encode_assignment(Assignment(assigned_partitions=()), 0))
"""The answers of a round in which a member is assigned nothing."""

Members = Mapping[str, ClassicGroupMember]


class Recall:
    """One recall at a time."""

    def __init__(self, heartbeat_interval_ms: int = 0) -> None:
        """The interval is that of native members."""
        self.in_flight: set[Token] = set()
        """The calls whose commits are sent under the ids of the guard, and have no answer yet."""
        self.leads_rounds = False
        """Whether members that still own partitions get a round, in which they are assigned
        nothing. Their coordinator may be one that does not ask what they own."""
        self._heard: list[Heard | GaveUp] = []
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._to_own_nothing: set[str] = set()
        """The members that were told to own nothing: native ones, and classic ones in a round."""
        self._on_their_way: dict[int | None, str] = {}
        """The clients that got UNKNOWN_MEMBER_ID instead of a place in the next round, by their
        connections, and their former ids."""
        self._has_stray = False
        """Whether the answer to a commit under the ids of the guard was lost."""

    def take_heard(self) -> Sequence[Heard | GaveUp]:
        """Which members are alive, and which have given up, once: as `answer` has heard it."""
        heard, self._heard = self._heard, []
        return heard

    def end(self) -> None:
        """It is over. The next one begins with nothing."""
        self.in_flight.clear()
        self._on_their_way.clear()
        self._to_own_nothing.clear()
        self._has_stray = False

    # -- requests of membership ------------------------------------------------------------------

    def answer(self, call: Call, members: Members) -> Answer | None:
        """The answer to a call, None while it has to wait. `members` are those that were
        recalled."""
        match call.event:
            case HeartbeatReceived(member_id=member_id) if member_id in members:
                self._heard.append(Heard(member_id))
                return RECALLED
            case SyncGroupReceived(member_id=member_id) if member_id in members:
                return _NOTHING if member_id in self._to_own_nothing else RECALLED
            case LeaveGroupReceived(members=leavers) if all(
                each.member_id in members for each in leavers
            ):
                left = []
                for each in leavers:
                    self._heard.append(GaveUp(each.member_id, comes_back=False))
                    left.append(LeftMember(member_id=each.member_id, instance_id=each.instance_id))
                return LeaveGroupReply(members=tuple(left))
            case JoinGroupReceived(member_id=member_id) as event if member_id in members:
                return self._rejoin(call, event)
            case ConsumerHeartbeatReceived(member_id=member_id) as event if member_id in members:
                return self._reconcile(event, members[member_id])
            case JoinGroupReceived(member_id="") as event if call.connection in self._on_their_way:
                return self._return(call, still_owns=not _owns_nothing(event))
            case _:
                return None

    def _reconcile(
        self, event: ConsumerHeartbeatReceived, member: ClassicGroupMember
    ) -> Answer | None:
        """Its target is empty. Only its epoch 0 shows for certain that it has given up: a heartbeat
        that states no partitions may be one from before it got them."""
        if event.member_epoch <= JOIN_EPOCH:
            returns = event.member_epoch == JOIN_EPOCH
            self._heard.append(GaveUp(event.member_id, comes_back=returns))
            return None if returns else _heard(event)
        self._heard.append(Heard(event.member_id))
        has_acknowledged = event.member_id in self._to_own_nothing and event.owned == frozenset()
        if has_acknowledged or not (member.is_native and member.assignment):
            return FENCED
        self._to_own_nothing.add(event.member_id)
        return replace(
            _heard(event),
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            assignment=frozenset(),
        )

    def _rejoin(self, call: Call, event: JoinGroupReceived) -> Answer:
        """Whether it has given up everything, its JoinGroup says, or the next one on its
        connection does. Its id is void from then on."""
        if _owns_nothing(event):
            self._heard.append(GaveUp(event.member_id))
            return RECALLED
        self._heard.append(Heard(event.member_id))
        if self.leads_rounds:
            self._to_own_nothing.add(event.member_id)
            return JoinGroupReply(
                member_id=event.member_id,
                generation=_GENERATION,
                protocol_type=event.protocol_type,
                protocol_name=event.protocols[0][0],
                leader=_LEADER,
            )
        if call.connection is not None:
            self._on_their_way[call.connection] = event.member_id
        return RECALLED

    def _return(self, call: Call, *, still_owns: bool) -> Answer | None:
        former_id = self._on_their_way[call.connection]
        del self._on_their_way[call.connection]
        self._heard.append(GaveUp(former_id, still_owns=still_owns))
        return None

    # -- commits ---------------------------------------------------------------------------------

    def store(
        self, call: Commits, topics: Topics, members: Members, guard: AnchorIds | None
    ) -> Answer | StoreCommits | None:
        """Have the commits of a recalled member stored under the ids of the guard, by the errand
        that is returned; None while it is under way. After one that is lost, no later one: the
        cluster might store the lost one last."""
        if call.errand is not None:
            return None
        events = [each.make(each.token, topics) for each in call.commits.values()]
        committers = {each.member_id for each in events if isinstance(each, OffsetCommitReceived)}
        if guard is None or self._has_stray or not committers <= members.keys():
            is_native = any(each in members and members[each].is_native for each in committers)
            return FENCED if is_native else RECALLED
        for commit in call.commits.values():
            commit.outcome = Outcome(verdict=OffsetVerdict())
        self.in_flight.add(call.token)
        call.errand = errand = StoreCommits(call, tuple(call.commits), guard)
        return errand

    def stored(self, call: Commits, codes: CommitCodes) -> Answer:
        """What became of commits under the ids of the guard."""
        for token, commit in call.commits.items():
            told = codes[token]
            if isinstance(told, str):
                self.lose(call)
                commit.outcome = Outcome(verdict=OffsetVerdict(), is_away=True)
            elif told & ABOUT_THE_ANCHOR:
                commit.outcome = Outcome(refused=NOT_GUARDED)
        self.in_flight.discard(call.token)
        return call.outcomes

    def lose(self, call: Commits) -> None:
        """Nobody waits for the answer to the call any more. The cluster may store its commits at
        any time, if they were sent."""
        if call.token in self.in_flight:
            self.in_flight.remove(call.token)
            self._has_stray = True


def _heard(event: ConsumerHeartbeatReceived) -> ConsumerHeartbeatReply:
    return ConsumerHeartbeatReply(member_id=event.member_id, member_epoch=event.member_epoch)


def _owns_nothing(event: JoinGroupReceived) -> bool:
    """Whether the client says that it has given up its partitions, under each of its assignors."""
    try:
        subscriptions = [decode_subscription(data)[1] for _name, data in event.protocols]
    except WireError:
        return False
    owned = [each for one in subscriptions for each in one.owned_partitions]
    return bool(subscriptions) and not any(each.partitions for each in owned)
