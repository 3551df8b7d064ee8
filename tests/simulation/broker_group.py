"""One group as a broker coordinates it: the shipped engine without its deviations from Kafka.

`BrokerGroup.handle` is the only way in. It takes the engine's events, and restores around the
engine what Kafka does and the engine does not, each named here by its deviation. What nothing here
undoes, a gateway cannot notice:

- Settings switch off D12, D74 to D79, D81 to D87 and D41.
- The broker never does what D30, D34, D36, D42, D70, D71 and D73 are about: its log does not fail,
  commits are stored as they are checked, and it does not pause or host groups of others.
- D19, D20, D37, D44 to D48, D50 to D52, D56 to D58, D65, D69, D72 and D89 are about admins, limits
  and connections, which are not played here.
- D3 to D7, D9, D10, D15 to D18, D21, D22, D25 to D28, D31, D35, D39, D40, D53, D54, D60, D66 to
  D68, D80, D90 are about what members of the new protocol, or both kinds in one group, get. The
  gateway relays such a group untouched: it does not adopt it, and has no anchor in it. There the
  engine only keeps its clients from owning a partition twice, which is not the gateway's to prove.
- D29 needs a full group.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from coordinator.classic.protocols import is_acceptable
from coordinator.consumer.topic_regex import match_topics
from coordinator.consumer.validation import check_heartbeat
from coordinator.engine import GroupEngine, Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import Record, is_durable
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    FIRST_COMMIT_WITH_MEMBER_EPOCHS,
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReceived,
    Event,
    JoinGroupReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
    RegexesResolved,
    SyncGroupReceived,
    TimePassed,
)
from coordinator.interface.records import (
    ClassicGenerationBegun,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicMemberRemoval,
    DurableRecord,
    is_tombstone,
    protocol_names,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    ClassicGroupMemberPut,
    ClassicPhase,
    DeadlineCleared,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    InitialDelay,
    JoinParked,
    JoinReleased,
    SyncReleased,
    Token,
)
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_profiles import BrokerProfile
from tests.simulation.subscription_reading import Reading, read

Answers = list[tuple[Token, Reply | None]]
"""Replies with the tokens of their requests, also of those that were parked; None for a request
that the broker has forgotten."""

NOT_IN_KAFKAS_LOG = ClassicMemberRemoval | ClassicGenerationBegun
"""DEV D61: Kafka stores a group only as a whole."""


@dataclass(slots=True, eq=False)
class BrokerGroup:
    """The group, and what its coordinator has written to the log about it."""

    group_id: str
    profile: BrokerProfile
    config: GroupConfig
    engine: GroupEngine = field(init=False)
    log: dict[Hashable, DurableRecord] = field(default_factory=dict)
    """The newest record of each key."""
    on_step: Callable[[Step], None] = lambda _step: None
    """Learns of each step that was applied."""

    def __post_init__(self) -> None:
        self.config = self.profile.settings_of(self.config)
        self.engine = self._new_engine()

    @property
    def state(self) -> ClassicGroup | ConsumerGroup | None:
        """The group, if it exists."""
        return self.engine.state.group

    def handle(self, event: Event, topics: Topics, now_ms: int) -> Answers:
        """Handle an event and return the answers to it, or to requests that were parked."""
        if self.profile.elects_newest:
            put_newest_join_first(self.engine)
        match event:
            case JoinGroupReceived():
                answers = self._join(event, topics, now_ms)
            case SyncGroupReceived() if isinstance(self.state, ClassicGroup):
                overwritten = self.state.syncs.get(event.member_id)
                answers = _without(overwritten, self._decide(event, topics, now_ms))
            case ConsumerHeartbeatReceived():
                answers = self._beat_natively(event, topics, now_ms)
            case TimePassed():
                answers = self._meet_deadlines(topics, now_ms)
            case OffsetCommitReceived():
                answers = self._decide(self._as_read_here(event), topics, now_ms)
                self._decide(OffsetCommitEnded(commit=event.token), topics, now_ms)
            case _:
                answers = self._decide(event, topics, now_ms)
        self._forget_what_kafka_does_not_know()
        return answers

    def would_refuse(self, commit: OffsetCommitReceived, topics: Topics, now_ms: int) -> ErrorCode:
        """The error code of a commit that arrives now; nothing changes."""
        step = self.engine.handle(self._as_read_here(commit), now_ms=now_ms, topics=topics)
        ((_token, decision),) = step.replies
        return decision.error

    def _as_read_here(self, commit: OffsetCommitReceived) -> OffsetCommitReceived:
        if self.profile.has_native_members:
            return commit
        # Such brokers judge them all alike.
        return replace(commit, version=min(commit.version, FIRST_COMMIT_WITH_MEMBER_EPOCHS - 1))

    def pass_time(self, topics: Topics, now_ms: int) -> Answers:
        """Meet the deadlines that are over."""
        answers: Answers = []
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            answers += self.handle(TimePassed(), topics, now_ms)
        return answers

    def next_ms(self) -> int | None:
        """When `pass_time` has something to do next."""
        return self.engine.next_deadline_ms()

    def move(self, now_ms: int) -> Answers:
        """Let another broker coordinate the group. It knows what is in the log, and of each member
        only the protocol that was selected (DEV D43); parked requests are refused."""
        answers: Answers = []
        group = self.state
        if isinstance(group, ClassicGroup) and self.profile.answers_before_move:
            error = ErrorCode.NOT_COORDINATOR
            for member_id, parked in group.joins.items():
                answers.append((parked.token, JoinGroupReply(error=error, member_id=member_id)))
            answers += [(token, SyncGroupReply(error=error)) for token in group.syncs.values()]
        elif isinstance(group, ClassicGroup):
            answers += [(parked.token, None) for parked in group.joins.values()]
            answers += [(token, None) for token in group.syncs.values()]
        self.engine = self._new_engine()
        self.engine.load(self.log.values(), now_ms=now_ms)
        self._forget_what_kafka_does_not_know()
        return answers

    # -- the engine and the log ------------------------------------------------------------------

    def _new_engine(self) -> GroupEngine:
        return GroupEngine(self.group_id, self.config)

    def _decide(
        self, event: Event, topics: Topics, now_ms: int, *, is_stored: bool = True
    ) -> Answers:
        step = self.engine.handle(event, now_ms=now_ms, topics=topics)
        for record in step.records:
            self._apply(record, is_stored=is_stored)
        self.on_step(step)
        answers: Answers = list(step.replies)
        if step.resolution is not None:
            matched = match_topics(sorted(step.resolution.regexes), topics.by_name)
            resolved = RegexesResolved(topics=matched, version=topics.names_version)
            answers += self._decide(resolved, topics, now_ms)
        return answers

    def _apply(self, record: Record, *, is_stored: bool = True) -> None:
        self.engine.apply(record)
        if not is_stored or not is_durable(record) or isinstance(record, NOT_IN_KAFKAS_LOG):
            return
        self.log.pop(record.key, None)
        if not is_tombstone(record):
            self.log[record.key] = _as_kafka_stores(record)

    def _forget_what_kafka_does_not_know(self) -> None:
        """DEV D8, D11: only the generation of a member counts, and no broker watches the topics of
        a classic group."""
        group = self.state
        if not isinstance(group, ClassicGroup):
            return
        core = replace(group.core, topics_hash=None, unwatched_hash=None, older_epochs={})
        if core != group.core:
            self.engine.apply(ClassicCoreMoved(core))
        self._let_first_round_wait(group)

    def _meet_deadlines(self, topics: Topics, now_ms: int) -> Answers:
        before = _all_ids(self.state)
        answers = self._decide(TimePassed(), topics, now_ms)
        group = self.state
        if (
            self.profile.shortens_initial_delay
            and isinstance(group, ClassicGroup)
            and group.core.initial_delay
            and before - _all_ids(group)
            and not group.pending_ids
            and len(group.joins) == len(group.members)
        ):  # DEV D32
            self._end_initial_delay_at(group, now_ms)
            answers += self._decide(TimePassed(), topics, now_ms)
        return answers

    def _let_first_round_wait(self, group: ClassicGroup) -> None:
        """DEV D32: the first round of a group ends with a timer only. If nobody waits when the
        initial delay is over, as after a native consumer has disturbed them, that is the rebalance
        timeout, whichever member comes before."""
        key = DeadlineKey(DeadlineKind.JOIN_PHASE)
        at_ms = self.engine.state.deadlines.get(key)
        is_first = group.phase is ClassicPhase.PREPARING_REBALANCE and group.core.protocol is None
        if at_ms is None or not is_first:
            return
        self._disarm(DeadlineKind.JOIN_PHASE)
        self._end_initial_delay_at(group, at_ms)

    def _end_initial_delay_at(self, group: ClassicGroup, at_ms: int) -> None:
        delay = DeadlineKey(DeadlineKind.INITIAL_REBALANCE_DELAY)
        self.engine.apply(DeadlineSet(delay, at_ms))
        core = replace(group.core, initial_delay=InitialDelay(budget_left_ms=0))
        self.engine.apply(ClassicCoreMoved(core))

    def _disarm(self, kind: DeadlineKind, owner: str = "") -> None:
        key = DeadlineKey(kind, owner)
        if key in self.engine.state.deadlines:
            self.engine.apply(DeadlineCleared(key))

    # -- classic members -------------------------------------------------------------------------

    def _join(self, event: JoinGroupReceived, topics: Topics, now_ms: int) -> Answers:
        assert not is_deadly(event), "the coordinator reads this subscription, and hangs"
        match self.state:
            case ConsumerGroup(members=members) if not members:
                return self._decide_afresh(event, topics, now_ms)
            case ConsumerGroup() if not _is_readable(event):
                # DEV D38: up to 4.3.1 these bytes are no reason but a failure.
                return [(event.token, JoinGroupReply(error=ErrorCode.UNKNOWN_SERVER_ERROR))]
            case ClassicGroup() as group if _returns(group, event):
                self._hide_other_subscription(group, event)
                is_stored = self.profile.stores_static_replacements
                return self._decide(event, topics, now_ms, is_stored=is_stored)
            case ClassicGroup() as group:
                parked = group.joins.get(event.member_id)
                overwritten = None if parked is None else parked.token
                return _without(overwritten, self._decide(event, topics, now_ms))
            case _:
                return self._decide(event, topics, now_ms)

    def _hide_other_subscription(self, group: ClassicGroup, event: JoinGroupReceived) -> None:
        """DEV D59: Kafka does not compare what a static member subscribes to with what it
        subscribed to before."""
        before = group.members[group.instances[event.instance_id or ""]]
        self.engine.apply(ClassicGroupMemberPut(replace(before, protocols=event.protocols)))

    # -- native members --------------------------------------------------------------------------

    def _beat_natively(
        self, event: ConsumerHeartbeatReceived, topics: Topics, now_ms: int
    ) -> Answers:
        if not self.profile.has_native_members:
            return [(event.token, ConsumerHeartbeatReply(error=ErrorCode.UNSUPPORTED_VERSION))]
        try:
            check_heartbeat(event, self.config)
        except GroupError as refusal:
            return [(event.token, event.refuse(refusal))]
        group = self.state
        if isinstance(group, ConsumerGroup):
            # DEV D91: a member that joins twice finds its own instance id in use.
            if event.member_epoch == JOIN_EPOCH and _has_present_instance(group, event):
                return _refusal(event, ErrorCode.UNRELEASED_INSTANCE_ID)
            return self._decide(event, topics, now_ms)
        if event.member_epoch != JOIN_EPOCH:  # DEV D49
            return _refusal(event, ErrorCode.GROUP_ID_NOT_FOUND)
        if group is None or not group.members:
            return self._decide_afresh(event, topics, now_ms)
        if not self._may_convert(group):
            return _refusal(event, ErrorCode.GROUP_ID_NOT_FOUND)
        # DEV D1, D2: parked requests are answered before anything else is found out.
        answers = self._refuse_parked_requests(group, now_ms)
        if error := _obstacle(group):
            return [*answers, *_refusal(event, error)]
        return [*answers, *self._decide(event, topics, now_ms)]

    def _decide_afresh(self, event: Event, topics: Topics, now_ms: int) -> Answers:
        """DEV D88: an empty group that a member of the other kind joins is deleted, and its
        successor counts from the beginning."""
        self.engine, self.log = self._new_engine(), {}
        return self._decide(event, topics, now_ms)

    def _may_convert(self, group: ClassicGroup) -> bool:
        return (
            self.config.consumer_migration_policy.allows_upgrade
            and group.core.protocol_type == CONSUMER_PROTOCOL_TYPE
            and len(group.members) <= self.config.consumer_max_size
        )

    def _refuse_parked_requests(self, group: ClassicGroup, now_ms: int) -> Answers:
        """Answer them with REBALANCE_IN_PROGRESS. The members stay, and a round that is under way
        continues without their requests."""
        error, answers = ErrorCode.REBALANCE_IN_PROGRESS, Answers()
        for member_id, parked in list(group.joins.items()):
            answers.append((parked.token, JoinGroupReply(error=error, member_id=member_id)))
            self.engine.apply(JoinReleased(member_id))
            self._disarm(DeadlineKind.NEW_MEMBER_JOIN, member_id)
            length_ms = group.members[member_id].session_timeout_ms
            if parked.is_new:
                length_ms = self.config.classic_new_member_join_timeout_ms
            self._arm_session(member_id, now_ms + length_ms)
        for member_id, token in list(group.syncs.items()):
            answers.append((token, SyncGroupReply(error=error)))
            self.engine.apply(SyncReleased(member_id))
            self._arm_session(member_id, now_ms + group.members[member_id].session_timeout_ms)
        return answers

    def _arm_session(self, member_id: str, at_ms: int) -> None:
        self.engine.apply(DeadlineSet(DeadlineKey(DeadlineKind.SESSION, member_id), at_ms))


def _all_ids(group: ClassicGroup | ConsumerGroup | None) -> frozenset[str]:
    """The ids of all members of a classic group, and those that nobody has used."""
    if not isinstance(group, ClassicGroup):
        return frozenset()
    return frozenset({*group.members, *group.pending_ids})


def _without(overwritten: Token | None, answers: Answers) -> Answers:
    """DEV D33: a parked request is never answered once its member has sent another."""
    return [(token, None if token == overwritten else reply) for token, reply in answers]


def _refusal(event: ConsumerHeartbeatReceived, error: ErrorCode) -> Answers:
    return [(event.token, ConsumerHeartbeatReply(error=error))]


def _as_kafka_stores(record: DurableRecord) -> DurableRecord:
    """DEV D43: of each member only the protocol that was selected."""
    if not isinstance(record, ClassicGroupMetadata) or record.value is None:
        return record
    value, protocol = record.value, record.value.protocol
    if protocol is None:
        return record
    members = tuple(
        replace(member, protocols=((protocol, member.metadata_for(protocol)),))
        for member in value.members
    )
    return ClassicGroupMetadata(value=replace(value, members=members))


def _returns(group: ClassicGroup, event: JoinGroupReceived) -> bool:
    """Whether a static member takes its own place."""
    return (
        not event.member_id
        and event.instance_id in group.instances
        and event.protocol_type == group.core.protocol_type
        and is_acceptable(event.protocols, group.offers, len(group.members))
    )


def _has_present_instance(group: ConsumerGroup, event: ConsumerHeartbeatReceived) -> bool:
    """Whether a native member that has not left has the instance id."""
    holder_id = group.instances.get(event.instance_id or "")
    holder = None if holder_id is None else group.members.get(holder_id)
    if holder is None or holder.is_classic:
        return False
    current = group.assignments.get(holder.member_id)
    return current is None or current.member_epoch != STATIC_LEAVE_EPOCH


def _obstacle(group: ClassicGroup) -> ErrorCode | None:
    """Why the group cannot become a consumer group, once its parked requests were answered."""
    protocol = group.core.protocol
    errors = (_obstacle_in(member, protocol) for member in group.members.values())
    return next(filter(None, errors), None)


def _obstacle_in(member: ClassicGroupMember, protocol: str | None) -> ErrorCode | None:
    if protocol is None or protocol not in protocol_names(member.protocols):  # DEV D2
        return ErrorCode.UNKNOWN_SERVER_ERROR
    metadata = member.metadata_for(protocol)
    try:
        if member.assignment and decode_assignment(member.assignment)[1].user_data:  # DEV D23
            return ErrorCode.GROUP_ID_NOT_FOUND
        version, subscription = decode_subscription(metadata)
    except WireError:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if len(metadata) < len(encode_subscription(subscription, version)):  # DEV D24
        return ErrorCode.GROUP_ID_NOT_FOUND
    return None


def _is_readable(event: JoinGroupReceived) -> bool:
    """Whether a consumer group can read what a classic consumer offers first."""
    if event.protocol_type != CONSUMER_PROTOCOL_TYPE or not event.protocols:
        return True
    try:
        decode_subscription(event.protocols[0][1])
    except WireError:
        return False
    return True


def is_deadly(event: JoinGroupReceived) -> bool:
    """Whether a coordinator hangs after it has read what the member offers."""
    return event.protocol_type == CONSUMER_PROTOCOL_TYPE and any(
        read(metadata) is Reading.CRASH for _name, metadata in event.protocols
    )


def put_newest_join_first(engine: GroupEngine) -> None:
    """Make the engine elect the newest of those that have joined; it elects the first."""
    group = engine.state.group
    if not isinstance(group, ClassicGroup):
        return
    order = sorted(group.joins.items(), key=lambda row: row[1].token, reverse=True)
    if [member_id for member_id, _join in order] != list(group.joins):
        for member_id, join in order:
            engine.apply(JoinReleased(member_id))
            engine.apply(JoinParked(member_id, join))
