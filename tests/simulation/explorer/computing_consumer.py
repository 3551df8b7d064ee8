"""A native consumer of a small world that runs an assignor itself (rule 9.7)."""

from dataclasses import dataclass, replace
from uuid import UUID

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    InstallAssignmentReceived,
    PrepareAssignmentReceived,
    Request,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    PrepareAssignmentReply,
    Reply,
)
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi
from tests.simulation.computing import assignors, target_of
from tests.simulation.explorer.small_consumers import NativeConsumer

ASSIGNORS = assignors((-1, 0, 0))


@dataclass(slots=True, eq=False, kw_only=True)
class ComputingConsumer(NativeConsumer):
    """Computes the target when it is told to. If a request for that fails, it waits until it is
    told again."""

    is_told: bool = False
    prepared: PrepareAssignmentReply | None = None
    """What it computes the target from."""

    def has_something_to_say(self) -> bool:
        return NativeConsumer.has_something_to_say(self) or self._is_computing

    @property
    def _is_computing(self) -> bool:
        return self.is_told or self.prepared is not None

    def ask(self, token: Token, fresh_id: UUID, now_ms: int) -> tuple[GroupApi, Request]:
        if not self._is_computing or NativeConsumer.has_something_to_say(self):
            api, event = NativeConsumer.ask(self, token, fresh_id, now_ms)
            if isinstance(event, ConsumerHeartbeatReceived) and event.topic_names is not None:
                event = replace(event, client_assignors=ASSIGNORS)
            return api, event
        self.asked_ms = now_ms
        prepared, self.is_told, self.prepared = self.prepared, False, None
        if prepared is None:
            return GroupApi.ASSIGNMENT, PrepareAssignmentReceived(
                token=token, member_id=self.member_id, member_epoch=self.epoch
            )
        return GroupApi.ASSIGNMENT, InstallAssignmentReceived(
            token=token,
            member_id=self.member_id,
            member_epoch=self.epoch,
            group_epoch=prepared.group_epoch,
            target=target_of(prepared),
        )

    def hear(self, reply: Reply, now_ms: int) -> None:
        match reply:
            case ConsumerHeartbeatReply():
                NativeConsumer.hear(self, reply, now_ms)
                self.is_told = reply.should_compute
            case PrepareAssignmentReply() if not reply.error:
                self.prepared = reply
            case _:
                self.go_on(now_ms)

    def miss(self, now_ms: int) -> None:
        self.is_told, self.prepared = False, None
        NativeConsumer.miss(self, now_ms)
