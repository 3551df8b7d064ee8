"""One simulated broker, one group, and requests in few words."""

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.interface.events import JOIN_EPOCH
from gateway.hosting.identity import Gateway
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from tests.simulation.broker import Broker, Sender
from tests.simulation.broker_profiles import BrokerProfile
from tests.support.commits import commit_of
from tests.support.group_requests import join_request, native_request, sync_request
from tests.support.group_values import Owned, make_topics, subscription

GROUP = "orders"
ANCHOR = Gateway(log_id="log-1", run_id=1).join_metadata
RANGE = ("range", subscription(("foo",)))
PRIVATE = (ANCHOR.protocol, ANCHOR.metadata)


class BrokerStage:
    """Requests are numbered from 1. `answers` has those that came, by number."""

    def __init__(self, profile: BrokerProfile) -> None:
        self.broker = Broker(profile, make_topics(foo=3))
        self.now_ms = 1_000_000
        self.sent = 0
        self.answers: dict[int, Any] = {}

    def send(self, message: Struct, *, version: int | None = None) -> int:
        """Send a request; its number."""
        self.sent += 1
        self.record(
            self.broker.handle(
                message, Sender("c"), self.now_ms, request_id=self.sent, version=version
            )
        )
        return self.sent

    def ask(self, message: Struct, *, version: int | None = None) -> Any:
        """The answer to a request, which must not be parked."""
        return self.answers[self.send(message, version=version)]

    def record(self, answers: Iterable[tuple[int, Struct]]) -> None:
        for number, answer in answers:
            assert number not in self.answers, "answered twice"
            self.answers[number] = answer

    def wait(self, length_ms: int) -> None:
        end_ms = self.now_ms + length_ms
        while (at_ms := self.broker.next_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.record(self.broker.pass_time(self.now_ms))
        self.now_ms = end_ms

    def move(self) -> None:
        """Have another broker coordinate the group."""
        self.record(self.broker.move(self.now_ms))

    def error_of(self, number: int) -> int | None:
        """The error code of an answer, None without one."""
        answer = self.answers.get(number)
        return None if answer is None else answer.error_code

    # -- requests --------------------------------------------------------------------------------

    def join(self, member_id: str = "", *, version: int | None = None, **fields: Any) -> int:
        """Send a JoinGroup; its number."""
        message = join_request(GROUP, ("foo",), member_id=member_id, **fields)
        return self.send(message, version=version)

    def join_twice(self, **how: Any) -> int:
        """Send a JoinGroup, and another with the id that the first was given; its number."""
        first = self.answers[self.join(**how)]
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.member_id, **how)

    def sync(
        self,
        member_id: str,
        generation: int,
        assign: Mapping[str, Owned | bytes] | None = None,
        **fields: Any,
    ) -> int:
        """Send a SyncGroup; its number."""
        return self.send(sync_request(GROUP, member_id, generation, assign, **fields))

    def enter(self, **how: Any) -> tuple[str, int]:
        """Have one member join an empty group and sync. Its id and the generation."""
        number = self.join(**how) if how.get("instance_id") else self.join_twice(**how)
        self.wait(self.broker.profile.initial_rebalance_delay_ms)
        joined = self.answers[number]
        synced = self.sync(
            joined.member_id,
            joined.generation_id,
            {joined.member_id: {"foo": range(3)}},
            instance_id=how.get("instance_id"),
            protocol=joined.protocol_name,
        )
        assert self.error_of(synced) == 0
        return joined.member_id, joined.generation_id

    def beat(self, member_id: str, generation: int, instance: str | None = None) -> int:
        """The error code of a Heartbeat."""
        message = HeartbeatRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        return int(self.ask(message).error_code)

    def leave(self, *member_ids: str) -> list[int]:
        """The error codes of a LeaveGroup."""
        members = tuple(MemberIdentity(member_id=member_id) for member_id in member_ids)
        answer = self.ask(LeaveGroupRequest(group_id=GROUP, members=members))
        return [member.error_code for member in answer.members]

    def commit(self, offset: int, **ids: Any) -> int:
        """The error code of an OffsetCommit for the first partition."""
        answer = self.ask(commit_of({"foo": {0: offset}}, group_id=GROUP, **ids))
        return int(answer.topics[0].partitions[0].error_code)

    def native(self, member_id: str, epoch: int = JOIN_EPOCH, **fields: Any) -> Any:
        """The answer to a ConsumerGroupHeartbeat."""
        return self.ask(native_request(GROUP, member_id, epoch, **fields))
