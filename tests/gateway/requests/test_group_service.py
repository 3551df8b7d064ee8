"""Every group api with raw requests over real sockets, in front of the embedded cluster.

The embedded cluster lacks descriptions and lists of groups, and supports JoinGroup up to v6.
test_group_routing_with_kafka.py tests higher versions in front of Apache Kafka.
"""

import gc
import warnings
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from structlog.testing import capture_logs

from coordinator.interface.config import GroupConfig, StaticTakeover
from coordinator.interface.records import RemovalCause
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.data_path import brokers
from gateway.data_path.upstream import Upstream
from gateway.events.member_events import MemberLeft
from gateway.requests.group_service import GroupService
from gateway.requests.member_apis import MemberApis
from gateway.state_log.memory import MemoryLog
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import MemberType
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.consumer_protocol import decode_assignment, decode_subscription
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.simulation.coordinator import FakeGroup
from tests.support.fake_broker import running_fake_broker
from tests.support.gateway import QUICK, Gateway, whole_gateway
from tests.support.group_client import GroupClient, given_to, group_client
from tests.support.hosted_groups import lone_request
from tests.support.mock_cluster import MockCluster, running_mock_cluster
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import offset_stage
from tests.support.until import until, until_answered

OF_THE_CLUSTER = {"cluster_members_seen", "readiness_changed"}
"""What events say of a group that the gateway does not host."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway, its cluster, and a client of one group."""

    upstream: MockCluster
    gateway: Gateway
    client: GroupClient

    @asynccontextmanager
    async def another_client(
        self, group: str = "g", client_id: str = "other"
    ) -> AsyncIterator[GroupClient]:
        """Another client of the same group unless stated."""
        async with group_client(self.gateway.address, group, client_id=client_id) as client:
            yield client

    async def stored_offsets(self, partitions: int = 3) -> dict[int, int]:
        """The group's offsets, fetched from the cluster itself."""
        async with await BrokerConnection.open(*self.upstream.bootstrap[0]) as connection:
            return await GroupClient(connection, "g").fetch_offsets(partitions=partitions)


@asynccontextmanager
async def open_scene(
    *,
    groups: GroupConfig = QUICK,
    max_groups: int = 16,
    forward_patterns: tuple[str, ...] = (),
    state_log: MemoryLog | None = None,
) -> AsyncIterator[Scene]:
    """A scene for the length of the block."""
    with trio.fail_after(30):
        async with running_mock_cluster(3) as upstream:
            await upstream.create_topic("numbers", 3)
            async with (
                whole_gateway(
                    upstream.bootstrap,
                    groups=groups,
                    max_groups=max_groups,
                    forward_patterns=forward_patterns,
                    state_log=state_log,
                ) as gateway,
                group_client(gateway.address, "g") as client,
            ):
                yield Scene(upstream, gateway, client)


# -- classic members -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("join", "sync", "beat", "leave"), [(0, 0, 0, 0), (3, 2, 2, 2), (4, 3, 3, 3), (6, 4, 4, 4)]
)
async def test_a_classic_member_in_every_version(
    join: int, sync: int, beat: int, leave: int
) -> None:
    """The member joins, syncs, sends a heartbeat, is refused, and leaves."""
    async with open_scene() as scene:
        client = scene.client
        joined = await client.join(version=join)
        if join >= 4:
            assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            joined = await client.join(joined.member_id, version=join)
        assert (joined.error_code, joined.generation_id) == (0, 1)
        assert joined.leader == joined.member_id
        assert joined.protocol_name == "range"
        (member,) = joined.members
        assert decode_subscription(member.metadata)[1].topics == ("numbers",)
        synced = await client.sync(joined, {joined.member_id: {"numbers": [0, 2]}}, version=sync)
        (given,) = decode_assignment(synced.assignment)[1].assigned_partitions
        assert given.partitions == (0, 2)
        assert (await client.beat(joined, version=beat)).error_code == 0
        refused = await client.join("stranger", version=join)
        assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
        left = await client.leave("stranger", version=leave)
        if leave < 3:
            assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        else:
            assert left.error_code == 0
            assert [m.error_code for m in left.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
        left = await client.leave(joined.member_id, version=leave)
        assert left.error_code == 0
        assert (await client.beat(joined, version=beat)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_classic_member_of_a_mixed_group_in_old_versions() -> None:
    """JoinGroup v0 has no rebalance timeout, so the session timeout applies (rule 1.2)."""
    async with open_scene() as scene:
        client = scene.client
        await client.native("n")
        joined = await client.join(version=0)
        assert (joined.error_code, joined.leader, joined.members) == (0, "", ())
        synced = await client.sync(joined, version=0)
        assert synced.error_code == 0
        assert decode_assignment(synced.assignment)[1].assigned_partitions == ()
        assert (await client.beat(joined, version=0)).error_code == 0


async def test_a_late_join_closes_its_connection() -> None:
    """DEV D5: its client has joined on a newer connection since, and continues there."""
    async with open_scene() as scene, scene.another_client() as newer:
        named = await scene.client.join()
        joined = await newer.join(named.member_id)
        await newer.sync(joined, {joined.member_id: {"numbers": range(3)}})
        with pytest.raises(UpstreamError, match="closed"):
            await scene.client.join(named.member_id)
        assert (await newer.beat(joined)).error_code == ErrorCode.NONE


async def test_an_empty_group_id_is_refused() -> None:
    """This holds whatever coordinator the cluster names."""
    async with open_scene() as scene:
        client = GroupClient(scene.client.connection, "")
        assert (await client.join(version=5)).error_code == ErrorCode.INVALID_GROUP_ID
        assert (await client.native("n")).error_code == ErrorCode.INVALID_REQUEST


async def test_an_empty_group_id_has_offsets_in_the_cluster() -> None:
    """No member can join it, so the gateway checks nothing."""
    async with open_scene() as scene:
        client = GroupClient(scene.client.connection, "")
        assert await client.commit({0: 1}) == {0: 0}
        assert (await client.fetch_offsets())[0] == 1


# -- members of the new protocol -----------------------------------------------------------------


async def test_the_version_decides_who_generates_a_native_member_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With v0 it is the coordinator, from v1 on the client (KIP-1082)."""
    monkeypatch.setattr(brokers, "VERSIONS_FRESH_S", -1.0)  # no broker changes without a restart
    async with open_scene() as scene:
        # The mock cluster begins with v1, and Kafka with v0.
        await scene.upstream.claim_versions(ApiKey.CONSUMER_GROUP_HEARTBEAT, range(2))
        async with scene.another_client() as client:
            topic_id = await client.topic_id()
            joined = await client.native("", version=0)
            assert joined.error_code == 0
            assert joined.member_id
            assert joined.assignment is not None
            owned = {
                topic.topic_id: topic.partitions for topic in joined.assignment.topic_partitions
            }
            assert owned == {topic_id: (0, 1, 2)}
            nameless = await client.native("", version=1)
            assert nameless.error_code == ErrorCode.INVALID_REQUEST
            assert nameless.error_message
            assert (await client.native("n", version=1)).member_id == "n"


async def test_a_static_member_that_crashed_may_come_back_when_its_connections_are_closed() -> None:
    """DEV D82: while one of them is open, its instance id is in use."""
    config = replace(QUICK, static_takeover=StaticTakeover.CONNECTION_CLOSED)
    async with open_scene(groups=config) as scene:
        async with scene.another_client(client_id="c"):
            async with scene.another_client(client_id="c") as beating:
                joined = await beating.native("n1", instance_id="i1")
            async with scene.another_client(client_id="d") as other:
                refused = await other.native("n2", instance_id="i1")
        assert given_to(joined) == {0, 1, 2}
        assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        async with scene.another_client(client_id="c") as returned:
            back = await until_answered(
                lambda: returned.native("n2", instance_id="i1"),
                lambda answer: not answer.error_code,
            )
        assert given_to(back) == {0, 1, 2}
        assert back.member_epoch == joined.member_epoch


# -- offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 5, 8, 9])
async def test_commits_are_stored_in_the_cluster(version: int) -> None:
    """The value is read from the cluster itself."""
    async with open_scene() as scene:
        joined = await scene.client.enter()
        member = {"member_id": joined.member_id, "epoch": joined.generation_id}
        stored = await scene.client.commit({0: 7, 2: 9}, **member, version=version)  # type: ignore[arg-type]
        assert stored == {0: 0, 2: 0}
        assert await scene.stored_offsets() == {0: 7, 1: -1, 2: 9}
        refused = await scene.client.commit({0: 1}, member_id="x", epoch=1, version=version)
        assert refused == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert await scene.stored_offsets() == {0: 7, 1: -1, 2: 9}


async def test_a_native_member_commits_in_v9_only() -> None:
    """Earlier versions have no member epoch (rule 3.15)."""
    async with open_scene() as scene:
        joined = await scene.client.native("n")
        too_old = await scene.client.commit(
            {0: 1}, member_id="n", epoch=joined.member_epoch, version=8
        )
        assert too_old == {0: ErrorCode.UNSUPPORTED_VERSION}
        stale = await scene.client.commit({0: 1}, member_id="n", epoch=joined.member_epoch + 1)
        assert stale == {0: ErrorCode.STALE_MEMBER_EPOCH}
        assert await scene.stored_offsets() == {0: -1, 1: -1, 2: -1}
        stored = await scene.client.commit({0: 1}, member_id="n", epoch=joined.member_epoch)
        assert stored == {0: 0}
        assert await scene.stored_offsets() == {0: 1, 1: -1, 2: -1}


def fetch_one(group: str = "g") -> OffsetFetchRequest:
    """An OffsetFetch in a version for one group."""
    topic = OffsetFetchRequestTopic(name="numbers", partition_indexes=(0, 1))
    return OffsetFetchRequest(group_id=group, topics=(topic,))


def fetch_many(*groups: tuple[str, str | None, int], stable: bool = False) -> OffsetFetchRequest:
    """An OffsetFetch in a version for many groups."""
    topics = (OffsetFetchRequestTopic(name="numbers", partition_indexes=(0, 1)),)
    return OffsetFetchRequest(
        groups=tuple(
            OffsetFetchRequestGroup(
                group_id=group, member_id=member_id, member_epoch=epoch, topics=topics
            )
            for group, member_id, epoch in groups
        ),
        require_stable=stable,
    )


@pytest.mark.parametrize("version", [1, 2, 5, 7])
async def test_offsets_are_fetched_in_the_versions_about_one_group(version: int) -> None:
    """v1 has only partition errors, v2 adds a group error, v7 adds RequireStable."""
    log = MemoryLog()
    log.records.unreadable["damaged"] = "record 7 cannot be read"
    async with open_scene(state_log=log) as scene:
        joined = await scene.client.enter()
        await scene.client.commit(
            {0: 7}, member_id=joined.member_id, epoch=joined.generation_id, version=5
        )
        ask = scene.client.connection.ask
        answer: OffsetFetchResponse = await ask(fetch_one(), version)
        (topic,) = answer.topics
        assert answer.error_code == 0
        assert [p.committed_offset for p in topic.partitions] == [7, -1]
        assert [p.error_code for p in topic.partitions] == [0, 0]
        refused: OffsetFetchResponse = await ask(fetch_one("damaged"), version)
        if version == 1:
            (topic,) = refused.topics
            codes = [p.error_code for p in topic.partitions]
            assert codes == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
            assert [p.committed_offset for p in topic.partitions] == [-1, -1]
        else:
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("stable", [False, True])
async def test_a_batch_has_one_answer_per_group(*, stable: bool) -> None:
    """An unknown member fails only its own group. The cluster does not support batches, so it
    receives one request per group. An unknown group has no offsets."""
    async with open_scene() as scene, scene.another_client("h") as other:
        joined = await scene.client.native("n")
        await scene.client.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
        await other.native("m")
        ask = scene.client.connection.ask
        request = fetch_many(
            ("g", "n", joined.member_epoch),
            ("h", "stranger", 1),
            ("never", None, -1),
            stable=stable,
        )
        answer: OffsetFetchResponse = await ask(request, 9)
        own, strangers, never = answer.groups
        assert [group.group_id for group in answer.groups] == ["g", "h", "never"]
        assert [p.committed_offset for p in own.topics[0].partitions] == [7, -1]
        assert (strangers.error_code, strangers.topics) == (ErrorCode.UNKNOWN_MEMBER_ID, ())
        assert [p.committed_offset for p in never.topics[0].partitions] == [-1, -1]
        stale: OffsetFetchResponse = await ask(fetch_many(("g", "n", 99)), 9)
        assert stale.groups[0].error_code == ErrorCode.STALE_MEMBER_EPOCH
        memberless: OffsetFetchResponse = await ask(fetch_many(("g", None, -1)), 8)
        assert [p.committed_offset for p in memberless.groups[0].topics[0].partitions] == [7, -1]


async def test_a_group_may_be_only_once_in_a_batch() -> None:
    """The check of one entry could cover the other."""
    async with open_scene() as scene:
        joined = await scene.client.native("n")
        request = fetch_many(("g", "n", joined.member_epoch), ("g", "stranger", 1))
        answer: OffsetFetchResponse = await scene.client.connection.ask(request, 9)
        codes = [(group.group_id, group.error_code) for group in answer.groups]
        assert codes == [("g", ErrorCode.INVALID_REQUEST)]


# -- admin ---------------------------------------------------------------------------------------


async def test_every_kind_of_group_is_described_to_old_tools() -> None:
    """Kafka shows a consumer group as Dead, but the gateway shows its members (deviation D44)."""
    async with open_scene() as scene:
        client = scene.client
        unknown = await client.describe(version=0)
        assert (unknown.group_state, unknown.error_code) == ("Dead", 0)
        unknown = await client.describe(version=6)
        assert (unknown.group_state, unknown.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
        assert unknown.error_message
        joined = await client.enter(owned={"numbers": [0, 1, 2]})
        for version in (0, 3, 6):
            classic = await client.describe(version)
            assert (classic.group_state, classic.protocol_data) == ("Stable", "range")
            (member,) = classic.members
            assert (member.member_id, member.client_host) == (joined.member_id, "/127.0.0.1")
            (given,) = decode_assignment(member.member_assignment)[1].assigned_partitions
            assert given.partitions == (0, 1, 2)
        await client.native("n")
        for version in (0, 3, 6):
            mixed = await client.describe(version)
            assert (mixed.protocol_type, mixed.error_code) == ("consumer", 0)
            assert {m.member_id for m in mixed.members} == {joined.member_id, "n"}
            held = {
                partition
                for m in mixed.members
                for topic in decode_assignment(m.member_assignment)[1].assigned_partitions
                for partition in topic.partitions
            }
            assert held == {0, 1, 2}
        await client.native("n", -1)
        await client.leave(joined.member_id, version=4)
        empty = await client.describe(version=6)
        assert (empty.group_state, empty.members, empty.error_code) == ("Empty", (), 0)


async def test_every_kind_of_group_is_described_to_new_tools() -> None:
    """A group with only classic members is not a consumer group. v1 has the members' protocols."""
    async with open_scene() as scene:
        client = scene.client
        assert (
            await client.described_as_consumer_group()
        ).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        joined = await client.enter()
        for version in (0, 1):
            classic = await client.described_as_consumer_group(version)
            assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert classic.error_message
        native = await client.native("n")
        old = await client.described_as_consumer_group(0)
        assert {m.member_type for m in old.members} == {MemberType.UNKNOWN}
        mixed = await client.described_as_consumer_group(1)
        assert mixed.group_epoch == native.member_epoch
        types = {m.member_id: m.member_type for m in mixed.members}
        assert types == {joined.member_id: MemberType.CLASSIC, "n": MemberType.CONSUMER}
        topics = {
            topic.topic_name
            for m in mixed.members
            for topic in m.target_assignment.topic_partitions
        }
        assert topics == {"numbers"}
        await client.leave(joined.member_id, version=4)
        await client.native("n", -1)
        empty = await client.described_as_consumer_group(1)
        assert (empty.group_state, empty.members, empty.error_code) == ("Empty", (), 0)


async def test_groups_are_listed_and_filtered() -> None:
    """Filters ignore case, and unknown values match nothing (rule 3.14)."""
    async with open_scene() as scene, scene.another_client("h") as other:
        await scene.client.enter()
        await other.native("n")
        listeners = await scene.gateway.listeners()

        async def list_groups(
            version: int, **filters: tuple[str, ...]
        ) -> set[tuple[str, str, str]]:
            listings = set()
            for address in listeners.values():
                async with await BrokerConnection.open(*address) as connection:
                    answer: ListGroupsResponse = await connection.ask(
                        ListGroupsRequest(**filters),  # type: ignore[arg-type]
                        version,
                    )
                    assert answer.error_code == 0
                    assert {g.protocol_type for g in answer.groups} <= {"consumer"}
                    listings |= {(g.group_id, g.group_state, g.group_type) for g in answer.groups}
            return listings

        assert await list_groups(0) == {("g", "", ""), ("h", "", "")}
        assert {group for group, _, _ in await list_groups(4)} == {"g", "h"}
        everything = {("g", "Stable", "classic"), ("h", "Stable", "consumer")}
        assert await list_groups(5) == everything
        assert await list_groups(5, states_filter=("stable",)) == everything
        assert await list_groups(5, types_filter=("CONSUMER",)) == {("h", "Stable", "consumer")}
        assert await list_groups(5, types_filter=("classic",)) == {("g", "Stable", "classic")}
        assert await list_groups(5, types_filter=("share",)) == set()
        assert await list_groups(4, states_filter=("Empty", "unheard-of")) == set()


# -- the cluster's groups --------------------------------------------------------------------------


async def test_the_cluster_answers_a_connect_worker() -> None:
    """The cluster also answers all later requests for the worker's group. Only the worker's leave
    is reported."""
    async with open_scene() as scene:
        how: dict[str, Any] = {"protocol_type": "connect", "protocol": "compatible"}
        with capture_logs() as lines:
            joined = await scene.client.join(version=5, **how)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                joined = await scene.client.join(joined.member_id, version=5, **how)
        assert joined.error_code == 0
        (line,) = [line for line in lines if line["event"] == "group_forwarded"]
        assert line["reason"] == "it uses the protocol connect/compatible"
        assert {event.name for event in scene.gateway.events} <= OF_THE_CLUSTER
        synced = await scene.client.sync(joined, {joined.member_id: {"numbers": [1]}}, version=3)
        assert decode_assignment(synced.assignment)[1].assigned_partitions[0].partitions == (1,)
        assert (await scene.client.beat(joined, version=3)).error_code == 0
        left = await scene.client.leave(joined.member_id, version=1)
        assert left.error_code == 0
        (event,) = [event for event in scene.gateway.events if event.name not in OF_THE_CLUSTER]
        assert event == MemberLeft(member_id=joined.member_id, cause=RemovalCause.LEFT)


async def test_a_foreign_protocol_does_not_take_a_hosted_group() -> None:
    """The client has the wrong group id. Its request is refused, and the group stays."""
    async with open_scene() as scene, scene.another_client() as worker:
        joined = await scene.client.enter()
        with capture_logs() as lines:
            refused = await worker.join(protocol_type="connect", protocol="compatible", version=5)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert "group_forwarded" not in [line["event"] for line in lines]
        await scene.client.leave(joined.member_id, version=4)
        assert (await scene.client.native("n")).error_code == 0


async def test_a_foreign_protocol_waits_for_a_joining_member() -> None:
    """While the anchor is being taken for the member, it is not decided whether the group is
    hosted."""
    broker = OffsetBroker(join_gate=trio.Event())
    with trio.fail_after(30):
        async with (
            running_fake_broker(broker),
            whole_gateway([broker.address]) as gateway,
            group_client(gateway.address, "g") as member,
            group_client(gateway.address, "g") as worker,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(member.native, "n")
            await until(lambda: ApiKey.JOIN_GROUP in [request.api_key for request in broker.seen])
            refused = await worker.join(protocol_type="connect", protocol="compatible", version=5)
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert broker.join_gate is not None
            broker.join_gate.set()


async def test_a_join_without_a_protocol_type_forwards_no_group() -> None:
    """The request is refused and leaves nothing behind."""
    async with open_scene() as scene:
        refused = await scene.client.join(protocol_type="", version=3)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await scene.client.native("n")).error_code == 0
        assert scene.gateway.events


@pytest.mark.parametrize(("pattern", "is_forwarded"), [("g", True), ("g*", True), ("h*", False)])
async def test_the_cluster_answers_for_groups_that_match_a_pattern(
    pattern: str, *, is_forwarded: bool
) -> None:
    """The setting is groups_forward. An event reports the group once, at its first member."""
    async with open_scene(forward_patterns=(pattern,)) as scene:
        with capture_logs() as lines:
            joined = await scene.client.join(version=5)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                joined = await scene.client.join(joined.member_id, version=5)
            await scene.client.beat(joined, version=3)
        assert joined.error_code == 0
        names = {event.name for event in scene.gateway.events}
        assert (names <= OF_THE_CLUSTER) is is_forwarded
        reasons = [line["reason"] for line in lines if line["event"] == "group_forwarded"]
        assert reasons == ["as configured (groups_forward)"] * is_forwarded


@pytest.mark.parametrize(
    ("protocol", "error"),
    [
        ("groupferry-of-another-log", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("roundrobin", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_a_forwarded_join_that_an_anchor_overtakes_may_retry(
    protocol: str, error: ErrorCode
) -> None:
    """The cluster's refusal would end the client. Where the group still has members of its own, the
    client has no assignor in common with them, and must know."""
    async with offset_stage() as stage, trio.open_nursery() as nursery:
        broker = stage.broker
        broker.occupants, broker.join_gate = ("direct",), trio.Event()
        answers: list[JoinGroupResponse] = []

        async def join() -> None:
            answers.append(await stage.client.join(metadata=b"", version=5))

        nursery.start_soon(join)
        await until(lambda: ApiKey.JOIN_GROUP in [request.api_key for request in broker.seen])
        broker.coordinator.groups["g"] = FakeGroup(
            protocol_type="consumer", protocol=protocol, member_id="m", is_synced=True
        )
        broker.join_gate.set()
        await until(lambda: answers)
        assert [answer.error_code for answer in answers] == [error]


async def test_a_native_member_leaves_a_group_that_went_to_a_cluster_without_it() -> None:
    """The group was hosted before. UNKNOWN_MEMBER_ID makes the member give up its partitions."""
    async with offset_stage() as stage:
        stage.broker.occupants = ("direct",)
        joining, beating = await stage.client.native("n"), await stage.client.native("n", 3)
        assert joining.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert "1 member (direct)" in (joining.error_message or "")
        assert beating.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_cluster_without_native_members_forwards_none() -> None:
    """Such a cluster does not know the request. The client gets the error of a group that does not
    accept the new protocol."""
    with trio.fail_after(30):
        async with (
            running_fake_broker(OffsetBroker()) as broker,
            whole_gateway([broker.address], forward_patterns=("g",)) as gateway,
            group_client(gateway.address, "g") as client,
        ):
            assert (await client.native("n")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_groups_beyond_max_groups_are_refused() -> None:
    """Existing groups continue."""
    async with open_scene(max_groups=1) as scene, scene.another_client("h") as other:
        joined = await scene.client.enter()
        assert (await other.join(version=5)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        refused = await other.native("n")
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert refused.error_message == "the limit of 1 hosted groups is reached"
        assert await other.commit({0: 1}) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert (await scene.client.beat(joined)).error_code == 0
        await scene.client.leave(joined.member_id, version=4)
        await until_answered(lambda: other.native("n"), lambda joined: not joined.error_code)


# -- a log that another gateway may own ------------------------------------------------------------


async def test_members_get_no_answers_while_another_gateway_may_own_the_log() -> None:
    """Members look for the coordinator, and continue once the gateway owns the log again. Stored
    commits stay stored."""

    class Doubtful(MemoryLog):
        may_answer = True

    state_log = Doubtful()
    with trio.fail_after(30):
        async with running_mock_cluster(1) as upstream:
            await upstream.create_topic("numbers", 3)
            async with (
                whole_gateway(upstream.bootstrap, state_log=state_log) as gateway,
                group_client(gateway.address, "g") as client,
                group_client(gateway.address, "unknown-here") as stranger,
            ):
                joined = await client.enter()
                state_log.may_answer = False
                assert (await client.beat(joined)).error_code == ErrorCode.NOT_COORDINATOR
                assert (await client.join()).error_code == ErrorCode.NOT_COORDINATOR
                # The engine's refusals may be wrong as well, for known and unknown groups.
                assert (await stranger.beat(joined)).error_code == ErrorCode.NOT_COORDINATOR
                assert (
                    await client.describe()
                ).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                refused = await client.commit({0: 7}, member_id="else", epoch=1)
                assert refused == {0: ErrorCode.NOT_COORDINATOR}
                committed = await client.commit(
                    {0: 7}, member_id=joined.member_id, epoch=joined.generation_id
                )
                assert committed == {0: 0}
                state_log.may_answer = True
                assert (await client.beat(joined)).error_code == 0


@pytest.mark.parametrize("may_answer", [False, True])
def test_a_last_word_that_replaces_an_answer_is_a_refusal_of_the_gateway(may_answer: bool) -> None:
    """Its client does not hear what the group has decided, and the gateway may own the log again
    later (DEV D90)."""
    groups = SimpleNamespace(drivers=SimpleNamespace(may_answer_for=lambda _group_id: may_answer))
    service = SimpleNamespace(_groups=groups, _belongs_to_cluster=lambda _message: False)
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    request = lone_request(beat, 1)
    answer = ConsumerGroupHeartbeatResponse()
    last_word = GroupService.last_word(cast(GroupService, service), request, answer)
    assert (last_word is answer) is may_answer
    assert request.is_refused is not may_answer


async def test_a_forwarded_group_is_answered_while_another_gateway_may_own_the_log() -> None:
    """The answer is the cluster's."""

    class NotOurs(MemoryLog):
        may_answer = False

    async with open_scene(forward_patterns=("g",), state_log=NotOurs()) as scene:
        joined = await scene.client.join(version=5)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await scene.client.join(joined.member_id, version=5)
        assert joined.error_code == 0


@pytest.mark.parametrize("is_allowed", [False, True])
async def test_an_answer_begins_when_it_is_awaited(is_allowed: bool) -> None:
    """A client may go before a task awaits its answer: a coroutine would warn of that on stderr."""
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    upstream = cast(Upstream, SimpleNamespace(number=1, newest_number=1))
    request = replace(lone_request(message, 1), upstream=upstream)

    async def answer(*_arguments: object) -> Struct:
        return HeartbeatResponse()

    drivers = SimpleNamespace(
        in_memory=lambda _group_id: None, needs_driver=lambda _group_id: False
    )
    members = SimpleNamespace(
        _groups=SimpleNamespace(drivers=drivers),
        _coordinators=SimpleNamespace(is_at_lately=lambda *_of: True),
        _connected_clients=None,
        _ask=answer,
    )
    ask_members = partial(MemberApis.answer, cast(MemberApis, members))
    service = SimpleNamespace(
        _has_no_question=lambda *_of: is_allowed,
        _members=SimpleNamespace(answer=ask_members),
        _check_and_answer=answer,
        _later=partial(GroupService._later, cast(GroupService, SimpleNamespace())),
    )
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert isinstance(GroupService.answer(cast(GroupService, service), request), Awaitable)
        gc.collect()
    assert not warned
