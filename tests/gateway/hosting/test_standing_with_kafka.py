"""Hosting decisions in front of real Apache Kafka."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.control.client import give
from gateway.control.messages import AllowCommand, HoldCommand, PauseCommand
from gateway.hosting.identity import log_of
from gateway.operators import OperatorsConfig
from kafka_codecs.consumer_group_describe import MemberType
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient, find_coordinator, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster
from tests.support.kafka_release import kafka_release
from tests.support.releases import with_new_protocol
from tests.support.until import until_answered

SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


async def test_a_group_with_a_live_classic_member_is_forwarded(kafka: KafkaCluster) -> None:
    """A member behind the gateway and one that bypasses it share the group in the cluster. A native
    one is admitted as the cluster does it."""
    group = fresh_group("shared")
    async with (
        group_client(kafka.addresses[0], group, client_id="beside") as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group, client_id="behind") as client,
    ):
        first = await direct.enter()
        joined = (await client.join()).member_id
        async with trio.open_nursery() as nursery:
            second: list[JoinGroupResponse] = []

            async def enter() -> None:
                second.append(await client.join(joined))

            nursery.start_soon(enter)
            await until_answered(partial(direct.beat, first), lambda answer: answer.error_code)
            first = await direct.join(first.member_id)
        (behind,) = second
        assert (behind.error_code, behind.generation_id) == (0, first.generation_id)
        assert behind.leader == first.leader == first.member_id
        described = await direct.describe()
        assert {member.client_id for member in described.members} == {"beside", "behind"}
        of_native = await client.described_as_consumer_group()
        assert of_native.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert not gateway.events
        native = await client.native("n")
        if kafka.has_new_protocol:
            assert native.error_code == 0
        else:
            assert native.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert "beside" in (native.error_message or "")


@with_new_protocol()
async def test_a_group_with_a_live_native_member_is_forwarded(kafka: KafkaCluster) -> None:
    """DescribeGroups shows it as dead, so the gateway also uses ConsumerGroupDescribe. The group is
    hosted once it is empty."""
    group = fresh_group("shared")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        assert (await direct.native("direct")).error_code == 0
        assert (await client.native("n")).error_code == 0
        described = await direct.described_as_consumer_group()
        assert {member.member_id for member in described.members} == {"direct", "n"}
        assert not gateway.events
        await direct.native("direct", -1)
        await client.native("n", -1)
        assert (await client.native("m")).error_code == 0
        assert "group_created" in [event.name for event in gateway.events]


@with_new_protocol()
async def test_a_held_group_of_the_cluster_gets_no_further_native_member(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The cluster distinguishes native members from classic ones. Those that it had at the time of
    the hold may restart."""
    group = fresh_group("held")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(
            kafka.addresses, operators=OperatorsConfig(control_folder=tmp_path)
        ) as gateway,
        group_client(gateway.address, group) as client,
    ):
        await direct.enter()
        assert (await client.native("n")).error_code == 0
        pause = await give(tmp_path, PauseCommand(group_id=group))
        assert "only be held" in pause.reasons[0]
        assert (await give(tmp_path, HoldCommand(group_id=group))).reasons == ()
        refused = await client.native("m")
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert "at 1 member with the new protocol" in (refused.error_message or "")
        assert (await client.native("n")).error_code == 0
        described = await direct.described_as_consumer_group()
        types = sorted(member.member_type for member in described.members)
        assert types == [MemberType.CLASSIC, MemberType.CONSUMER]
        assert (await give(tmp_path, AllowCommand(group_id=group))).reasons == ()
        assert (await client.native("m")).error_code == 0
        assert not any(event.name == "hosting_started" for event in gateway.events)


async def test_a_group_is_hosted_once_the_direct_member_has_left(kafka: KafkaCluster) -> None:
    """Classic members first, then native ones, on a cluster with and without the native
    protocol."""
    group = fresh_group("moved")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        joined = await direct.enter()
        assert await client.commit({0: 1}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        await direct.leave(joined.member_id)
        hosted = await client.enter()
        native = await client.native("n")
        assert native.error_code == 0
        assert (await client.beat(hosted)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        described = await client.described_as_consumer_group()
        types = {member.member_id: member.member_type for member in described.members}
        assert types == {hosted.member_id: MemberType.CLASSIC, "n": MemberType.CONSUMER}
        upstream = await direct.describe()
        assert log_of(upstream) is not None
        assert len(upstream.members) == 1


async def test_commits_without_a_member_take_no_group(kafka: KafkaCluster) -> None:
    """Flink and Spark commit so: the cluster stores these offsets."""
    group = fresh_group("simple")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        assert await client.commit({0: 4, 2: 6}) == {0: 0, 2: 0}
        assert await client.fetch_offsets() == await direct.fetch_offsets() == {0: 4, 1: -1, 2: 6}
        described = await direct.describe()
        assert (described.group_state, described.members) == ("Empty", ())
        assert not gateway.events


async def test_commits_to_a_forwarded_group_are_the_clusters(kafka: KafkaCluster) -> None:
    """The cluster stores commits of members, and refuses those without one."""
    group = fresh_group("shared")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        joined = await direct.enter()
        refused = await client.commit({0: 5})
        assert refused == await direct.commit({0: 5}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        stored = await client.commit(
            {0: 5}, member_id=joined.member_id, epoch=joined.generation_id, version=8
        )
        assert stored == {0: 0}
        assert await client.fetch_offsets() == {0: 5, 1: -1, 2: -1}
        assert not gateway.events


@with_new_protocol()
async def test_a_share_group_of_the_same_name_is_the_clusters(kafka: KafkaCluster) -> None:
    """Consumers get the cluster's own refusals, and the list shows the share group."""
    group = fresh_group("share")
    command = [
        *kafka_release(kafka.release).command(SHARE_CONSUMER),
        *("--bootstrap-server", kafka.bootstrap_servers, "--topic", TOPIC, "--group", group),
    ]
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(
            partial(trio.run_process, command, capture_stdout=True, capture_stderr=True)
        )

        async def list_groups() -> ListGroupsResponse:
            answer: ListGroupsResponse = await client.connection.ask(ListGroupsRequest())
            return answer

        def has_members(answer: ListGroupsResponse) -> bool:
            states = {listing.group_id: listing.group_state for listing in answer.groups}
            return states.get(group) == "Stable"

        answer = await until_answered(list_groups, has_members)
        assert [listing.group_type for listing in answer.groups if listing.group_id == group] == [
            "share"
        ]
        refused = await client.join()
        assert refused.error_code == (await direct.join()).error_code != 0
        refused_too = await client.native("n")
        assert refused_too.error_code == (await direct.native("n")).error_code != 0
        assert not gateway.events
        nursery.cancel_scope.cancel()


async def test_where_nothing_is_adopted_a_new_group_is_the_clusters(kafka: KafkaCluster) -> None:
    """The gateway only watches."""
    group = fresh_group("watched")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses, adoption="never") as gateway,
        group_client(gateway.address, group, client_id="c") as client,
    ):
        joined = await client.enter()
        assert [member.client_id for member in (await direct.describe()).members] == ["c"]
        await client.leave(joined.member_id)
        assert (await client.enter()).error_code == 0
        assert [member.client_id for member in (await direct.describe()).members] == ["c"]
        assert [event.name for event in gateway.events] == ["member_left"]


async def test_commits_are_stored_in_the_cluster(kafka: KafkaCluster) -> None:
    """Members of both kinds commit. The cluster has the offsets, but no members."""
    group = fresh_group("commits")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        joined = await client.enter()
        generation = joined.generation_id
        stored = await client.commit(
            {0: 11, 1: 12}, member_id=joined.member_id, epoch=generation, version=8
        )
        assert stored == {0: 0, 1: 0}
        assert await direct.fetch_offsets() == {0: 11, 1: 12, 2: -1}
        assert await client.fetch_offsets() == {0: 11, 1: 12, 2: -1}
        await client.leave(joined.member_id)
        native = await client.native("n")
        stored = await client.commit({2: 13}, member_id="n", epoch=native.member_epoch)
        assert stored == {2: 0}
        assert await client.commit({2: 99}, member_id="stranger", epoch=1) == {
            2: ErrorCode.UNKNOWN_MEMBER_ID
        }
        assert await direct.fetch_offsets() == {0: 11, 1: 12, 2: 13}
        upstream = await direct.describe()
        assert (upstream.group_state, upstream.protocol_type) == ("Stable", "consumer")
        assert log_of(upstream) is not None


async def test_a_group_is_answered_only_at_its_coordinator(
    kafka: KafkaCluster,
) -> None:
    """Commits use the client's own connection, so the client must be at that listener."""
    group = fresh_group("elsewhere")
    async with whole_gateway(kafka.addresses) as gateway:
        coordinator = (await find_coordinator(gateway.address, group)).node_id
        upstream = (await find_coordinator(kafka.addresses[0], group)).node_id
        assert coordinator == upstream
        listeners = await gateway.listeners()
        assert set(listeners) == {1, 2}
        elsewhere = next(address for id_, address in listeners.items() if id_ != coordinator)
        async with await BrokerConnection.open(*elsewhere) as connection:
            client = GroupClient(connection, group)
            assert (await client.join()).error_code == ErrorCode.NOT_COORDINATOR
            assert (await client.native("n")).error_code == ErrorCode.NOT_COORDINATOR
            assert await client.commit({0: 1}) == {0: ErrorCode.NOT_COORDINATOR}
        assert not gateway.events
        async with group_client(gateway.address, group) as client:
            assert (await client.native("n")).error_code == 0


@pytest.mark.parametrize(
    ("protocol_type", "protocol"),
    [("connect", "compatible"), ("consumer", "stream"), ("sr", "v0")],
)
async def test_other_protocols_are_relayed(
    kafka: KafkaCluster, protocol_type: str, protocol: str
) -> None:
    """Connect, Streams and Schema Registry use the same requests with their own protocols. The
    cluster answers all of them, from the first JoinGroup to the last LeaveGroup."""
    group = fresh_group("workers")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group, client_id="worker") as client,
    ):
        joined = await client.enter(protocol_type=protocol_type, protocol=protocol)
        assert (await client.beat(joined)).error_code == 0
        described = await direct.describe()
        assert (described.group_state, described.protocol_type) == ("Stable", protocol_type)
        assert [member.client_id for member in described.members] == ["worker"]
        stored = await client.commit(
            {0: 5}, member_id=joined.member_id, epoch=joined.generation_id, version=8
        )
        assert stored == {0: 0}
        if protocol_type != "consumer" or not kafka.has_new_protocol:
            refused = await client.native("n")
            assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert refused.error_message
        left = await client.leave(joined.member_id)
        assert [member.error_code for member in left.members] == [0]
        assert (await direct.describe()).members == ()
        assert [event.name for event in gateway.events] == ["member_left"]


@pytest.mark.parametrize(
    ("protocol_type", "protocol"), [("connect", "compatible"), ("consumer", "stream")]
)
async def test_a_group_left_by_its_consumers_is_empty_for_other_protocols(
    kafka: KafkaCluster, protocol_type: str, protocol: str
) -> None:
    """An Empty group accepts any protocol. The anchor, which stays for a minute, gives way."""
    async with (
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, fresh_group("workers")) as client,
    ):
        assert (await client.native("n")).error_code == 0
        assert (await client.native("n", -1)).error_code == 0
        joined = await client.enter(protocol_type=protocol_type, protocol=protocol)
        assert (await client.beat(joined)).error_code == 0


@pytest.mark.parametrize(
    ("protocol_type", "protocol"),
    [("connect", "compatible"), ("consumer", "stream"), ("consumer", "range")],
)
async def test_members_in_the_cluster_survive_the_gateway(
    kafka: KafkaCluster, protocol_type: str, protocol: str
) -> None:
    """A restarted gateway does not remember their group, so the cluster decides whether they are
    members. The same holds for groups that are forwarded by a setting."""
    group = fresh_group("workers")
    patterns = (group,) if protocol == "range" else ()
    how: dict[str, Any] = {"protocol_type": protocol_type, "protocol": protocol}
    async with (
        whole_gateway(kafka.addresses, forward_patterns=patterns) as gateway,
        group_client(gateway.address, group) as client,
    ):
        joined = await client.enter(**how)
    async with (
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        assert (await client.sync(joined, **how)).error_code == 0
        assert (await client.beat(joined)).error_code == 0
        stranger = replace(joined, member_id="stranger")
        assert (await client.beat(stranger)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await client.sync(stranger, **how)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        native = await client.native("n", 5)
        assert native.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
        assert not gateway.events


async def test_a_join_that_the_cluster_refuses_forwards_no_group(
    kafka: KafkaCluster,
) -> None:
    """Only members in the cluster make a group the cluster's."""
    async with (
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, fresh_group("workers")) as client,
    ):
        refused = await client.join("nobody", protocol_type="connect", protocol="compatible")
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await client.native("n")).error_code == 0


async def test_groups_that_match_a_pattern_are_relayed(kafka: KafkaCluster) -> None:
    """The setting decides, and the cluster has the member."""
    group = fresh_group("legacy")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses, forward_patterns=("legacy-*",)) as gateway,
        group_client(gateway.address, group, client_id="c") as client,
    ):
        joined = await client.enter()
        assert [member.client_id for member in (await direct.describe()).members] == ["c"]
        await client.leave(joined.member_id)
        native = await client.native("n")
        if kafka.has_new_protocol:
            assert native.error_code == 0
            described = await direct.described_as_consumer_group()
            assert [member.member_id for member in described.members] == ["n"]
        else:
            assert native.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert native.error_message
        assert [event.name for event in gateway.events] == ["member_left"]


async def test_stable_offsets_and_batches_are_requested_from_the_cluster(
    kafka: KafkaCluster,
) -> None:
    """OffsetFetch v9 names members of two groups, one of them unknown, with RequireStable."""
    groups = [fresh_group("batch") for _ in range(2)]
    async with whole_gateway(kafka.addresses) as gateway:
        nodes = {(await find_coordinator(gateway.address, group_id)).node_id for group_id in groups}
        while len(nodes) > 1:  # a batch goes to one coordinator
            groups[1] = fresh_group("batch")
            nodes = {
                (await find_coordinator(gateway.address, group_id)).node_id for group_id in groups
            }
        async with (
            group_client(gateway.address, groups[0]) as client,
            group_client(gateway.address, groups[1]) as theirs,
        ):
            joined = await client.native("n")
            await theirs.native("m")
            await client.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
            topics = (OffsetFetchRequestTopic(name="numbers", partition_indexes=(0,)),)
            request = OffsetFetchRequest(
                groups=tuple(
                    OffsetFetchRequestGroup(
                        group_id=group,
                        member_id="n",
                        member_epoch=joined.member_epoch,
                        topics=topics,
                    )
                    for group in groups
                ),
                require_stable=True,
            )
            answer: OffsetFetchResponse = await client.connection.ask(request, 9)
            stored, refused = answer.groups
            assert stored.topics[0].partitions[0].committed_offset == 7
            assert (refused.error_code, refused.topics) == (ErrorCode.UNKNOWN_MEMBER_ID, ())


async def test_hosted_groups_are_listed_with_the_clusters_own(kafka: KafkaCluster) -> None:
    """Each is listed once, at its coordinator, with the gateway's type. Empty ones can be
    deleted."""
    ours, theirs = fresh_group("ours"), fresh_group("theirs")
    async with (
        whole_gateway(kafka.addresses) as gateway,
        group_client(kafka.addresses[0], theirs) as direct,
        group_client(gateway.address, ours) as client,
    ):
        await direct.enter()
        joined = await client.native("n")
        await client.commit({0: 1}, member_id="n", epoch=joined.member_epoch)
        listings = []
        for address in (await gateway.listeners()).values():
            async with await BrokerConnection.open(*address) as connection:
                answer: ListGroupsResponse = await connection.ask(ListGroupsRequest())
                listings += [
                    (group.group_id, group.group_state, group.group_type)
                    for group in answer.groups
                    if group.group_id in (ours, theirs)
                ]
        # 3.9 writes types like enum constants, 4.x in lower case.
        assert sorted((id_, state, type_.lower()) for id_, state, type_ in listings) == [
            (ours, "Stable", "consumer"),
            (theirs, "Stable", "classic"),
        ]
        refused = await client.delete()
        assert refused == ErrorCode.NON_EMPTY_GROUP
        await client.native("n", -1)
        assert await client.delete() == 0
        assert await client.fetch_offsets() == {0: -1, 1: -1, 2: -1}
