"""What admin tools see where hosted groups and the cluster's own meet; over sockets, and each kind
of hosted group, see test_group_service.py."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import trio

from kafka_codecs.apis import ApiKey
from kafka_codecs.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.support.fake_broker import running_fake_broker
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import GroupClient, group_client
from tests.support.offset_broker import OffsetBroker

COORDINATOR_NOT_AVAILABLE = 15
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway before a broker that obeys, and a client of one group."""

    broker: OffsetBroker
    gateway: Gateway
    client: GroupClient

    async def listed(self, **filters: tuple[str, ...]) -> dict[str, tuple[str, str]]:
        """State and type of each listed group."""
        answer: ListGroupsResponse = await self.client.connection.ask(
            ListGroupsRequest(**filters),  # type: ignore[arg-type]
            5,
        )
        return {group.group_id: (group.group_state, group.group_type) for group in answer.groups}

    async def deleted(self, *group_ids: str) -> dict[str, int]:
        """The error codes of a DeleteGroups."""
        answer: DeleteGroupsResponse = await self.client.connection.ask(
            DeleteGroupsRequest(groups_names=group_ids), 2
        )
        return {result.group_id: result.error_code for result in answer.results}


@asynccontextmanager
async def open_scene(max_groups: int = 16) -> AsyncIterator[Scene]:
    """Everything that a test here needs, for the length of the block."""
    broker = OffsetBroker()
    with trio.fail_after(10):
        async with (
            running_fake_broker(broker),
            whole_gateway([broker.address], max_groups=max_groups) as gateway,
            group_client(gateway.address, "g") as client,
        ):
            yield Scene(broker, gateway, client)


async def test_hosted_groups_and_the_clusters_own_are_described_in_one_answer() -> None:
    """In the order that they were asked for."""
    async with open_scene() as scene:
        await scene.client.enter()
        scene.broker.occupants = ("direct",)
        answer: DescribeGroupsResponse = await scene.client.connection.ask(
            DescribeGroupsRequest(groups=("theirs", "g")), 5
        )
        theirs, ours = answer.groups
        assert [member.client_id for member in theirs.members] == ["direct"]
        assert [member.client_id for member in ours.members] == ["client"]


async def test_a_group_that_is_empty_here_is_described_as_the_cluster_sees_it() -> None:
    """It was hosted; then its consumers were pointed at the cluster again."""
    async with open_scene() as scene:
        joined = await scene.client.enter()
        await scene.client.leave(joined.member_id)
        assert (await scene.client.described(5)).group_state == "Empty"
        scene.broker.occupants = ("moved-on",)
        described = await scene.client.described(5)
        assert [member.client_id for member in described.members] == ["moved-on"]
        assert described.group_state == "Stable"


async def test_a_cluster_that_lists_no_states_is_filtered_all_the_same() -> None:
    """Its groups have no state then, and pass no filter; ours do."""
    async with open_scene() as scene:
        await scene.client.enter()
        scene.broker.listed = (
            ListedGroup(group_id="theirs", protocol_type="connect", group_state="Stable"),
            ListedGroup(group_id="g", protocol_type="", group_state="Empty"),
        )
        assert await scene.listed() == {"theirs": ("Stable", ""), "g": ("Stable", "classic")}
        assert set(await scene.listed(states_filter=("STABLE",))) == {"theirs", "g"}
        assert set(await scene.listed(types_filter=("classic",))) == {"theirs", "g"}
        assert await scene.listed(types_filter=("consumer",)) == {}


async def test_a_group_that_is_empty_here_is_listed_as_what_it_was() -> None:
    """To the cluster it is offsets without a protocol, or unknown; with its own members, theirs."""
    async with open_scene() as scene:
        joined = await scene.client.enter()
        await scene.client.leave(joined.member_id)
        assert await scene.listed() == {"g": ("Empty", "classic")}
        offsets_only = ListedGroup(
            group_id="g", protocol_type="", group_state="Empty", group_type="classic"
        )
        scene.broker.listed = (offsets_only,)
        answer = await scene.client.connection.ask(ListGroupsRequest(), 5)
        assert [group.protocol_type for group in answer.groups] == ["consumer"]
        scene.broker.listed = (
            replace(offsets_only, protocol_type="consumer", group_state="Stable"),
        )
        assert (await scene.listed())["g"][0] == "Stable"


async def test_a_list_asks_the_cluster_for_its_own_groups_and_nothing_else() -> None:
    """However many groups are hosted: where each belongs is known since its first request."""
    async with open_scene() as scene:
        await scene.client.enter()
        asked = len(scene.broker.seen)
        for _ in range(3):
            assert set(await scene.listed()) == {"g"}
        assert [header.api_key for header in scene.broker.seen[asked:]] == [ApiKey.LIST_GROUPS] * 3


async def test_a_group_with_members_is_not_deleted() -> None:
    """Neither here nor, behind our back, in the cluster."""
    async with open_scene() as scene:
        scene.broker.known_groups = frozenset({"other"})
        await scene.client.enter()
        codes = await scene.deleted("g", "other", "never")
        assert codes == {"g": NON_EMPTY_GROUP, "other": 0, "never": GROUP_ID_NOT_FOUND}
        assert scene.broker.deleted == [("other", "never")]


async def test_an_empty_group_is_deleted_here_and_in_the_cluster() -> None:
    """One that never committed is unknown there, which is no error: it was here."""
    async with open_scene() as scene:
        for known in (frozenset({"g"}), frozenset[str]()):
            scene.broker.known_groups = known
            joined = await scene.client.enter()
            await scene.client.leave(joined.member_id)
            assert (await scene.client.described(5)).group_state == "Empty"
            assert await scene.deleted("g") == {"g": 0}
            assert (await scene.client.described(5)).group_state == "Dead"
        assert await scene.deleted("g") == {"g": GROUP_ID_NOT_FOUND}


async def test_too_many_groups_refuse_a_deletion() -> None:
    """The group cannot be taken up to look whether it is empty."""
    async with open_scene(max_groups=1) as scene:
        await scene.client.enter()
        assert await scene.deleted("another") == {"another": COORDINATOR_NOT_AVAILABLE}
        assert scene.broker.deleted == []
