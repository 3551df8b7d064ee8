"""Group requests at the processes of a fleet, which all run in this one, in front of the embedded
cluster."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.data_path.api_table import API_TABLE, ApiHandling
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from gateway.fleet.fleet_state import SLOTS_FOLDER
from gateway.fleet.member import SHARDS, FleetMember, broker_of, coordinator_id, is_coordinator
from gateway.fleet.seated_member import FLEET_CLIENT_ID
from gateway.groups.groups import Groups
from gateway.observers.counts import AnswerCounts
from gateway.requests import fleet_group_service
from gateway.requests.fleet_group_service import FleetGroupService
from gateway.requests.group_service import GroupService
from gateway.requests.owner_calls import SOCKET_NAME
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.end_txn import EndTxnRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.list_config_resources import ListConfigResourcesRequest
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_codecs.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_codecs.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_codecs.sync_group import SyncGroupRequest
from tests.support.codecs import sample
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient
from tests.support.hosted_groups import lone_request
from tests.support.mock_cluster import running_mock_cluster
from tests.support.ports import HOST, free_port

SLOTS = 2
MEMBER = FleetMember(slot=0, slots=SLOTS, shards=SHARDS)
GROUPS = tuple(
    next(f"group-{number}" for number in range(99) if MEMBER.slot_of(f"group-{number}") == slot)
    for slot in range(SLOTS)
)
"""A group of each process."""
ABOUT_GROUPS = [
    key
    for key, entry in API_TABLE.items()
    if entry.treatment in (ApiHandling.ANSWER, ApiHandling.INSPECT)
    and key is not ApiKey.API_VERSIONS  # the data path answers it
]


@dataclass(frozen=True, slots=True)
class Scene:
    """The ports of all nodes of a fleet in front of a cluster of one broker."""

    bootstrap_port: int
    ports: dict[int, int]
    members: list[FleetMember]

    @asynccontextmanager
    async def connect(self, slot: int) -> AsyncIterator[BrokerConnection]:
        """A client of the coordinator node of a slot."""
        port = self.ports[coordinator_id(slot, 1)]
        async with await BrokerConnection.open(HOST, port) as connection:
            yield connection


@asynccontextmanager
async def open_scene(folder: Path) -> AsyncIterator[Scene]:
    """A scene for the length of the block."""
    port = free_port()
    members = [FleetMember(slot=slot, slots=SLOTS, shards=SHARDS) for slot in range(SLOTS)]
    with trio.fail_after(30):
        async with running_mock_cluster(1) as upstream:
            await upstream.create_topic("numbers", 3)
            async with (
                whole_gateway(
                    upstream.bootstrap, listen_port=port, state_folder=folder, member=members[0]
                ) as first,
                whole_gateway(
                    upstream.bootstrap, listen_port=port, state_folder=folder, member=members[1]
                ),
            ):
                nodes = await first.listeners()
                ports = {node_id: address[1] for node_id, address in nodes.items()}
                yield Scene(port, ports, members)


async def test_a_client_finds_the_owner_of_its_group(tmp_path: Path) -> None:
    """Wherever it asks, and in either shape of the request."""
    async with open_scene(tmp_path) as scene:
        for port in (scene.bootstrap_port, *scene.ports.values()):
            async with await BrokerConnection.open(HOST, port) as connection:
                batch = await connection.ask(FindCoordinatorRequest(coordinator_keys=GROUPS), 4)
                for slot, named in enumerate(batch.coordinators):
                    assert named.node_id == coordinator_id(slot, 1)
                    assert (named.host, named.port) == (HOST, scene.ports[named.node_id])
                for slot, group_id in enumerate(GROUPS):
                    one = await connection.ask(FindCoordinatorRequest(key=group_id), 2)
                    assert (one.node_id, one.port) == (
                        coordinator_id(slot, 1),
                        scene.ports[coordinator_id(slot, 1)],
                    )
                transaction = await connection.ask(FindCoordinatorRequest(key="t", key_type=1), 2)
                assert not is_coordinator(transaction.node_id)


async def test_members_are_served_by_the_owner_of_their_group(tmp_path: Path) -> None:
    """Each process has its groups; commits reach the cluster through it."""
    async with open_scene(tmp_path) as scene:
        for slot, group_id in enumerate(GROUPS):
            async with scene.connect(slot) as connection:
                client = GroupClient(connection, group_id)
                joined = await client.enter()
                codes = await client.commit(
                    {0: 5}, member_id=joined.member_id, epoch=joined.generation_id
                )
                assert codes == {0: ErrorCode.NONE}
                assert (await client.fetch_offsets())[0] == 5


async def test_a_member_elsewhere_is_sent_to_the_owner(tmp_path: Path) -> None:
    """The code is the one that makes every client look for its coordinator."""
    async with open_scene(tmp_path) as scene:
        for slot, group_id in enumerate(reversed(GROUPS)):
            async with scene.connect(slot) as connection:
                client = GroupClient(connection, group_id)
                answers = [
                    await client.join(),
                    *[
                        await connection.ask(request)
                        for request in (
                            SyncGroupRequest(
                                group_id=group_id, generation_id=1, member_id="m", assignments=()
                            ),
                            HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m"),
                            LeaveGroupRequest(
                                group_id=group_id, members=(MemberIdentity(member_id="m"),)
                            ),
                            ConsumerGroupHeartbeatRequest(
                                group_id=group_id, member_id="m", member_epoch=3
                            ),
                        )
                    ],
                ]
                codes = {answer.error_code for answer in answers}
                assert codes == {ErrorCode.NOT_COORDINATOR}
                assert await client.commit({0: 5}) == {0: ErrorCode.NOT_COORDINATOR}


async def test_a_member_that_does_not_go_elsewhere_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka knows the address of its coordinator's id from Metadata, and asks for that again
    only once it is disconnected: the id may have another address now."""
    monkeypatch.setattr(fleet_group_service, "STRAY_S", 0.0)
    beat = HeartbeatRequest(group_id=GROUPS[1], generation_id=1, member_id="m")
    async with open_scene(tmp_path) as scene:
        async with scene.connect(0) as connection:
            assert (await connection.ask(beat)).error_code == ErrorCode.NOT_COORDINATOR
            with pytest.raises(UpstreamError):
                await connection.ask(beat)
        async with scene.connect(0) as connection:
            client = GroupClient(connection, GROUPS[1])
            assert await client.commit({0: 5}) == {0: ErrorCode.NOT_COORDINATOR}
            with pytest.raises(UpstreamError):
                await client.commit({0: 5})
        monkeypatch.setattr(fleet_group_service, "STRAY_PAUSE_S", 0.0)
        async with scene.connect(0) as connection:  # its group may have been here meanwhile
            for _ in range(2):
                assert (await connection.ask(beat)).error_code == ErrorCode.NOT_COORDINATOR


async def test_admin_clients_get_the_same_answers_at_every_node(tmp_path: Path) -> None:
    """The process that has a group is asked, and asks the cluster by the client's connection."""
    described_natively = ConsumerGroupDescribeRequest(
        group_ids=GROUPS, include_authorized_operations=False
    )
    async with open_scene(tmp_path) as scene:
        async with scene.connect(0) as first, scene.connect(1) as second:
            for connection, group_id in zip((first, second), GROUPS, strict=True):
                client = GroupClient(connection, group_id)
                joined = await client.enter()
                await client.commit({0: 5}, member_id=joined.member_id, epoch=joined.generation_id)
            fetched = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in GROUPS)
            for request, version in (
                (DescribeGroupsRequest(groups=GROUPS), 0),
                (described_natively, 0),
                (OffsetFetchRequest(groups=fetched), 8),
                (OffsetFetchRequest(group_id=GROUPS[0], topics=None), 5),
                (OffsetFetchRequest(group_id=GROUPS[1], topics=None), 5),
                (ListConfigResourcesRequest(), 1),
            ):
                answers = [
                    by_group(await connection.ask(request, version))
                    for connection in (first, second)
                ]
                assert answers[0] == answers[1]
                assert "error_code=16" not in str(answers), answers
            described = by_group(await second.ask(DescribeGroupsRequest(groups=GROUPS), 0))
            assert [group.group_state for group in described] == ["Stable", "Stable"]
            offsets = by_group(await first.ask(OffsetFetchRequest(groups=fetched), 8))
            stored = [group.topics[0].partitions[0].committed_offset for group in offsets]
            assert stored == [5, 5]


def by_group(answer: Any) -> Any:
    """What an answer has of each group, by its id; otherwise the answer itself."""
    for name in ("groups", "results"):
        if groups := getattr(answer, name, ()):
            return sorted(groups, key=lambda group: str(group.group_id))
    return answer


async def test_members_of_other_processes_fetch_their_offsets_at_their_owner(
    tmp_path: Path,
) -> None:
    """No other process knows their epochs."""
    async with open_scene(tmp_path) as scene, scene.connect(0) as connection:
        group = OffsetFetchRequestGroup(
            group_id=GROUPS[1], member_id="m", member_epoch=1, topics=None
        )
        answer = await connection.ask(OffsetFetchRequest(groups=(group,)), 9)
        assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR


async def test_an_owner_that_does_not_answer_is_said_to_load(tmp_path: Path) -> None:
    """NOT_COORDINATOR would end the process of librdkafka's admin client."""
    async with open_scene(tmp_path) as scene, scene.connect(0) as connection:
        (tmp_path / SLOTS_FOLDER / "1" / SOCKET_NAME).unlink()
        one = await connection.ask(OffsetFetchRequest(group_id=GROUPS[1], topics=None), 5)
        assert one.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        both = await connection.ask(DescribeGroupsRequest(groups=GROUPS), 0)
        codes = {group.group_id: group.error_code for group in both.groups}
        assert codes[GROUPS[1]] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert codes[GROUPS[0]] == ErrorCode.NONE


@pytest.mark.parametrize("slot", range(SLOTS))
async def test_a_group_that_moves_is_said_to_load(slot: int, tmp_path: Path) -> None:
    """Admin clients are answered so by the process that is about to serve it and by others."""
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    async with open_scene(tmp_path) as scene, scene.connect(slot) as connection:
        scene.members[1].serving.clear()
        one = await connection.ask(OffsetFetchRequest(group_id=GROUPS[1], topics=None), 5)
        assert one.error_code == loading
        both = await connection.ask(DescribeGroupsRequest(groups=GROUPS), 0)
        codes = {group.group_id: group.error_code for group in both.groups}
        assert codes == {GROUPS[0]: ErrorCode.NONE, GROUPS[1]: loading}
        resources = tuple(
            DescribeConfigsResource(
                resource_type=ConfigResourceType.GROUP, resource_name=name, configuration_keys=None
            )
            for name in GROUPS
        )
        described = await connection.ask(DescribeConfigsRequest(resources=resources), 4)
        configs = {result.resource_name: result.error_code for result in described.results}
        assert configs == codes


async def test_a_group_is_listed_once(tmp_path: Path) -> None:
    """The coordinator node of its owner lists it: clients ask every node that Metadata names."""
    async with open_scene(tmp_path) as scene:
        async with scene.connect(0) as first, scene.connect(1) as second:
            for connection, group_id in zip((first, second), GROUPS, strict=True):
                await GroupClient(connection, group_id).enter()
            lists = {}
            for node_id, port in scene.ports.items():
                async with await BrokerConnection.open(HOST, port) as connection:
                    answer = await connection.ask(ListGroupsRequest(), 2)
                    lists[node_id] = [group.group_id for group in answer.groups]
        assert lists == {
            1: [],
            coordinator_id(0, 1): [GROUPS[0]],
            coordinator_id(1, 1): [GROUPS[1]],
        }
        assert {broker_of(node_id) for node_id in lists} == {1}


class ListingService(FleetGroupService):
    """A process with one group, in front of a cluster with two."""

    def __init__(self) -> None:
        """A request without anything else that it needs."""
        self._member = FleetMember(slot=0, slots=1, shards=SHARDS)

        async def all_ids() -> tuple[str, ...]:
            return ("seen",)

        self._groups = cast(Groups, SimpleNamespace(views=SimpleNamespace(all_ids=all_ids)))

    async def _usual(self, request: GroupRequest) -> Struct:
        listed = (
            ListedGroup(group_id=one, protocol_type="") for one in ("seen", "never asked for")
        )
        return ListGroupsResponse(groups=tuple(listed))


async def test_another_gateway_is_told_only_of_groups_that_operators_see_here() -> None:
    """The cluster may have others, which no client has ever asked for."""
    names = {}
    for client_id in ("admin", FLEET_CLIENT_ID):
        request = lone_request(ListGroupsRequest(), 2)
        request.header = replace(request.header, client_id=client_id)
        request.upstream = cast(Upstream, SimpleNamespace(is_at_coordinator_node=True))
        answer = await cast(Awaitable[ListGroupsResponse], ListingService().answer(request))
        names[client_id] = [group.group_id for group in answer.groups]
    assert names == {"admin": ["seen", "never asked for"], FLEET_CLIENT_ID: ["seen"]}


def test_an_end_of_a_transaction_does_not_end_commits() -> None:
    """Whether an earlier transaction of the producer was aborted, only another process may know."""
    service = FleetGroupService.__new__(FleetGroupService)  # without what it could be told to
    service.record_transaction_end(
        EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=0, committed=True)
    )


async def test_configs_of_every_group_are_there_at_every_process(tmp_path: Path) -> None:
    """Clients ask any process for them."""
    codes = {ErrorCode.NONE}
    async with open_scene(tmp_path) as scene, scene.connect(0) as connection:
        for group_id in GROUPS:
            resource = DescribeConfigsResource(
                resource_type=ConfigResourceType.GROUP,
                resource_name=group_id,
                configuration_keys=None,
            )
            described = await connection.ask(DescribeConfigsRequest(resources=(resource,)), 4)
            assert {result.error_code for result in described.results} == codes
            config = AlterableConfig(
                name="consumer.session.timeout.ms", config_operation=0, value="50000"
            )
            change = AlterConfigsResource(
                resource_type=ConfigResourceType.GROUP, resource_name=group_id, configs=(config,)
            )
            altered = await connection.ask(
                IncrementalAlterConfigsRequest(resources=(change,), validate_only=False), 1
            )
            assert {result.error_code for result in altered.responses} == codes


@pytest.mark.parametrize(
    "message",
    [
        ShareGroupHeartbeatRequest(group_id=GROUPS[1], member_id="m", member_epoch=0),
        StreamsGroupHeartbeatRequest(
            group_id=GROUPS[1], member_id="m", member_epoch=0, endpoint_information_epoch=0
        ),
    ],
)
def test_members_of_the_clusters_own_groups_are_sent_to_the_owner(
    message: Struct,
) -> None:
    """The owner remembers that there is such a group."""
    service = FleetGroupService.__new__(FleetGroupService)
    service._member = MEMBER
    answer: Any = service.answer(lone_request(message, 1))
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("key", ABOUT_GROUPS, ids=lambda key: key.name)
def test_a_process_is_chosen_for_every_api_about_groups(
    key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a choice, whichever process the client has reached would answer."""
    monkeypatch.setattr(GroupService, "answer", lambda _service, _request: None)
    service = FleetGroupService.__new__(FleetGroupService)
    service._member, service.answers = MEMBER, AnswerCounts()
    api = APIS[key]
    assert api.request is not None
    version = api.versions[-1]
    service.answer(lone_request(sample(api.request, version), version))
