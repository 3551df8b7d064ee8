"""The group in the simulated cluster: a broker's group, with answers and deadlines in simulated
time. `broker_group.py` has its rules."""

import itertools
from collections.abc import Callable, Collection, Mapping

from coordinator.engine import GroupEngine, Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.events import (
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import ClassicGroupMember, Member
from coordinator.interface.replies import JoinGroupReply, Reply, SyncGroupReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.identity import CLIENT_ID, INSTANCE_ID
from gateway.hosting.lookup_outcome import LookupOutcome
from gateway.requests.messages import response
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import (
    DescribedGroup,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker import API_KEYS, Broker, Sender, read_request
from tests.simulation.broker_group import Answers, is_deadly
from tests.simulation.broker_profiles import BrokerProfile
from tests.simulation.intruder import INTRUDER, join_of_intruder
from tests.simulation.world import World

INTRUDERS_SESSION_MS = 20_000
"""Longer than it stays, so that it need send no heartbeats."""
FIRST_TOKEN = 1_000_000_000
"""Tokens of requests that no client has sent."""

Answered = Callable[[Reply | None], None]
"""Takes the broker's answer; None if it forgets the request."""


class ClusterGroup:
    """One group. `changed` is called after each step with the step."""

    def __init__(
        self,
        world: World,
        group_id: str,
        profile: BrokerProfile,
        config: GroupConfig,
        topics: Callable[[], Topics],
    ) -> None:
        """`config`: the settings of the gateway, whose limits on sessions the broker has too."""
        self._world, self._group_id, self._topics = world, group_id, topics
        self.profile = profile
        self._broker = Broker(profile, Topics(), _settings_of_broker(config))
        self._group = self._broker.group(group_id)
        self._group.on_step = self._record_step
        self.on_step: Callable[[Step], None] = lambda _step: None
        self._waiting: dict[Token, Answered] = {}
        self._tokens = itertools.count(FIRST_TOKEN)
        self._timer_at_ms: int | None = None
        self.intruder_reads = False
        """Whether the intruder has its assignment: before that, no generation has begun with it."""

    # -- looking ---------------------------------------------------------------------------------

    @property
    def state(self) -> ClassicGroup | ConsumerGroup | None:
        """The group, if it exists."""
        return self._group.state

    @property
    def _members(self) -> Mapping[str, ClassicGroupMember | Member]:
        return {} if self.state is None else self.state.members

    @property
    def engine(self) -> GroupEngine:
        """The engine of the group."""
        return self._group.engine

    @property
    def generation(self) -> int:
        """The generation or epoch."""
        match self.state:
            case ClassicGroup() as group:
                return group.core.generation
            case ConsumerGroup() as group:
                return group.epoch
            case None:
                return 0

    @property
    def anchors(self) -> Collection[str]:
        """The member ids of anchors."""
        return [id_ for id_, member in self._members.items() if member.instance_id == INSTANCE_ID]

    @property
    def has_intruder(self) -> bool:
        """Whether the intruder is a member, or waits to be one."""
        return any(member.client_id == INTRUDER for member in self._members.values())

    @property
    def has_other_members(self) -> bool:
        """Whether any member is no anchor."""
        return self.state is not None and len(self.state.members) > len(self.anchors)

    @property
    def has_clients_of_gateway(self) -> bool:
        """Whether a member is neither an anchor nor the intruder."""
        intruders = sum(member.client_id == INTRUDER for member in self._members.values())
        return len(self._members) > len(self.anchors) + intruders

    @property
    def has_pending_ids(self) -> bool:
        """Whether ids that nobody has used may hold up the next round."""
        return isinstance(self.state, ClassicGroup) and bool(self.state.pending_ids)

    def look(self) -> LookupOutcome:
        """Who is in the group, as a look of the gateway finds it."""
        return self._broker.look(self._group_id)

    def describe(self) -> DescribedGroup:
        """The group as DescribeGroups shows it."""
        return self._broker.describe(self._group_id)

    def would_refuse(self, commit: OffsetCommitReceived) -> ErrorCode:
        """The error code of a commit that arrives now."""
        return self._group.would_refuse(commit, self._topics(), self._world.now_ms)

    # -- requests --------------------------------------------------------------------------------

    def handle(self, event: Request, answered: Answered) -> None:
        """Handle a request of a client. `answered` is called now or later, and never for one that a
        broker would hang after."""
        if isinstance(event, JoinGroupReceived) and is_deadly(event):
            return
        self._waiting[event.token] = answered
        self._answer(self._group.handle(event, self._topics(), self._world.now_ms))

    def ask(self, message: Struct, answered: Callable[[Struct | None], None]) -> None:
        """Handle a request of the gateway."""
        version = self.profile.versions[API_KEYS[type(message)]]
        sender = Sender(CLIENT_ID)
        event = read_request(message, sender, next(self._tokens), version)  # type: ignore[arg-type]

        def hear(reply: Reply | None) -> None:
            answered(None if reply is None else response(reply, version))

        self.handle(event, hear)

    def commit(self, commit: OffsetCommitReceived) -> ErrorCode:
        """Check a commit that has arrived."""
        codes: list[ErrorCode] = []

        def hear(reply: Reply | None) -> None:
            assert reply is not None
            codes.append(reply.error)

        self.handle(commit, hear)
        (code,) = codes
        return code

    def move(self) -> None:
        """Have another broker coordinate the group. It forgets what was not stored."""
        forgotten = dict(self._waiting)
        self._answer(self._group.move(self._world.now_ms))
        for token in forgotten.keys() & self._waiting.keys():
            self._waiting.pop(token)(None)

    def remove(self, member_ids: Collection[str]) -> None:
        """Remove members as an admin does."""
        leavers = tuple(
            Leaver(member_id=id_, instance_id=self._members[id_].instance_id) for id_ in member_ids
        )
        leave = LeaveGroupReceived(token=next(self._tokens), members=leavers)
        self.handle(leave, lambda _reply: None)

    def intrude(self) -> None:
        """Let a consumer that bypasses the gateway into the group, in the anchor's place."""
        self.remove(self.anchors)
        join = join_of_intruder(next(self._tokens), INTRUDERS_SESSION_MS)
        self.handle(join, self._intruder_joined)

    def _intruder_joined(self, reply: Reply | None) -> None:
        if not isinstance(reply, JoinGroupReply) or reply.error:
            return
        sync = SyncGroupReceived(
            token=next(self._tokens),
            version=3,
            member_id=reply.member_id,
            instance_id=None,
            generation=reply.generation,
            protocol_type=None,
            protocol_name=None,
            assignments=(),
        )
        self.handle(sync, self._intruder_synced)

    def _intruder_synced(self, reply: Reply | None) -> None:
        self.intruder_reads = isinstance(reply, SyncGroupReply) and not reply.error

    def end_intrusion(self) -> None:
        """Let the intruder leave."""
        self.intruder_reads = False
        members = self._members.items()
        self.remove([id_ for id_, member in members if member.client_id == INTRUDER])

    # -- answers and time ------------------------------------------------------------------------

    def _answer(self, answers: Answers) -> None:
        for token, reply in answers:
            self._waiting.pop(token)(reply)
        self._watch_the_clock()

    def _record_step(self, step: Step) -> None:
        self.on_step(step)

    def _watch_the_clock(self) -> None:
        due_ms = self._group.next_ms()
        if due_ms is not None and (self._timer_at_ms is None or due_ms < self._timer_at_ms):
            self._timer_at_ms = due_ms
            self._world.after(max(0, due_ms - self._world.now_ms), self._time_passed, due_ms)

    def _time_passed(self, due_ms: int) -> None:
        if due_ms == self._timer_at_ms:
            self._timer_at_ms = None
            self._answer(self._group.pass_time(self._topics(), self._world.now_ms))


def _settings_of_broker(config: GroupConfig) -> GroupConfig:
    """A broker's settings, with the limits on sessions of the gateway."""
    return GroupConfig(
        classic_min_session_timeout_ms=config.classic_min_session_timeout_ms,
        consumer_session_timeout_ms=config.consumer_session_timeout_ms,
        consumer_min_session_timeout_ms=config.consumer_min_session_timeout_ms,
        consumer_max_session_timeout_ms=config.consumer_max_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
        consumer_min_heartbeat_interval_ms=config.consumer_min_heartbeat_interval_ms,
        consumer_max_heartbeat_interval_ms=config.consumer_max_heartbeat_interval_ms,
        consumer_migration_policy=MigrationPolicy.BIDIRECTIONAL,
    )
