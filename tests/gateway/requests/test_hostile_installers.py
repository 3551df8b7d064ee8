"""Members that install wrong, huge, late, repeated or forged assignments over the wire.

Each gets the code of KIP-848, or loses its connection; the group keeps its target, and its other
member hears nothing of it.
"""

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
import trio
from structlog.testing import capture_logs

from gateway.cluster.errors import UpstreamError
from gateway.data_path.config import Limits
from gateway.requests import assignments
from kafka_codecs.consumer_group_heartbeat import ClientAssignor, ConsumerGroupHeartbeatResponse
from kafka_codecs.error_codes import ErrorCode
from tests.support.gateway import QUICK, Gateway, whole_gateway
from tests.support.group_client import GroupClient, given_to, group_client
from tests.support.mock_cluster import running_mock_cluster
from tests.support.until import until_answered

ON = replace(QUICK, client_side_assignors=True)
TOPIC = "numbers"
PARTITIONS = 4
LIMIT_S = 30
WEIGHTS = ClientAssignor(
    name="weights",
    minimum_version=-1,
    maximum_version=1,
    reason=0,
    metadata_version=1,
    metadata_bytes=b"1",
)
Share = tuple[str, dict[UUID, Sequence[int]]]


@dataclass(slots=True)
class Scene:
    """A group with two members: `mallory` is told to compute the target, `alice` has none yet."""

    gateway: Gateway
    mallory: GroupClient
    alice: GroupClient
    topic_id: UUID
    epoch: int = 0
    group_epoch: int = 0

    def share(self, member_id: str, *partitions: int) -> Share:
        """What a member is to own."""
        return member_id, {self.topic_id: partitions}

    def good(self) -> list[Share]:
        """A valid target."""
        return [self.share("mallory", 0, 1), self.share("alice", 2, 3)]

    async def install(self, *shares: Share, **how: Any) -> ErrorCode:
        """The answer to the chosen member's target."""
        arguments = {"epoch": self.epoch, "group_epoch": self.group_epoch, **how}
        return ErrorCode(
            (await self.mallory.install("mallory", shares=shares, **arguments)).error_code
        )

    async def until_told(self, client: GroupClient, member_id: str, epoch: int) -> int:
        """Send heartbeats until the member is told to compute. Its epoch then."""

        async def beat() -> ConsumerGroupHeartbeatResponse:
            nonlocal epoch
            answer = await client.native(member_id, epoch)
            assert answer.error_code == 0, answer
            epoch = answer.member_epoch
            return answer

        await until_answered(beat, lambda answer: answer.should_compute_assignment)
        return epoch

    async def alice_owns(self) -> set[int]:
        """What a heartbeat of the other member brings."""
        return given_to(await self.alice.native("alice", 0, client_assignors=(WEIGHTS,)))


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """The chosen member has asked for the group."""
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as upstream:
            await upstream.create_topic(TOPIC, PARTITIONS)
            async with (
                whole_gateway(upstream.bootstrap, groups=ON) as gateway,
                group_client(gateway.address, "orders") as mallory,
                group_client(gateway.address, "orders") as alice,
            ):
                on = Scene(gateway, mallory, alice, await mallory.topic_id(TOPIC))
                joined = await mallory.native(
                    "mallory", client_assignors=(WEIGHTS,), rebalance_timeout_ms=10_000
                )
                assert joined.error_code == 0, joined
                assert joined.should_compute_assignment
                on.epoch = joined.member_epoch
                assert await on.alice_owns() == set()
                group = await mallory.prepare("mallory", on.epoch)
                assert group.error_code == 0, group
                assert sorted(member.member_id for member in group.members) == ["alice", "mallory"]
                on.group_epoch = group.group_epoch
                yield on


STRANGER = UUID(int=1)
WRONG = {
    "a partition of nobody": [("mallory", (0, 1)), ("alice", (2,))],
    "nothing at all": [],
    "a partition of two": [("mallory", (0, 1, 2)), ("alice", (2, 3))],
    "a partition twice": [("mallory", (0, 1, 1)), ("alice", (2, 3))],
    "a member twice": [("mallory", (0, 1)), ("alice", (2,)), ("alice", (3,))],
    "an unknown member": [("mallory", (0, 1)), ("bob", (2, 3))],
    "an unknown partition": [("mallory", (0, 1)), ("alice", (2, 3, 4))],
    "a negative partition": [("mallory", (0, 1, -1)), ("alice", (2, 3))],
}


@pytest.mark.parametrize("shares", WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_target_is_refused(shares: list[tuple[str, tuple[int, ...]]]) -> None:
    """The group keeps the target that it has. The event has the reason."""
    async with scene() as on:
        wrong = [on.share(member_id, *numbers) for member_id, numbers in shares]
        assert await on.install(*wrong) == ErrorCode.INVALID_ASSIGNMENT
        assert await on.alice_owns() == set()
        (rejected,) = [event for event in on.gateway.events if event.name == "assignment_rejected"]
        assert rejected.fields["assignor"] == "weights"
        assert await on.install(*on.good()) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_an_unknown_topic_is_refused() -> None:
    """The target is refused even if it has all partitions of the known topic."""
    async with scene() as on:
        (first, partitions), second = on.good()
        wrong = (first, {**partitions, STRANGER: (0,)}), second
        assert await on.install(*wrong) == ErrorCode.INVALID_ASSIGNMENT
        assert await on.alice_owns() == set()


async def test_a_repeated_target_changes_nothing() -> None:
    """Only one that was asked for is installed."""
    async with scene() as on:
        assert await on.install(*on.good()) == ErrorCode.NONE
        assert await on.alice_owns() == {2, 3}
        everything = on.share("mallory", *range(PARTITIONS))
        assert await on.install(everything) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await on.alice_owns() == {2, 3}


async def test_a_late_target_changes_nothing() -> None:
    """The chosen member has left, and another one computes."""
    async with scene() as on:
        assert (await on.mallory.native("mallory", -1)).error_code == 0
        assert await on.install(*on.good()) == ErrorCode.UNKNOWN_MEMBER_ID
        epoch = await on.until_told(on.alice, "alice", on.epoch)
        group = await on.alice.prepare("alice", epoch)
        everything = on.share("alice", *range(PARTITIONS))
        answer = await on.alice.install("alice", epoch, group.group_epoch, [everything])
        assert answer.error_code == 0, answer
        assert await on.alice_owns() == set(range(PARTITIONS))
        events = [event for event in on.gateway.events if event.name == "member_chosen_to_compute"]
        assert [event.fields["member_id"] for event in events] == ["mallory", "alice"]


@pytest.mark.parametrize(
    ("forged", "code"),
    [
        ({"member_id": "alice"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "bob"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 99}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"group_epoch": 99}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_a_forged_target_changes_nothing(forged: dict[str, Any], code: ErrorCode) -> None:
    """No other client can install one, and the chosen member still can."""
    async with scene() as on:
        arguments = {
            "member_id": "mallory",
            "epoch": on.epoch,
            "group_epoch": on.group_epoch,
            "shares": on.good(),
            **forged,
        }
        assert (await on.alice.install(**arguments)).error_code == code
        assert await on.alice_owns() == set()
        assert await on.install(*on.good()) == ErrorCode.NONE
        assert await on.alice_owns() == {2, 3}


async def test_only_the_chosen_member_sees_the_group() -> None:
    """Prepare has the members' ids and metadata."""
    async with scene() as on:
        for member_id, epoch, code in (
            ("alice", on.epoch, ErrorCode.UNKNOWN_MEMBER_ID),
            ("bob", on.epoch, ErrorCode.UNKNOWN_MEMBER_ID),
            ("mallory", 99, ErrorCode.STALE_MEMBER_EPOCH),
            ("mallory", -1, ErrorCode.INVALID_REQUEST),
        ):
            answer = await on.alice.prepare(member_id, epoch)
            assert (answer.error_code, answer.members) == (code, ())


async def test_a_group_that_is_not_there_has_no_target() -> None:
    """The question does not create the group either."""
    async with scene() as on, group_client(on.gateway.address, "payments") as other:
        prepared = await other.prepare("mallory", 1)
        assert prepared.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        installed = await other.install("mallory", 1, 1, on.good())
        assert installed.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_long_metadata_is_refused() -> None:
    """The limit is that of a member's description."""
    async with scene() as on:
        code = await on.install(*on.good(), metadata=bytes(1024 * 1024 + 1))
        assert code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await on.install(*on.good()) == ErrorCode.NONE
        assert await on.alice_owns() == {2, 3}


@pytest.mark.parametrize("what", ["bytes", "entries"])
async def test_a_huge_target_costs_the_connection(what: str) -> None:
    """The target is never held in memory as a whole, or never looked at. The member continues on
    another connection."""
    limits = Limits()
    async with scene() as on:
        huge = bytes(limits.max_held_request_bytes) if what == "bytes" else b""
        many = range(limits.max_request_entries) if what == "entries" else ()
        with capture_logs() as lines, pytest.raises(UpstreamError):
            await on.install(on.share("mallory", *many), metadata=huge)
        assert [line["event"] for line in lines] == ["bad_frame_received"]
        assert await on.alice_owns() == set()
        async with group_client(on.gateway.address, "orders") as on.mallory:
            assert await on.install(*on.good()) == ErrorCode.NONE
        assert await on.alice_owns() == {2, 3}


async def test_others_do_not_wait_while_a_target_is_translated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That takes 0.1 s for the largest group, so a thread does it; also for the answer to
    Prepare."""
    threads: dict[str, int] = {}

    def noting(name: str, translate: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any) -> Any:
            threads[name] = threading.get_ident()
            return translate(*arguments)

        return record

    for name in ("install_event", "prepare_response"):
        monkeypatch.setattr(assignments, name, noting(name, getattr(assignments, name)))
    async with scene() as on:
        assert await on.install(*on.good()) == ErrorCode.NONE
    assert threads.keys() == {"install_event", "prepare_response"}
    assert threading.get_ident() not in threads.values()
