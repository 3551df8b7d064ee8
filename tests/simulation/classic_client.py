"""A classic consumer, eager or cooperative, that behaves like Kafka's Java client (rule 12.2).

The client has four phases. It sends heartbeats even while a callback runs, and loses all partitions
when its generation is reset.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto

from coordinator.interface.events import (
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    SyncGroupReceived,
)
from coordinator.interface.replies import JoinGroupReply, SyncGroupReply
from coordinator.interface.topics import Partition, Topics
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation import leader
from tests.simulation.client import RETRIABLE, Client, ClientContext, Spec
from tests.simulation.driver import Answer

# SyncGroup v5 names type and protocol. It was released with JoinGroup v7.
FIRST_JOIN_VERSION_WITH_NAMED_PROTOCOL = 7
# An embedded subscription names its rack from version 3 on (KIP-881).
FIRST_VERSION_WITH_RACK = 3
REJOIN_MS = 100


class Phase(Enum):
    """The progress of the client's membership."""

    PREPARING = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class ClassicClient(Client):
    """Sends JoinGroup, SyncGroup and Heartbeat, and assigns partitions when it is the leader."""

    kind = "classic"

    def __init__(self, context: ClientContext, name: str, spec: Spec) -> None:
        super().__init__(context, name, spec)
        self.generation = -1
        self.protocol: str | None = None
        self.phase = Phase.PREPARING
        self._leads_with: Mapping[str, int] | None = None
        self._joined_with = self.topics
        self._beat_was_fine = self._awaits_beat = self._rejoin_wanted = False

    def start(self) -> None:
        self.send_join()
        self.later(self.spec.heartbeat_interval_ms, self._beat)
        self.start_committing()

    @property
    def epoch(self) -> int:
        return self.generation

    @property
    def is_settled(self) -> bool:
        return self.phase is Phase.STABLE and self._beat_was_fine

    @property
    def may_commit(self) -> bool:
        return self.phase is Phase.STABLE

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.world.trace(self.name, f"subscribes to {topics}")
        self.topics = topics
        self.rejoin()

    def close(self) -> None:
        self.is_closing = True
        self.world.trace(self.name, "closes")
        self.revoke(self.claims, self._leave)

    def stall(self, length_ms: int) -> None:
        if self.is_closing or self.phase is not Phase.STABLE:
            return
        self.world.trace(self.name, f"polls too late, by {length_ms} ms")
        self.world.counts["polls that were too late"] += 1
        leaver = Leaver(member_id=self.member_id)
        self._forget_generation()
        self.member_id = ""

        def on_left(_answer: Answer | None = None) -> None:
            self.later(length_ms, self.send_join)

        def leave() -> None:
            self.ask(LeaveGroupReceived(token=self.token(), members=(leaver,)), on_left, on_left)

        self.lose(leave)

    def _leave(self) -> None:
        if self.spec.instance_id is not None or not self.member_id:
            self.die("closed")
            return

        def on_closed(_answer: Answer | None = None) -> None:
            self.die("closed")

        self.ask(
            LeaveGroupReceived(token=self.token(), members=(Leaver(member_id=self.member_id),)),
            on_closed,
            on_closed,
        )

    # -- joining ---------------------------------------------------------------------------------

    def rejoin(self) -> None:
        """Revoke what the protocol requires (everything, for an eager client), then join again."""
        if self.phase is not Phase.STABLE or self.is_closing:
            return
        self._rejoin_wanted = True
        if self.is_in_callback:
            return
        self.phase = Phase.PREPARING
        names = self.context.network.cluster.names
        going = [
            partition
            for partition in self.claims
            if not self.spec.is_cooperative or names[partition.topic_id] not in self.topics
        ]
        self.revoke(going, self.send_join)

    def send_join(self) -> None:
        """Send JoinGroup with the owned partitions."""
        if self.is_closing:
            return
        self.phase, self._beat_was_fine = Phase.JOINING, False
        self._joined_with = self.topics
        self.ask(self.join_request(), self.hear_join, self._join_again)

    def join_request(self) -> JoinGroupReceived:
        """A JoinGroup with the owned partitions."""
        spec = self.spec
        return JoinGroupReceived(
            token=self.token(),
            version=spec.join_version,
            member_id=self.member_id,
            instance_id=spec.instance_id,
            client_id=self.client_id,
            client_host="/127.0.0.1",
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=tuple((name, self.metadata()) for name in spec.protocols),
            session_timeout_ms=spec.session_timeout_ms,
            rebalance_timeout_ms=spec.rebalance_timeout_ms,
            fresh_id=self.fresh_id(),
        )

    def metadata(self) -> bytes:
        """The embedded subscription."""
        subscription = Subscription(
            topics=self.topics,
            owned_partitions=leader.partitions_by_topic(self.stated_owned()),
            generation_id=self.generation,
            rack_id=self.told_rack,
        )
        return leader.write_subscription(subscription, self.spec.embedded_version)

    @property
    def told_rack(self) -> str | None:
        return self.spec.rack_id if self.spec.embedded_version >= FIRST_VERSION_WITH_RACK else None

    def stated_owned(self) -> list[leader.Name]:
        """The partitions in the client's JoinGroup, including those of deleted topics."""
        names = self.context.network.cluster.names
        return [(names[partition.topic_id], partition.number) for partition in self.claims]

    def _join_again(self) -> None:
        self.later(REJOIN_MS, self._rejoin_unless_reset, self.phase)

    def _rejoin_unless_reset(self, phase: Phase) -> None:
        if self.phase is phase:
            self.send_join()

    def hear_join(self, answer: Answer) -> None:
        """Handle the answer to JoinGroup."""
        reply = answer.reply
        assert isinstance(reply, JoinGroupReply)
        if self.is_closing:
            return
        match reply.error:
            case ErrorCode.NONE:
                self.member_id, self.generation = reply.member_id, reply.generation
                self.protocol = reply.protocol_name
                self.phase = Phase.SYNCING
                self._lead_or_follow(reply)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
                self.send_join()
            case error:
                self._handle_refusal(error)

    def _handle_refusal(self, error: ErrorCode) -> None:
        """Handle the errors that mean the same for JoinGroup and SyncGroup."""
        if error in RETRIABLE or error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again()
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._reset(forget_id=True)
        else:
            self.die(error.name)

    def _lead_or_follow(self, reply: JoinGroupReply) -> None:
        leads = reply.leader == self.member_id
        topics = leader.subscribed_topics(reply.members)
        self._leads_with = self._partition_counts(topics) if leads else None
        if leads and not reply.skip_assignment:
            self.send_sync(self.assignments(reply))
        else:
            self.send_sync({})

    def assignments(self, reply: JoinGroupReply) -> dict[str, bytes]:
        """The assignment of each member, computed by the leader."""
        return leader.assign(reply.protocol_name or "", reply.members, self.context.topics)

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """The partition counts that the leader watches. A topic that does not exist counts 0."""
        by_name = self.context.topics.by_name
        return {name: by_name[name].partition_count if name in by_name else 0 for name in topics}

    # -- syncing ---------------------------------------------------------------------------------

    def send_sync(self, assignments: Mapping[str, bytes]) -> None:
        """Send SyncGroup."""
        names_protocol = self.spec.join_version >= FIRST_JOIN_VERSION_WITH_NAMED_PROTOCOL
        self.ask(
            SyncGroupReceived(
                token=self.token(),
                version=5 if names_protocol else 3,
                member_id=self.member_id,
                instance_id=self.spec.instance_id,
                generation=self.generation,
                protocol_type=CONSUMER_PROTOCOL_TYPE if names_protocol else None,
                protocol_name=self.protocol if names_protocol else None,
                assignments=tuple(sorted(assignments.items())),
            ),
            self.hear_sync,
            self._join_again,
        )

    def hear_sync(self, answer: Answer) -> None:
        """Handle the answer to SyncGroup."""
        reply = answer.reply
        assert isinstance(reply, SyncGroupReply)
        if self.is_closing or self.phase is not Phase.SYNCING:
            return
        match reply.error:
            case ErrorCode.NONE:
                self._install(answer, reply.assignment)
            case ErrorCode.ILLEGAL_GENERATION:
                self._reset(forget_id=False)
            case error:
                self._handle_refusal(error)

    def _install(self, answer: Answer, assignment: bytes) -> None:
        """Revoke lost partitions, then take new ones. A revocation makes the client rejoin."""
        try:
            granted = self._read(assignment, answer.topics)
        except WireError as error:
            self.die(f"cannot read its assignment: {error}")
            return
        self.phase = Phase.STABLE
        revoked = self.claims.keys() - granted
        self._rejoin_wanted = bool(revoked)

        def take() -> None:
            is_lie = assignment in self.context.lies
            self.assign(granted, granted_ms=answer.at_ms, is_lie=is_lie)
            if self._rejoin_wanted or self._joined_with != self.topics:
                self.rejoin()

        self.revoke(revoked, take)

    def _read(self, assignment: bytes, topics: Topics) -> frozenset[Partition]:
        _version, decoded = decode_assignment(assignment)
        return topics.partitions(
            (partition.topic, partition.partitions)
            for partition in decoded.assigned_partitions
            if partition.topic in self.topics
        )

    # -- heartbeats ------------------------------------------------------------------------------

    def _beat(self) -> None:
        self.later(self.spec.heartbeat_interval_ms, self._beat)
        is_member = self.phase in (Phase.STABLE, Phase.PREPARING) and self.generation >= 0
        if self._awaits_beat or not is_member:
            return
        led = self._leads_with
        if led is not None and led != self._partition_counts(led):
            self.rejoin()
        self._awaits_beat = True
        stated = self.stated_epoch()
        sent_as = (self.member_id, stated)

        def on_answer(answer: Answer) -> None:
            self._awaits_beat = False
            if sent_as == (self.member_id, self.generation):
                self._hear_beat(answer.reply.error)

        def on_loss() -> None:
            self._awaits_beat = self._beat_was_fine = False

        self.ask(
            HeartbeatReceived(
                token=self.token(),
                member_id=self.member_id,
                instance_id=self.spec.instance_id,
                generation=stated,
            ),
            on_answer,
            on_loss,
        )

    def _hear_beat(self, error: ErrorCode) -> None:
        self._beat_was_fine = error == ErrorCode.NONE
        if self.phase not in (Phase.STABLE, Phase.PREPARING):
            return
        match error:
            case ErrorCode.NONE:
                pass
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.rejoin()
            case ErrorCode.ILLEGAL_GENERATION:
                self._reset(forget_id=False)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._reset(forget_id=True)
            case _ if error in RETRIABLE:
                pass
            case _:
                self.die(error.name)

    def _reset(self, *, forget_id: bool) -> None:
        """Drop the generation and all partitions, then join again."""
        self._forget_generation()
        if forget_id:
            self.member_id = ""
        self.lose(self.send_join)

    def _forget_generation(self) -> None:
        self.generation, self._leads_with = -1, None
        self.phase = Phase.PREPARING
