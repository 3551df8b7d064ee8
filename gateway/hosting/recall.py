"""What recalled members are told: to rejoin, and then to come back without their ids.

A native member is told instead to own nothing. It revokes its partitions as in any reconciliation,
and once it has acknowledged that, it is fenced, upon which it comes back with epoch 0.

A member is recalled before its group goes back to the cluster. Its former id has no future there,
so requests under it that are still on their way are void. Its commits travel under the ids of the
member that keeps the group meanwhile, the *guard*.
"""

from collections import deque
from collections.abc import Container
from dataclasses import replace

from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    OffsetCommitReceived,
    Request,
    SyncGroupReceived,
)
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
from gateway.hosting.adoption import Adopting
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
from gateway.hosting.recalled_group import RecalledGroup, unknown_member
from gateway.hosting.release import Releasing
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import Assignment, decode_subscription, encode_assignment
from kafka_codecs.error_codes import ErrorCode

RECALLED = Refused(Situation.RECALLED, "the group goes back to the cluster: rejoin")
FENCED = Refused(Situation.FENCED, "the group goes back to the cluster: rejoin with epoch 0")
NOT_GUARDED = Refused(Situation.NOT_ANCHORED, "nobody keeps the group at the moment")

_LEADER = "groupferry"
_NOTHING = SyncGroupReply(assignment=encode_assignment(Assignment(assigned_partitions=()), 0))
"""The answers of a round in which a member is assigned nothing."""

_ACCEPTED = Outcome(verdict=OffsetVerdict())


class Recall:
    """One recall at a time."""

    def __init__(self, *, heartbeat_interval_ms: int = 0) -> None:
        """The interval is that of native members."""
        self.in_flight: set[Token] = set()
        """The calls whose commits are sent under the ids of the guard, and have no answer yet."""
        self.leads_rounds = self._has_all_members = False
        self._group: RecalledGroup | None = None
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._to_own_nothing: set[str] = set()
        """The members that were told to own nothing: native ones, and classic ones in a round."""
        self._back_with_epoch_0: set[str] = set()
        """The native members that wait under their ids for the cluster."""
        self._on_their_way: dict[int | None, deque[str]] = {}
        """The former ids of clients that got UNKNOWN_MEMBER_ID instead of a place in the next
        round, by their connections. The first one comes back first, or has at least its answer."""
        self._has_stray = False
        """Whether the answer to a commit under the ids of the guard was lost."""

    @property
    def has_begun(self) -> bool:
        """Whether the members are known."""
        return self._group is not None

    def begin(self, group: RecalledGroup, *, has_all_members: bool, leads_rounds: bool) -> None:
        """Recall the members of this group. Until then, and if all have given up before this
        process, every request waits. `has_all_members`: whether no other member can be in the
        group. `leads_rounds`: whether members that still own partitions get a round, in which they
        are assigned nothing. Their coordinator may be one that does not ask what they own."""
        self._group = group
        self._has_all_members, self.leads_rounds = has_all_members, leads_rounds

    def is_current(self, event: HeartbeatReceived) -> bool:
        """Whether the heartbeat is that of a member in the group's generation."""
        group = self._group
        member = None if group is None else group.members.get(event.member_id)
        return (
            group is not None
            and member is not None
            and event.instance_id in (None, member.instance_id)
            and event.generation == group.generation
        )

    def end(self) -> None:
        """It is over. The next one begins with nothing."""
        self._group = None
        self.in_flight.clear()
        self._on_their_way.clear()
        self._to_own_nothing.clear()
        self._back_with_epoch_0.clear()
        self._has_stray = False

    # -- requests of membership ------------------------------------------------------------------

    def answer(self, call: Call, moving: Adopting | Releasing, now_ms: int) -> Answer | None:
        """The answer to a call, None while it has to wait. The move learns which members are alive,
        and which have given up."""
        group, holders = self._group, moving.holders
        if group is None:
            return None
        match call.event:
            case (
                HeartbeatReceived(member_id=member_id)
                | SyncGroupReceived(member_id=member_id) as event
            ) if member_id not in holders:
                return self._refuse_former(event, group, member_id)
            case HeartbeatReceived(member_id=member_id):
                moving.on_member_seen(member_id, now_ms)
                return RECALLED
            case SyncGroupReceived(member_id=member_id):
                return _NOTHING if member_id in self._to_own_nothing else RECALLED
            case LeaveGroupReceived() as event:
                return self._leave(event, group, moving)
            case ConsumerHeartbeatReceived() as event:
                return self._reconcile(event, group, moving, now_ms)
            case JoinGroupReceived(member_id=member_id) as event if member_id in group.members:
                return self._rejoin(call, event, group, moving, now_ms)
            case JoinGroupReceived(member_id="") as event:
                former_id = self._former_id(call, event, group, holders)
                if former_id is None:
                    return None
                if not event.protocols:
                    return _without_protocols(event)
                moving.on_member_gave_up(former_id, still_owns=not _owns_nothing(event))
                return None
            case _:
                return None

    def _refuse_former(self, event: Request, group: RecalledGroup, member_id: str) -> Answer | None:
        """The answer to a member that is not in the group any more, or never was."""
        if member_id in group.members or self._has_all_members:
            return event.refuse(unknown_member(member_id))
        return None

    def _leave(
        self, event: LeaveGroupReceived, group: RecalledGroup, moving: Adopting | Releasing
    ) -> LeaveGroupReply:
        """Each leaver has its own answer, as in any group."""
        left = []
        for leaver in event.members:
            error = ErrorCode.NONE
            try:
                member_id = group.member_id_of(leaver)
                if member_id not in moving.holders:
                    raise unknown_member(member_id)
                moving.on_member_gave_up(member_id, comes_back=False)
            except GroupError as refusal:
                error = refusal.code
            left.append(
                LeftMember(member_id=leaver.member_id, instance_id=leaver.instance_id, error=error)
            )
        return LeaveGroupReply(members=tuple(left))

    def _reconcile(
        self,
        event: ConsumerHeartbeatReceived,
        group: RecalledGroup,
        moving: Adopting | Releasing,
        now_ms: int,
    ) -> Answer | None:
        """Its target is empty. Only its epoch 0 shows for certain that it has given up: a heartbeat
        that states no partitions may be one from before it got them."""
        member_id = event.member_id
        if event.member_epoch == JOIN_EPOCH:
            self._note_native_join(event, group, moving)
            return None
        member = group.members.get(member_id)
        if member is None or (member_id not in moving.holders and event.member_epoch > JOIN_EPOCH):
            is_back = member_id in self._back_with_epoch_0
            return FENCED if is_back else self._refuse_former(event, group, member_id)
        if event.member_epoch < JOIN_EPOCH:
            moving.on_member_gave_up(member_id, comes_back=False)
            return _heard(event)
        moving.on_member_seen(member_id, now_ms)
        has_acknowledged = member_id in self._to_own_nothing and event.owned == frozenset()
        if has_acknowledged or not (member.is_native and member.assignment):
            return FENCED
        self._to_own_nothing.add(member_id)
        return replace(
            _heard(event),
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            assignment=frozenset(),
        )

    def _note_native_join(
        self,
        event: ConsumerHeartbeatReceived,
        group: RecalledGroup,
        moving: Adopting | Releasing,
    ) -> None:
        """Let go the member that comes back, or whose instance does, because its client has closed
        its connections."""
        predecessor = group.instances.get(event.instance_id or "")
        if event.member_id in group.members:
            self._back_with_epoch_0.add(event.member_id)
            moving.on_member_gave_up(event.member_id)
        elif predecessor is not None and predecessor in event.disconnected:
            moving.on_member_gave_up(predecessor)

    def _rejoin(
        self,
        call: Call,
        event: JoinGroupReceived,
        group: RecalledGroup,
        moving: Adopting | Releasing,
        now_ms: int,
    ) -> Answer:
        """Whether it has given up everything, its JoinGroup says, or the next one on its
        connection does. Its id is void from then on."""
        if not event.protocols:
            return _without_protocols(event)
        if _owns_nothing(event):
            moving.on_member_gave_up(event.member_id)
            return RECALLED
        if event.member_id not in moving.holders:
            return RECALLED
        moving.on_member_seen(event.member_id, now_ms)
        if self.leads_rounds:
            self._to_own_nothing.add(event.member_id)
            return JoinGroupReply(
                member_id=event.member_id,
                generation=group.generation,
                protocol_type=event.protocol_type,
                protocol_name=event.protocols[0][0],
                leader=_LEADER,
            )
        if call.connection is not None:
            waiting = self._on_their_way.setdefault(call.connection, deque())
            if event.member_id not in waiting:
                waiting.append(event.member_id)
        return RECALLED

    def _former_id(
        self,
        call: Call,
        event: JoinGroupReceived,
        group: RecalledGroup,
        holders: Container[str],
    ) -> str | None:
        """The id of the member whose client has come back without it, or whose instance another
        client takes over; None if the call is that of a new member."""
        predecessor = group.instances.get(event.instance_id or "")
        if predecessor is not None:
            is_classic = not group.members[predecessor].is_native
            return predecessor if is_classic and predecessor in holders else None
        waiting = self._on_their_way.get(call.connection, deque())
        while waiting and waiting[0] not in holders:
            waiting.popleft()
        return waiting[0] if waiting else None

    # -- commits ---------------------------------------------------------------------------------

    def store(
        self,
        call: Commits,
        *,
        topics: Topics,
        holders: Container[str],
        guard: AnchorIds | None,
        now_ms: int,
    ) -> Answer | StoreCommits | None:
        """Have the commits of recalled members stored under the ids of the guard, by the errand
        that is returned; None while it is under way. After one that is lost, no later one: the
        cluster might store the lost one last."""
        if call.errand is not None:
            return None
        accepted = []
        for token, commit in call.commits.items():
            event = commit.make(token, topics)
            assert isinstance(event, OffsetCommitReceived)
            commit.outcome = self._outcome(
                event, topics=topics, holders=holders, has_guard=guard is not None, now_ms=now_ms
            )
            if commit.outcome == _ACCEPTED:
                accepted.append(token)
        if not accepted or guard is None:
            return call.outcomes
        self.in_flight.add(call.token)
        call.errand = errand = StoreCommits(call, tuple(accepted), guard)
        return errand

    def _outcome(
        self,
        event: OffsetCommitReceived,
        *,
        topics: Topics,
        holders: Container[str],
        has_guard: bool,
        now_ms: int,
    ) -> Outcome:
        """Whether a commit may be stored, and why not."""
        group = self._group
        member = None if group is None else group.members.get(event.member_id)
        if group is None or not event.member_id:
            return Outcome(refused=RECALLED)
        if event.member_id in self._back_with_epoch_0:
            return Outcome(refused=FENCED)
        verdict = group.check_commit(event, topics=topics, now_ms=now_ms)
        if member is not None and event.member_id not in holders:
            verdict = event.refuse(unknown_member(event.member_id))
        if verdict.error:
            return Outcome(verdict=verdict)
        if not has_guard or self._has_stray:
            is_native = member is not None and member.is_native
            return Outcome(refused=FENCED if is_native else RECALLED)
        return _ACCEPTED

    def answer_stored(self, call: Commits, codes: CommitCodes) -> Answer:
        """What became of commits under the ids of the guard."""
        for token, code in codes.items():
            commit = call.commits[token]
            if isinstance(code, str):
                self.lose(call)
                commit.outcome = Outcome(verdict=OffsetVerdict(), is_away=True)
            elif code & ABOUT_THE_ANCHOR:
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


def _without_protocols(event: JoinGroupReceived) -> JoinGroupReply:
    why = "the JoinGroup offers no protocol"
    return event.refuse(GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, why))


def _owns_nothing(event: JoinGroupReceived) -> bool:
    """Whether the client says that it has given up its partitions, under each of its assignors."""
    try:
        subscriptions = [decode_subscription(data)[1] for _name, data in event.protocols]
    except WireError:
        return False
    owned = [each for one in subscriptions for each in one.owned_partitions]
    return bool(subscriptions) and not any(each.partitions for each in owned)
