"""Answers members whose group goes back to the cluster: they rejoin, then return without ids.

A native member gets an empty assignment instead. It revokes its partitions as in any
reconciliation. Once it has acknowledged that, it is fenced, and comes back with epoch 0.

A member is recalled before its group goes back to the cluster. Its former id has no future there,
so requests under it that are still on their way are void. Its commits travel under the ids of the
member that keeps the group meanwhile, the *guard*.

A release has a recall from its beginning, an adoption once it is undone. After a kill, or a bug,
the next one begins with all members that the log has.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from coordinator.classic.guards import known_leaver
from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import (
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    LeftMember,
    OffsetReply,
    SyncGroupReply,
)
from coordinator.interface.topics import Topics
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import Answer, Call, Commit, GuardedCommits, Outcome, Refused
from gateway.hosting.holders import Holders
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    NO_GENERATION,
    Assignment,
    decode_subscription,
    encode_assignment,
)
from kafka_codecs.error_codes import ErrorCode

RECALLED = Refused(RefusalReason.RECALLED, "the group goes back to the cluster: rejoin")
FENCED = Refused(RefusalReason.FENCED, "the group goes back to the cluster: rejoin with epoch 0")

_LEADER = "groupferry"
_NOTHING = SyncGroupReply(assignment=encode_assignment(Assignment(assigned_partitions=()), 0))
"""The answers of a round in which a member is assigned nothing."""


class Recall:
    """The members of one group that is given back, from the moment when they are told to rejoin.

    It knows who may still hold partitions, who comes back, and which commits may be stored. An
    engine of its own has the group as it was, so that the engine's rules decide what its members
    may do."""

    def __init__(
        self,
        group_id: str,
        group: ClassicGroupValue,
        config: GroupConfig,
        holders: Holders,
        *,
        leads_rounds: bool,
        has_all_members: bool,
    ) -> None:
        """`holders`: those of the members that may hold partitions. `leads_rounds`: whether a
        member that still owns partitions gets a round, in which it is assigned nothing.
        `has_all_members`: whether no other client can be in the group."""
        self.members: Mapping[str, ClassicGroupMember] = {
            member.member_id: member for member in group.members
        }
        self.holders = holders
        self.returning = 0
        """The number of members that have given up by rejoining: their next joins are due at any
        moment."""
        self.owners: list[ClassicGroupMember] = []
        """Members that have come back and still own partitions."""
        self.is_native_due = False
        """Whether a native member is among those that come back."""
        self.commits = GuardedCommits()
        self.leads_rounds = leads_rounds
        self._has_all_members = has_all_members
        self._generation = group.generation
        self._engine = GroupEngine(group_id, config)
        self._engine.apply(ClassicGroupMetadata(value=group))
        self._heartbeat_interval_ms = config.consumer_heartbeat_interval_ms
        self._to_own_nothing: set[str] = set()
        """The members that were told to own nothing: native ones, and classic ones in a round."""
        self._told_to_join: dict[str, int | None] = {}
        """The native members that were told to join again, or to repeat their join, with the
        connection they were told on."""
        self._back_with_epoch_0: set[str] = set()
        """The native members that wait under their ids for the cluster."""
        self._on_their_way: dict[int | None, deque[str]] = {}
        """The former ids of clients that got UNKNOWN_MEMBER_ID instead of a place in the next
        round, by their connections. The first one comes back first, or has at least its answer."""

    # -- who has given up ------------------------------------------------------------------------

    def let_go(self, member_id: str, *, comes_back: bool = True, still_owns: bool = False) -> None:
        """A member holds no partition any more, as far as the group is concerned. `comes_back`:
        whether its client is about to join again. `still_owns`: whether its JoinGroup without an id
        claims partitions."""
        if member_id not in self.holders:
            return
        self.holders.drop(member_id)
        member = self.members[member_id]
        if comes_back:
            self.returning += 1
            self.is_native_due |= member.is_native
        if still_owns:
            self.owners.append(member)

    def give_up_overdue(self, now_ms: int) -> None:
        """Wait no longer for members whose time is over."""
        for member_id, is_alive in self.holders.give_up(now_ms):
            self.is_native_due |= is_alive and self.members[member_id].is_native

    def member_of(self, instance_id: str) -> str | None:
        """The id of the member that has had this instance id."""
        return self._group.instances.get(instance_id)

    @property
    def _group(self) -> ClassicGroup:
        """The group as it was."""
        group = self._engine.state.group
        assert isinstance(group, ClassicGroup)
        return group

    # -- requests of membership ------------------------------------------------------------------

    def answer(self, call: Call, now_ms: int) -> Answer | None:
        """The answer to a call, None while it has to wait."""
        if not self.members:
            return None  # an earlier process may have let them into the cluster
        match call.event:
            case (
                HeartbeatReceived(member_id=member_id)
                | SyncGroupReceived(member_id=member_id) as event
            ) if member_id not in self.holders:
                return self._refuse_former(event, member_id)
            case HeartbeatReceived(member_id=member_id):
                self.holders.mark_seen(member_id, now_ms)
                return RECALLED
            case SyncGroupReceived(member_id=member_id):
                return _NOTHING if member_id in self._to_own_nothing else RECALLED
            case LeaveGroupReceived() as event:
                return self._leave(event)
            case ConsumerHeartbeatReceived() as event:
                return self._reconcile(call, event, now_ms)
            case JoinGroupReceived(member_id=member_id) as event if member_id in self.members:
                return self._rejoin(call, event, now_ms)
            case JoinGroupReceived(member_id="") as event:
                former_id = self._former_id(call, event)
                if former_id is None:
                    return None
                if not event.protocols:
                    return _without_protocols(event)
                self.let_go(former_id, still_owns=not _owns_nothing(event))
                return None
            case _:
                return None

    def _refuse_former(self, event: Request, member_id: str) -> Answer | None:
        """The answer to a member that is not in the group any more, or never was."""
        if member_id in self.members or self._has_all_members:
            return event.refuse(_unknown_member(member_id))
        return None

    def _leave(self, event: LeaveGroupReceived) -> LeaveGroupReply:
        """Each leaver has its own answer, as in any group."""
        left = []
        for leaver in event.members:
            error = ErrorCode.NONE
            try:
                member_id = self._member_id_of(leaver)
                if member_id not in self.holders:
                    raise _unknown_member(member_id)
                self.let_go(member_id, comes_back=False)
            except GroupError as refusal:
                error = refusal.code
            left.append(
                LeftMember(member_id=leaver.member_id, instance_id=leaver.instance_id, error=error)
            )
        return LeaveGroupReply(members=tuple(left))

    def _reconcile(
        self, call: Call, event: ConsumerHeartbeatReceived, now_ms: int
    ) -> Answer | None:
        """Assign nothing to the member. Only its epoch 0 proves that it has given up its
        partitions: a heartbeat that states none may have been sent before it got them. So may one
        with epoch 0 (DEV D25), unless the member was told to send it."""
        member_id = event.member_id
        member = self.members.get(member_id)
        if event.member_epoch == JOIN_EPOCH:
            may_be_late = member_id in self.holders and not self._was_told_to_join(call, member_id)
            if may_be_late and member is not None and member.assignment:
                return FENCED if call.is_overtaken else self._report_to_join(call, member_id)
            self._let_joiner_go(event)
            return None
        if member is None or (member_id not in self.holders and event.member_epoch > JOIN_EPOCH):
            is_back = member_id in self._back_with_epoch_0
            return FENCED if is_back else self._refuse_former(event, member_id)
        if event.member_epoch < JOIN_EPOCH:
            self.let_go(member_id, comes_back=False)
            return _repeat_epoch(event)
        self.holders.mark_seen(member_id, now_ms)
        has_acknowledged = member_id in self._to_own_nothing and event.owned == frozenset()
        if has_acknowledged or not (member.is_native and member.assignment):
            return self._report_to_join(call, member_id)
        self._to_own_nothing.add(member_id)
        return replace(
            _repeat_epoch(event),
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            assignment=frozenset(),
        )

    def _report_to_join(self, call: Call, member_id: str) -> Refused:
        self._told_to_join[member_id] = call.connection
        return FENCED

    def _was_told_to_join(self, call: Call, member_id: str) -> bool:
        """Whether the member was told, and may have sent this join afterwards."""
        is_late = call.is_overtaken and self._told_to_join.get(member_id) != call.connection
        return member_id in self._told_to_join and not is_late

    def _let_joiner_go(self, event: ConsumerHeartbeatReceived) -> None:
        """Count a member that returns with epoch 0 as one that has given up, and likewise one whose
        instance returns after its client has closed its connections."""
        predecessor = self.member_of(event.instance_id or "")
        if event.member_id in self.members:
            self._back_with_epoch_0.add(event.member_id)
            self.let_go(event.member_id)
        elif predecessor is not None and predecessor in event.disconnected:
            self.let_go(predecessor)

    def _rejoin(self, call: Call, event: JoinGroupReceived, now_ms: int) -> Answer:
        """Tell the member to rejoin. This JoinGroup, or the next one on its connection, says
        whether it has given up all its partitions; its id is void from then on."""
        if not event.protocols:
            return _without_protocols(event)
        since = self._epoch_of(event.member_id)
        if _owns_nothing(event, since=since):
            self.let_go(event.member_id)
            return RECALLED
        if event.member_id not in self.holders:
            return RECALLED
        self.holders.mark_seen(event.member_id, now_ms)
        if self.leads_rounds:
            self._to_own_nothing.add(event.member_id)
            return JoinGroupReply(
                member_id=event.member_id,
                generation=self._generation,
                protocol_type=event.protocol_type,
                protocol_name=event.protocols[0][0],
                leader=_LEADER,
            )
        if call.connection is not None:
            waiting = self._on_their_way.setdefault(call.connection, deque())
            if event.member_id not in waiting:
                waiting.append(event.member_id)
        return RECALLED

    def _epoch_of(self, member_id: str) -> int:
        """The generation in which the member has its partitions."""
        return self._group.core.older_epochs.get(member_id, self._generation)

    def _former_id(self, call: Call, event: JoinGroupReceived) -> str | None:
        """The id of the member whose client has come back without it, or whose instance another
        client takes over; None if the call is that of a new member."""
        predecessor = self.member_of(event.instance_id or "")
        if predecessor is not None:
            is_classic = not self.members[predecessor].is_native
            return predecessor if is_classic and predecessor in self.holders else None
        waiting = self._on_their_way.get(call.connection, deque())
        while waiting and waiting[0] not in self.holders:
            waiting.popleft()
        return waiting[0] if waiting else None

    # -- commits ---------------------------------------------------------------------------------

    def check(self, commit: Commit, *, topics: Topics, has_guard: bool, now_ms: int) -> Outcome:
        """Whether a commit may be stored under the ids of the guard, and why not. Once the answer
        to one was lost, no later one is sent: the cluster might store the lost one last."""
        event = commit.make(commit.token, topics)
        assert isinstance(event, OffsetCommitReceived)
        member = self.members.get(event.member_id)
        if not (event.member_id and self.members):
            return Outcome(refused=RECALLED)
        if event.member_id in self._back_with_epoch_0:
            return Outcome(refused=FENCED)
        decision = self._check_commit(event, topics=topics, now_ms=now_ms)
        if member is not None and event.member_id not in self.holders:
            decision = event.refuse(_unknown_member(event.member_id))
        if not (decision.error or (has_guard and not self.commits.is_barred)):
            is_native = member is not None and member.is_native
            return Outcome(refused=FENCED if is_native else RECALLED)
        return Outcome(decision=decision)

    def _check_commit(
        self, event: OffsetCommitReceived, *, topics: Topics, now_ms: int
    ) -> OffsetReply:
        """The engine's decision on a commit. In the record native members have their epochs as
        classic members have generations; a wrong one is STALE_MEMBER_EPOCH for them."""
        step = self._engine.handle(event, now_ms=now_ms, topics=topics)
        ((_token, decision),) = step.replies
        assert isinstance(decision, OffsetReply)
        member = self.members.get(event.member_id)
        is_stale = decision.error is ErrorCode.ILLEGAL_GENERATION and event.knows_member_epochs
        if is_stale and member is not None and member.is_native:
            return replace(decision, error=ErrorCode.STALE_MEMBER_EPOCH)
        return decision

    def _member_id_of(self, leaver: Leaver) -> str:
        """The member that an entry of a LeaveGroup names. Raises GroupError: UNKNOWN_MEMBER_ID, or
        FENCED_INSTANCE_ID."""
        return known_leaver(self._group, leaver).member_id


def _repeat_epoch(event: ConsumerHeartbeatReceived) -> ConsumerHeartbeatReply:
    return ConsumerHeartbeatReply(member_id=event.member_id, member_epoch=event.member_epoch)


def _unknown_member(member_id: str) -> GroupError:
    reason = f"{member_id!r} is not a member of the group any more"
    return GroupError(ErrorCode.UNKNOWN_MEMBER_ID, reason)


def _without_protocols(event: JoinGroupReceived) -> JoinGroupReply:
    reason = "the JoinGroup offers no protocol"
    return event.refuse(GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason))


def _owns_nothing(event: JoinGroupReceived, *, since: int = NO_GENERATION) -> bool:
    """Whether the client says that it has given up its partitions, under each of its assignors.

    DEV D5: a subscription of a generation before `since` says nothing about what the client has got
    since then. One without a generation is believed.
    """
    try:
        subscriptions = [decode_subscription(data)[1] for _name, data in event.protocols]
    except WireError:
        return False
    if any(NO_GENERATION < subscription.generation_id < since for subscription in subscriptions):
        return False
    owned = [topic for subscription in subscriptions for topic in subscription.owned_partitions]
    return bool(subscriptions) and not any(topic.partitions for topic in owned)
