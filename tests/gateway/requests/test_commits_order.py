"""Accepted commits are stored in their client's order, without a round trip for each, and each of
them ends."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import trio
import trio.testing

from gateway.data_path.group_requests import COMMITS_TOGETHER_MAX
from kafka_codecs import decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import (
    RequestHeader,
    decode_response_header,
    encode_response_header,
)
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.support.commits import commit_of
from tests.support.fake_broker import answer
from tests.support.group_client import GroupClient, given_to
from tests.support.group_requests import join_request
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import offset_stage
from tests.support.until import until, until_answered
from tests.support.wire import Wire, make_frame, open_wire, request_frame

VERSION = 8
HEARTBEAT_VERSION = 4
JOIN_VERSION = 5
LOADING, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCING = 14, 25, 22, 27


@dataclass(frozen=True, slots=True)
class Scene:
    """A member of a group, and a connection for its commits."""

    broker: OffsetBroker
    client: GroupClient
    wire: Wire
    joined: JoinGroupResponse

    def commit(self, offset: int, *, generation: int | None = None) -> bytes:
        """The frame of a commit with the offset as correlation id."""
        generation = self.joined.generation_id if generation is None else generation
        message = commit_of(
            {"numbers": {0: offset}}, member_id=self.joined.member_id, epoch=generation
        )
        return request_frame(ApiKey.OFFSET_COMMIT, VERSION, offset, encode(message, VERSION))

    def heartbeat(self, correlation_id: int) -> bytes:
        """The frame of the member's heartbeat."""
        beat = HeartbeatRequest(
            group_id="g",
            generation_id=self.joined.generation_id,
            member_id=self.joined.member_id,
        )
        version = HEARTBEAT_VERSION
        return request_frame(ApiKey.HEARTBEAT, version, correlation_id, encode(beat, version))

    def join(self, correlation_id: int) -> bytes:
        """The frame of the member's JoinGroup."""
        message = join_request("g", ["numbers"], member_id=self.joined.member_id)
        body = encode(message, JOIN_VERSION)
        return request_frame(ApiKey.JOIN_GROUP, JOIN_VERSION, correlation_id, body)

    async def codes(self, count: int) -> list[tuple[int, int]]:
        """The correlation ids and error codes of the next answers."""
        codes = []
        for _ in range(count):
            frame = await self.wire.frame()
            offset, body = decode_response_header(ApiKey.OFFSET_COMMIT, VERSION, frame)
            (topic,) = decode(OffsetCommitResponse, frame[body:], VERSION).topics
            codes.append((offset, topic.partitions[0].error_code))
        return codes

    @property
    def sent_offsets(self) -> list[int]:
        """The offsets that the cluster was asked to store, in order."""
        return [commit.topics[0].partitions[0].committed_offset for commit in self.broker.commits]

    def answers(self, codes: Sequence[int]) -> None:
        """The broker reads this many commits before it answers the first."""

        async def handler(wire: Wire, header: RequestHeader, body: bytes) -> None:
            later = [await wire.frame() for _ in codes[1:]]
            headers = [header]
            for frame in later:
                correlation_id = int.from_bytes(frame[4:8])
                headers.append(
                    RequestHeader(
                        api_key=ApiKey.OFFSET_COMMIT,
                        api_version=header.api_version,
                        correlation_id=correlation_id,
                        client_id=header.client_id,
                    )
                )
            for pending, code in zip(headers, codes, strict=True):
                await answer(wire, pending, commit_response(code))

        self.broker.handlers[ApiKey.OFFSET_COMMIT] = handler


def commit_response(code: int) -> OffsetCommitResponse:
    """The answer to a commit of one partition."""
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(
        topics=(OffsetCommitResponseTopic(name="numbers", partitions=(partition,)),)
    )


async def until_rebalancing(client: GroupClient, member: JoinGroupResponse) -> None:
    """Wait until another JoinGroup is parked."""
    await until_answered(
        lambda: client.beat(member), lambda answer: answer.error_code == REBALANCING
    )


@asynccontextmanager
async def open_scene() -> AsyncIterator[Scene]:
    """A scene for the length of the block."""
    async with offset_stage() as stage, open_wire(stage.gateway.address) as wire:
        yield Scene(stage.broker, stage.client, wire, await stage.client.enter())


async def test_the_broker_has_the_next_commit_before_it_answers_the_first() -> None:
    """Later requests of the client must not wait for a round trip per commit."""
    async with open_scene() as on:
        on.answers((0, 0, 0))
        await on.wire.send(b"".join(map(on.commit, range(3))))
        assert await on.codes(3) == [(0, 0), (1, 0), (2, 0)]


async def test_a_heartbeat_behind_a_commit_waits_for_its_answer() -> None:
    """A broker does the same. The heartbeat arrives while the commit, which was sent immediately,
    is on its way."""
    async with open_scene() as on:
        await on.wire.send(on.commit(0))
        assert await on.codes(1) == [(0, 0)]  # the connection has asked what it may do
        on.broker.gate = trio.Event()
        await on.wire.send(on.commit(1))
        await until(lambda: len(on.broker.commits) == 2)
        await on.wire.send(on.heartbeat(2))
        with trio.move_on_after(0.05):
            raise AssertionError(await on.wire.frame())
        on.broker.gate.set()
        assert await on.codes(1) == [(1, 0)]
        frame = await on.wire.frame()
        assert decode_response_header(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, frame)[0] == 2


async def test_an_answer_to_a_commit_may_arrive_in_pieces() -> None:
    """The client gets it whole."""

    async def handler(wire: Wire, header: RequestHeader, body: bytes) -> None:
        key, version = header.api_key, header.api_version
        start = encode_response_header(key, version, header.correlation_id)
        whole = make_frame(start + encode(commit_response(0), version))
        for piece in (whole[:2], whole[2:9], whole[9:]):
            await wire.send(piece)
            await trio.testing.wait_all_tasks_blocked(0.001)

    async with open_scene() as on:
        on.broker.handlers[ApiKey.OFFSET_COMMIT] = handler
        for place in range(3):
            await on.wire.send(on.commit(place))
            assert await on.codes(1) == [(place, 0)]


async def test_a_stopping_gateway_waits_for_a_commit_on_its_way() -> None:
    """The client gets the answer before the connection closes."""
    async with offset_stage() as stage, open_wire(stage.gateway.address) as wire:
        on = Scene(stage.broker, stage.client, wire, await stage.client.enter())
        await wire.send(on.commit(0))
        assert await on.codes(1) == [(0, 0)]
        on.broker.gate = trio.Event()
        await wire.send(on.commit(1))
        await until(lambda: len(on.broker.commits) == 2)
        stage.gateway.stop.set()
        await trio.testing.wait_all_tasks_blocked()
        on.broker.gate.set()
        assert await on.codes(1) == [(1, 0)]
        assert await wire.at_end()


async def test_all_commits_are_stored_and_answered_in_order() -> None:
    """There are more commits than one batch holds, with refused ones among them and a heartbeat
    behind them."""
    count = 2 * COMMITS_TOGETHER_MAX + 5
    stale = {3, COMMITS_TOGETHER_MAX}
    async with open_scene() as on:
        commits = [on.commit(n, generation=99 if n in stale else None) for n in range(count)]
        await on.wire.send(b"".join((*commits, on.heartbeat(count))))
        codes = await on.codes(count)
        assert codes == [(n, ILLEGAL_GENERATION if n in stale else 0) for n in range(count)]
        assert on.sent_offsets == [n for n in range(count) if n not in stale]
        frame = await on.wire.frame()
        correlation_id, _ = decode_response_header(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, frame)
        assert correlation_id == count


async def test_commits_refused_to_the_anchor_are_sent_again_in_order() -> None:
    """An admin removed the anchor. The gateway takes it again, and the client notices nothing."""
    async with open_scene() as on:
        on.broker.coordinator.group("g").remove_member()
        await on.wire.send(b"".join(map(on.commit, range(3))))
        assert await on.codes(3) == [(0, 0), (1, 0), (2, 0)]
        assert on.sent_offsets == [0, 1, 2, 0, 1, 2]
        assert on.broker.offsets == {0: 2}


async def test_an_overtaken_commit_is_not_sent_again() -> None:
    """A second attempt could set an offset back. The client may retry."""
    async with open_scene() as on:
        on.answers((UNKNOWN_MEMBER_ID, 0, UNKNOWN_MEMBER_ID))
        asked = on.broker.handlers[ApiKey.OFFSET_COMMIT]
        again: list[int] = []

        async def first_three(wire: Wire, header: RequestHeader, body: bytes) -> None:
            if not again:
                again.append(-1)
                await asked(wire, header, body)
                return
            request = decode(OffsetCommitRequest, body, header.api_version)
            again.append(request.topics[0].partitions[0].committed_offset)
            await answer(wire, header, commit_response(0))

        on.broker.handlers[ApiKey.OFFSET_COMMIT] = first_three
        await on.wire.send(b"".join(map(on.commit, range(3))))
        assert await on.codes(3) == [(0, LOADING), (1, 0), (2, 0)]
        assert again == [-1, 2]


async def test_an_outage_stores_no_commit_late() -> None:
    """No commit uses another connection while an earlier one may still arrive. Then the group
    continues."""
    async with offset_stage() as stage, open_wire(stage.gateway.address) as wire:
        on = Scene(stage.broker, stage.client, wire, await stage.client.enter())
        on.broker.loses_commits = True
        await on.wire.send(b"".join(map(on.commit, range(3))))
        assert await on.codes(3) == [(0, LOADING), (1, LOADING), (2, LOADING)]
        assert on.sent_offsets == [0]
        on.broker.loses_commits = False
        member = {"member_id": on.joined.member_id, "epoch": on.joined.generation_id}
        async with stage.another_client() as next_connection:
            commit = partial(next_connection.commit, {0: 9}, **member, version=VERSION)  # type: ignore[arg-type]
            assert await until_answered(commit, lambda codes: codes != {0: LOADING}) == {0: 0}
        assert on.broker.offsets == {0: 9}


async def test_commits_of_a_disconnected_client_end() -> None:
    """The partitions of a commit that never ends could never move."""
    async with open_scene() as on:
        on.broker.gate = trio.Event()
        await on.wire.send(b"".join(map(on.commit, range(3))))
        await on.broker.asked.wait()
        await on.wire.stream.aclose()
        on.broker.gate.set()
        await on.client.leave(on.joined.member_id)
        await until_answered(lambda: on.client.native("n"), lambda joined: 0 in given_to(joined))


async def test_the_anchor_gets_a_new_id_if_a_client_disconnects_during_its_commit() -> None:
    """The cluster then refuses the commit if it arrives late, after the next owner's."""
    async with open_scene() as on:
        anchor = on.broker.coordinator.group("g")
        before = anchor.member_id
        on.broker.gate = trio.Event()
        await on.wire.send(on.commit(0))
        await on.broker.asked.wait()
        await on.wire.stream.aclose()
        await until(lambda: anchor.member_id != before)
        on.broker.gate.set()


async def test_a_commit_behind_a_parked_join_closes_an_abandoned_connection() -> None:
    """The member has committed on its next connection meanwhile. The broker would store the older
    offset last."""
    async with (
        offset_stage() as stage,
        stage.another_client() as other,
        open_wire(stage.gateway.address) as old,
        open_wire(stage.gateway.address) as new,
    ):
        alone = await stage.client.enter()
        async with trio.open_nursery() as nursery:
            follower = await other.join()
            nursery.start_soon(other.join, follower.member_id)
            await until_rebalancing(stage.client, alone)
            joined = await stage.client.join(alone.member_id)
        await stage.client.sync(joined, {joined.member_id: {"numbers": range(3)}})
        on = Scene(stage.broker, stage.client, old, joined)
        await old.send(on.join(0) + on.commit(1))
        await until_rebalancing(other, replace(joined, member_id=follower.member_id))
        await new.send(on.commit(2))
        assert await replace(on, wire=new).codes(1) == [(2, 0)]
        await new.send(on.join(3))  # answers the one on the old connection
        frame = await old.frame()
        assert decode_response_header(ApiKey.JOIN_GROUP, JOIN_VERSION, frame)[0] == 0
        assert await old.at_end()
        assert on.sent_offsets == [2]
