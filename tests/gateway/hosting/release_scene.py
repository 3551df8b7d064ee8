"""A group of one classic member that is released, and its next processes."""

from typing import Any

from coordinator.interface.records import ReleaseRecord, ReleaseState
from coordinator.interface.replies import (
    Reply,
)
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import (
    Call,
)
from gateway.hosting.effects import Ask, Describe
from gateway.hosting.forwarded import Client
from gateway.hosting.inputs import (
    Done,
    MoveRequested,
    Relayed,
    Resumed,
)
from gateway.hosting.move_requests import (
    ReleaseOutcome,
    ReleaseRequest,
)
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.describe_groups import (
    DescribedGroup,
)
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.support.hosted_scene import HostedScene, cause_of

CONNECTION = 1


SESSION_MS = 10_000


RECONNECT_MS = 15_000
"""How long clients may take to find a gateway that was started."""


NATIVE_IS_IN = Relayed(
    Client(client_id="n", client_host="/10.0.0.1"),
    ConsumerGroupHeartbeatRequest(group_id="g", member_id="n-1", member_epoch=0),
    ConsumerGroupHeartbeatResponse(member_id="n-1", member_epoch=1),
)


class ReleaseScene(HostedScene):
    """A hosted group with one classic member."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.joined = self.classic_member()
        self.member_id = self.joined.member_id
        self.wait(1_000)
        self.hold(Ask, Describe)
        self.request = ReleaseRequest()

    @property
    def release_of(self) -> Any:
        return self.group.move

    @property
    def outcome(self) -> ReleaseOutcome | None:
        return self.request.outcome

    def begin(self) -> None:
        self.feed(MoveRequested(self.request))

    def step(self, answer: Any) -> None:
        step(self, answer)

    def to_gathering(self) -> None:
        """The member has given up, and its next join may reach the cluster."""
        self.begin()
        self.join(self.member_id)
        self.step(JoinGroupResponse(generation_id=9, protocol_name="x"))
        self.step(SyncGroupResponse())

    def to_the_end(self) -> None:
        self.to_gathering()
        group = DescribedGroup(group_id=self.group.group_id, members=())
        self.step(group)
        self.wait(5_000)
        self.step(group)
        self.wait(100)
        self.step(LeaveGroupResponse())

    def restart_after_kill(self) -> HostedScene:
        """The gateway that is started after a kill of this one."""
        again = self.restart()
        again.hold(Ask, Describe)
        again.feed(Resumed(is_moving=True))
        return again

    def log_has(self) -> ReleaseState | None:
        return log_has(self)


def step(on: HostedScene, answer: Any) -> None:
    """Answer the request, or the description, that the release waits for."""
    asked = on.take(Describe) if isinstance(answer, DescribedGroup) else on.take(Ask)
    on.feed(Done(asked, answer))


def log_has(on: HostedScene) -> ReleaseState | None:
    """The release in the log, as far as it has come; None after its end."""
    releases = [record.value for record in on.records if isinstance(record, ReleaseRecord)]
    return releases[-1] if releases else None


def is_waiting(call: Call) -> bool:
    """Whether the call has no answer yet."""
    return call.answer is None


def next_process(before: HostedScene) -> HostedScene:
    """The gateway after a restart, which finds the group in its log."""
    after = before.restart()
    after.hold(Ask, Describe)
    if after.records:
        after.feed(Resumed())
    return after


def request_release(on: HostedScene, *, is_unattended: bool = False) -> ReleaseRequest:
    """The request to release a group."""
    request = ReleaseRequest(is_unattended=is_unattended)
    on.feed(MoveRequested(request))
    return request


def outcome_of(request: ReleaseRequest) -> ReleaseOutcome | None:
    """What has become of a request so far."""
    return request.outcome


def leave(on: HostedScene) -> None:
    """Carry out the LeaveGroup of a release."""
    ask = on.take(Ask)
    assert isinstance(ask.message, LeaveGroupRequest)
    on.feed(Done(ask, on.coordinator.answer(ask.message)))


def situation_or_none(call: Call) -> RefusalReason | None:
    """Why the gateway refused the call; None if the engine has answered."""
    return None if isinstance(call.answer, Reply) else cause_of(call)
