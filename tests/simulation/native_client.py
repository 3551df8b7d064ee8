"""A native consumer that behaves like Kafka's Java client (rule 12.3).

The client reconciles: it revokes partitions, takes new ones, then acknowledges. Meanwhile its
heartbeats do not state the owned partitions.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from coordinator.interface.events import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReceived,
    Request,
)
from coordinator.interface.replies import ConsumerHeartbeatReply
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.client import RETRIABLE, RETRY_MS, Client, ClientContext, Spec
from tests.simulation.computing import Computing
from tests.simulation.driver import Answer

SOON_MS = 5
TURNS_MAX = 3


class NativeClient(Client):
    """Sends ConsumerGroupHeartbeat. After an error or a lost answer the request is full."""

    kind = "native"

    def __init__(self, context: ClientContext, name: str, spec: Spec) -> None:
        super().__init__(context, name, spec)
        # From v1 on the client generates its member id (KIP-1082).
        self.member_id = name if spec.version > 0 else ""
        self.member_epoch = JOIN_EPOCH
        self._target: frozenset[Partition] | None = None
        self._granted_ms = 0
        self._heartbeat_interval_ms = spec.heartbeat_interval_ms
        self._must_state_all = True
        self._must_state_owned = self._awaits_beat = self._was_fine = self._is_fenced_off = False
        self._turns = 0
        self.topic_regex = spec.topic_regex if spec.version > 0 else None
        self._stated: tuple[tuple[str, ...], str | None] | None = None
        self._computing = Computing(self)

    def start(self) -> None:
        self._beat()
        self.start_committing()

    @property
    def epoch(self) -> int:
        return self.member_epoch

    @property
    def last_assignment(self) -> frozenset[Partition]:
        """The assignment that the client received last."""
        return self._target or frozenset()

    @property
    def is_settled(self) -> bool:
        is_busy = self.is_in_callback or self._must_state_owned or self._must_state_all
        return self._was_fine and self.member_epoch > 0 and not is_busy

    @property
    def may_commit(self) -> bool:
        return self.member_epoch > 0 and not self.is_in_callback

    @property
    def fetch_as(self) -> tuple[str | None, int]:
        return self.member_id, self.stated_epoch()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.world.trace(self.name, f"subscribes to {topics}")
        self.topics, self.topic_regex = topics, None

    @property
    def is_leaving(self) -> bool:
        """Whether the client is giving up its membership."""
        return self.is_closing or self.member_epoch < JOIN_EPOCH

    def repeat_subscription(self) -> None:
        """Make the next heartbeat state the subscription."""
        self._stated = None

    def repeat_all(self) -> None:
        """Make the next heartbeat full."""
        self._must_state_all = True

    def wants(self, name: str) -> bool:
        by_regex = self.topic_regex is not None and re.fullmatch(self.topic_regex, name)
        return super().wants(name) or bool(by_regex)

    def close(self) -> None:
        self.is_closing = True
        self.world.trace(self.name, "closes")
        self.revoke(self.claims, self._leave)

    def take_slot(self, instance_id: str) -> None:
        """Leave, then rejoin with the same member id but another instance id, which is new or whose
        own client is gone or classic."""
        if self.is_closing or self._is_fenced_off:
            return
        self.world.trace(self.name, f"leaves to be {instance_id}")
        self.world.counts["slots taken"] += 1
        self._is_fenced_off = True

        def come_back(_answer: Answer | None = None) -> None:
            self.spec = replace(self.spec, instance_id=instance_id)
            self.member_epoch = JOIN_EPOCH
            self._rejoin()

        def leave() -> None:
            if self.is_closing:
                return
            self._target, self.member_epoch = None, STATIC_LEAVE_EPOCH
            self.ask(self._heartbeat(STATIC_LEAVE_EPOCH), come_back, come_back)

        self.revoke(self.claims, leave)

    def lose_coordinator(self) -> None:
        """Hear no answers to the next heartbeats in time, and turn to another broker each time."""
        self._turns = self.world.between(1, TURNS_MAX)

    def ask(
        self,
        request: Request,
        heard: Callable[[Answer], None],
        lost: Callable[[], None],
        positions: dict[Partition, int] | None = None,
    ) -> None:
        """Send a request. Like Java's client, it keeps its connections to other brokers."""
        super().ask(request, heard, lost, positions)
        if self._turns and isinstance(request, ConsumerHeartbeatReceived):
            self._turns -= 1
            self.world.trace(self.name, "turns to another broker")
            self.world.counts["turns to other brokers"] += 1
            self._line.turn()

    def stall(self, length_ms: int) -> None:
        if self.is_closing or self._is_fenced_off or self.member_epoch <= JOIN_EPOCH:
            return
        self.world.trace(self.name, f"polls too late, by {length_ms} ms")
        self.world.counts["polls that were too late"] += 1
        self._is_fenced_off = True

        def come_back() -> None:
            self.member_epoch = JOIN_EPOCH
            self._rejoin()

        def on_left(_answer: Answer | None = None) -> None:
            self.later(length_ms, come_back)

        def leave() -> None:
            self._target, self.member_epoch = None, LEAVE_EPOCH
            self.ask(self._heartbeat(LEAVE_EPOCH), on_left, on_left)

        self.lose(leave)

    def _leave(self) -> None:
        def on_closed(_answer: Answer | None = None) -> None:
            self.die("closed")

        if self.member_epoch <= JOIN_EPOCH:
            on_closed()
            return
        is_static = self.spec.instance_id is not None
        self.member_epoch = STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH
        self.ask(self._heartbeat(self.member_epoch), on_closed, on_closed)

    # -- heartbeats ------------------------------------------------------------------------------

    def _beat(self) -> None:
        self.later(self._heartbeat_interval_ms, self._beat)
        self.beat()

    def beat(self) -> None:
        """Send a heartbeat, unless one is unanswered."""
        if self._awaits_beat or self._is_fenced_off or self.is_closing:
            return
        self._awaits_beat = True
        request = self._heartbeat(self.stated_epoch())
        self._must_state_all &= request.owned is None
        self._must_state_owned &= request.owned is None
        sent_at = self.member_epoch

        def on_answer(answer: Answer) -> None:
            self._awaits_beat = False
            assert isinstance(answer.reply, ConsumerHeartbeatReply)
            if sent_at == self.member_epoch:
                self.hear(answer.reply, answer.at_ms)

        def on_loss() -> None:
            self._awaits_beat = self._was_fine = False
            self._must_state_all = True
            self.later(RETRY_MS, self.beat)

        self.ask(request, on_answer, on_loss)

    def _heartbeat(self, epoch: int) -> ConsumerHeartbeatReceived:
        states_all = self._must_state_all or epoch == JOIN_EPOCH
        states_owned = (states_all or self._must_state_owned) and not self.is_in_callback
        subscription = (self.topics, self.topic_regex)
        states_topics = states_all or subscription != self._stated
        if epoch < JOIN_EPOCH:
            states_all = states_owned = states_topics = False
        else:
            self._stated = subscription
        return ConsumerHeartbeatReceived(
            token=self.token(),
            version=self.spec.version,
            member_id=self.member_id,
            member_epoch=epoch,
            client_id=self.client_id,
            client_host="/127.0.0.1",
            instance_id=self.spec.instance_id,
            rack_id=self.spec.rack_id if states_all else None,
            rebalance_timeout_ms=self.spec.rebalance_timeout_ms if states_all else -1,
            topic_names=self.topics if states_topics else None,
            topic_regex=(self.topic_regex or "") if states_topics and self.spec.version else None,
            server_assignor=self.spec.assignor if states_all else None,
            client_assignors=(self.spec.client_assignors or None) if states_all else None,
            owned=self.stated_owned() if states_owned else None,
            fresh_id=self.fresh_id(),
        )

    def stated_owned(self) -> frozenset[Partition]:
        """The owned partitions in the client's heartbeat."""
        return frozenset(self.claims)

    def hear(self, reply: ConsumerHeartbeatReply, at_ms: int) -> None:
        """Handle the answer to a heartbeat."""
        self._was_fine = reply.error == ErrorCode.NONE
        if self.is_closing:
            return
        match reply.error:
            case ErrorCode.NONE:
                self.member_id = reply.member_id or self.member_id
                self.member_epoch = reply.member_epoch
                self._heartbeat_interval_ms = reply.heartbeat_interval_ms
                if reply.should_compute:
                    self._computing.compute_target()
                elif self.spec.client_assignors:
                    self._computing.forge()
                if reply.assignment is not None:
                    self._target, self._granted_ms = reply.assignment, at_ms
                    self.reconcile()
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                self._is_fenced_off = True
                self._target, self.member_epoch = None, JOIN_EPOCH
                self.lose(self._rejoin)
            case error if error in RETRIABLE:
                self._must_state_all = True
            case error:
                self.die(error.name)

    def _rejoin(self) -> None:
        self._is_fenced_off, self._must_state_all = False, True
        self.beat()

    # -- reconciling -----------------------------------------------------------------------------

    def reconcile(self) -> None:
        """Revoke, then take, then acknowledge, unless a reconciliation is already running."""
        if self._target is None or self.is_in_callback or self.claims.keys() == self._target:
            return
        self.revoke(self.claims.keys() - self._target, self._take)

    def _take(self) -> None:
        if self._target is not None and not self.is_closing:
            self.assign(self._target, granted_ms=self._granted_ms)
            self._must_state_owned = True
            self.later(SOON_MS, self.beat)
            self.reconcile()
