"""Admin requests about hosted groups and the cluster's own. test_group_service.py covers them over
sockets, for each kind of hosted group."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.events import ConfigChange, ConfigOperation, ConfigsReceived
from coordinator.interface.records import ClassicGroupMetadata, ClassicGroupValue
from gateway.cluster.errors import UpstreamError
from gateway.groups.group_drivers import GroupRefused
from gateway.hosting.answers import RefusalReason
from gateway.quotas.shares import ShareRule
from gateway.requests import answer_budget
from gateway.requests.admin_apis import AdminApis
from gateway.requests.coordinators import Coordinators
from gateway.state_log.log import StateLogError
from gateway.state_log.memory import MemoryLog
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.support.configs import SESSION
from tests.support.gateway import Gateway
from tests.support.group_client import GroupClient
from tests.support.hosted_groups import GROUP, HostedGroups, hosted_groups, lone_request
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import offset_stage

EMPTY_GROUP = (
    ClassicGroupMetadata(
        value=ClassicGroupValue(protocol_type="consumer", generation=1, protocol=None, leader=None)
    ),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway in front of a fake broker, and a client of one group."""

    broker: OffsetBroker
    gateway: Gateway
    client: GroupClient

    async def list_groups(self, **filters: tuple[str, ...]) -> dict[str, tuple[str, str]]:
        """The state and type of each listed group."""
        answer: ListGroupsResponse = await self.client.connection.ask(
            ListGroupsRequest(**filters),  # type: ignore[arg-type]
            5,
        )
        return {group.group_id: (group.group_state, group.group_type) for group in answer.groups}

    async def delete_groups(self, *group_ids: str) -> dict[str, int]:
        """The error codes of a DeleteGroups."""
        answer: DeleteGroupsResponse = await self.client.connection.ask(
            DeleteGroupsRequest(groups_names=group_ids), 2
        )
        return {result.group_id: result.error_code for result in answer.results}


@asynccontextmanager
async def open_scene(**how: Any) -> AsyncIterator[Scene]:
    """A scene for the length of the block."""
    async with offset_stage(**how) as stage:
        yield Scene(stage.broker, stage.gateway, stage.client)


def admin_of(groups: HostedGroups) -> AdminApis:
    """The admin APIs of these groups, without anchors."""
    return AdminApis(
        groups.table,
        Coordinators(groups.cluster, ShareRule()),
        shows_members=True,
    )


async def test_one_answer_describes_hosted_groups_and_the_clusters_own() -> None:
    """Groups are in the order of the request."""
    async with open_scene() as scene:
        await scene.client.enter()
        scene.broker.occupants = ("direct",)
        answer: DescribeGroupsResponse = await scene.client.connection.ask(
            DescribeGroupsRequest(groups=("theirs", "g")), 5
        )
        theirs, ours = answer.groups
        assert [member.client_id for member in theirs.members] == ["direct"]
        assert [member.client_id for member in ours.members] == ["client"]


async def test_an_empty_hosted_group_is_described_as_in_the_cluster() -> None:
    """The group's consumers returned to the cluster after its anchor had left. A lingering anchor
    is not shown."""
    async with open_scene() as scene:
        joined = await scene.client.enter()
        await scene.client.leave(joined.member_id)
        described = await scene.client.describe(5)
        assert (described.group_state, described.members) == ("Empty", ())
        scene.broker.coordinator.group("g").remove_member()
        scene.broker.occupants = ("moved-on",)
        described = await scene.client.describe(5)
        assert [member.client_id for member in described.members] == ["moved-on"]
        assert described.group_state == "Stable"


async def test_a_group_with_only_a_predecessors_anchor_is_an_empty_consumer_group() -> None:
    """The predecessor died before its log had the group."""
    log, log_without_group = MemoryLog(), MemoryLog()
    log_without_group.id = log.id
    async with open_scene(state_log=log) as before:
        joined = await before.client.enter()
        await before.client.leave(joined.member_id)
    async with open_scene(state_log=log_without_group, broker=before.broker) as scene:
        assert scene.broker.coordinator.group("g").member_id
        described = await scene.client.describe(5)
        assert (described.group_state, described.members) == ("Empty", ())
        assert described.protocol_type == "consumer"


async def test_a_cluster_that_lists_no_types_has_classic_groups() -> None:
    """Filters apply to them as to hosted groups."""
    async with open_scene() as scene:
        await scene.client.enter()
        scene.broker.listed = (
            ListedGroup(group_id="theirs", protocol_type="connect", group_state="Stable"),
            ListedGroup(group_id="g", protocol_type="", group_state="Empty"),
        )
        assert await scene.list_groups() == {
            "theirs": ("Stable", "classic"),
            "g": ("Stable", "classic"),
        }
        assert set(await scene.list_groups(states_filter=("STABLE",))) == {"theirs", "g"}
        assert set(await scene.list_groups(types_filter=("classic",))) == {"theirs", "g"}
        assert await scene.list_groups(types_filter=("consumer",)) == {}


async def test_a_list_asks_the_cluster_only_for_its_own_groups() -> None:
    """The gateway knows the coordinator of each hosted group since its first request."""
    async with open_scene() as scene:
        await scene.client.enter()
        asked = len(scene.broker.seen)
        for _ in range(3):
            assert set(await scene.list_groups()) == {"g"}
        assert [header.api_key for header in scene.broker.seen[asked:]] == [ApiKey.LIST_GROUPS] * 3


async def test_a_live_group_is_described_without_the_cluster() -> None:
    """The cluster would describe the anchor. It is asked only whether the client may see it."""
    async with open_scene() as scene:
        await scene.client.enter()
        assert (await scene.client.describe(5)).group_state == "Stable"
        asked = len(scene.broker.seen)
        assert (await scene.client.describe(5)).group_state == "Stable"
        assert ApiKey.DESCRIBE_GROUPS not in {h.api_key for h in scene.broker.seen[asked:]}


async def test_an_empty_group_is_listed_until_it_is_deleted() -> None:
    """This holds for both kinds, even if the group is not in memory, and also if the cluster knows
    offsets without a protocol. A group whose members moved to the cluster is listed as there."""
    log = MemoryLog()
    async with open_scene(state_log=log) as scene:
        scene.broker.known_groups = frozenset({"g", "native"})
        native = GroupClient(scene.client.connection, "native")
        joined = await scene.client.enter()
        await native.native("n")
        assert await scene.list_groups() == {
            "g": ("Stable", "classic"),
            "native": ("Stable", "consumer"),
        }
        await scene.client.leave(joined.member_id)
        await native.native("n", -1)
        empty = {"g": ("Empty", "classic"), "native": ("Empty", "consumer")}
        assert await scene.list_groups() == empty
        assert await scene.list_groups(states_filter=("eMPTY", "nonsense")) == empty
        assert set(await scene.list_groups(types_filter=("Consumer", ""))) == {"native"}
        assert await scene.list_groups(types_filter=("nonsense",)) == {}
    scene.broker.coordinator.groups.clear()
    async with open_scene(broker=scene.broker, state_log=log) as scene:
        live = ListedGroup(group_id="g", protocol_type="consumer", group_state="Stable")
        offsets_only = ListedGroup(
            group_id="native", protocol_type="", group_state="Empty", group_type="classic"
        )
        scene.broker.listed, scene.broker.occupants = (live, offsets_only), ("moved-on",)
        assert await scene.list_groups() == {
            "g": ("Stable", "classic"),
            "native": ("Empty", "consumer"),
        }
        answer = await scene.client.connection.ask(ListGroupsRequest(), 5)
        assert [group.protocol_type for group in answer.groups] == ["consumer", "consumer"]
        scene.broker.listed = scene.broker.occupants = ()
        assert await scene.delete_groups("g", "native") == {"g": 0, "native": 0}
        assert await scene.list_groups() == {}


async def test_a_group_that_was_deleted_in_the_cluster_is_dead() -> None:
    """Both kinds are dead, as in Kafka, although the state log still has them."""
    log = MemoryLog()
    async with open_scene(state_log=log) as scene:
        native = GroupClient(scene.client.connection, "native")
        joined = await scene.client.enter()
        await native.native("n")
        await scene.client.leave(joined.member_id)
        await native.native("n", -1)
        assert await describe_both(scene) == ["Empty", "Empty", ErrorCode.NONE]
        assert set(await scene.list_groups()) == {"g", "native"}
    scene.broker.coordinator.groups.clear()
    async with open_scene(broker=scene.broker, state_log=log) as scene:
        assert await describe_both(scene) == ["Dead", "Dead", ErrorCode.GROUP_ID_NOT_FOUND]
        assert await scene.list_groups() == {}
        unknown = ErrorCode.GROUP_ID_NOT_FOUND
        assert await scene.delete_groups("g", "native") == {"g": unknown, "native": unknown}
        assert not await log.group_ids()


async def describe_both(scene: Scene) -> list[str | int]:
    """The states of both groups, and the error code of the native one, as tools see them."""
    ask = scene.client.connection.ask
    of_both: DescribeGroupsResponse = await ask(DescribeGroupsRequest(groups=("g", "native")), 5)
    asked = ConsumerGroupDescribeRequest(group_ids=("native",), include_authorized_operations=False)
    (native,) = (await ask(asked, 1)).groups
    return [*(group.group_state for group in of_both.groups), native.error_code]


async def test_a_setting_makes_consumer_groups_look_dead_as_kafka_does() -> None:
    """This concerns DescribeGroups only, which answers with an error from v6 on."""
    async with open_scene(shows_members=False) as scene:
        await scene.client.enter()
        assert (await scene.client.describe(5)).group_state == "Stable"
        await scene.client.native("n")
        for version in (0, 5):
            shown = await scene.client.describe(version)
            assert (shown.group_state, shown.error_code, shown.members) == ("Dead", 0, ())
        shown = await scene.client.describe(6)
        assert (shown.group_state, shown.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
        assert shown.error_message == "Group g is not a classic group."
        assert len((await scene.client.described_as_consumer_group()).members) == 2


async def test_an_unknown_group_is_described_as_dead_or_with_an_error() -> None:
    """From v6 on it is an error, even in front of a broker that does not support v6.
    ConsumerGroupDescribe always answers with an error, which differs for classic groups and empty
    names."""
    async with open_scene() as scene:
        await scene.client.enter()
        never = GroupClient(scene.client.connection, "never")
        assert (await never.describe(5)).error_code == 0
        shown = await never.describe(6)
        assert (shown.group_state, shown.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
        assert shown.error_message == "Group never not found."
        shown_as_consumer = await never.described_as_consumer_group()
        assert shown_as_consumer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert shown_as_consumer.error_message == "Group never not found."
        classic = await scene.client.described_as_consumer_group()
        assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert classic.error_message == "Group g is not a consumer group."
        nameless = GroupClient(scene.client.connection, "")
        assert (
            await nameless.described_as_consumer_group()
        ).error_code == ErrorCode.INVALID_GROUP_ID
        assert (await nameless.describe(6)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_groups_are_listed_while_one_of_them_is_being_loaded(
    autojump_clock: MockClock,
) -> None:
    """DEV D69: the list shows the state in its log, which cannot change before. Its members cannot
    be described yet, because their partitions are not known."""
    async with hosted_groups() as before:
        await before.native("n")
        await before.native("n", group="idle")
        await before.native("n", -1, group="idle")
        changes = (ConfigChange(name=SESSION, operation=ConfigOperation.SET, value="50000"),)
        await before.ask(
            lambda token, _: ConfigsReceived(token=token, changes=changes, validate_only=False)
        )
        log = before.log
    async with hosted_groups(log=log) as groups:
        groups.cluster.failure = UpstreamError("its topics cannot be looked at")
        await groups.table.resume()
        await wait_all_tasks_blocked()
        admin = admin_of(groups)
        listed: Any = await admin.answer(lone_request(ListGroupsRequest(), 5), ListGroupsRequest())
        assert listed.error_code == ErrorCode.NONE
        assert {group.group_id: group.group_state for group in listed.groups} == {
            GROUP: "Stable",
            "idle": "Empty",
        }
        assert await groups.table.views.groups_with_configs() == (GROUP,)
        request = DescribeGroupsRequest(groups=(GROUP, "idle"))
        described: Any = await admin.answer(lone_request(request, 5), request)
        assert [group.error_code for group in described.groups] == [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NONE,
        ]


async def test_an_unreadable_log_hides_only_its_group(
    autojump_clock: MockClock,
) -> None:
    """The group may exist, so the client must ask again."""
    async with hosted_groups() as groups:
        await groups.native("n")
        await groups.native("m", group="gone")
        await groups.native("m", -1, group="gone")
        await trio.sleep(2)
        groups.log.is_unreadable = True
        admin = admin_of(groups)
        asked = (GROUP, "gone")
        expected = {GROUP: 0, "gone": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        described = DescribeGroupsRequest(groups=asked)
        answer: Any = await admin.answer(lone_request(described, 6), described)
        codes = {group.group_id: group.error_code for group in answer.groups}
        assert codes == expected
        wanted = ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=False)
        answer = await admin.answer(lone_request(wanted, 1), wanted)
        codes = {group.group_id: group.error_code for group in answer.groups}
        assert codes == expected
        deleted = DeleteGroupsRequest(groups_names=asked)
        answer = await admin.answer(lone_request(deleted, 2), deleted)
        assert [result.error_code for result in answer.results] == [
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ]
        answer = await admin.answer(lone_request(ListGroupsRequest(), 5), ListGroupsRequest())
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_group_that_is_being_loaded_is_not_dead(autojump_clock: MockClock) -> None:
    """The answer is a retriable error until the log can be read."""
    async with hosted_groups() as groups:
        groups.log.is_unreadable = True
        await groups.native("n")
        with pytest.raises(StateLogError):
            await groups.table.views.view(GROUP)
        groups.log.is_unreadable = False
        await trio.sleep(2)
        await groups.native("n")
        view = await groups.table.views.view(GROUP)
        assert view is not None
        assert view[0].state == "Stable"


async def test_a_group_with_members_is_not_deleted() -> None:
    """The members may be hosted, or direct members in the cluster."""
    async with open_scene() as scene:
        scene.broker.known_groups = frozenset({"other"})
        await scene.client.enter()
        codes = await scene.delete_groups("g", "other", "never")
        assert codes == {
            "g": ErrorCode.NON_EMPTY_GROUP,
            "other": 0,
            "never": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert scene.broker.deleted == [("other", "never")]
        asked = DeleteGroupsRequest(groups_names=("g",))
        answer: DeleteGroupsResponse = await scene.client.connection.ask(asked, 3)
        assert answer.results[0].error_message == "the group has 1 members"


async def test_an_empty_group_is_deleted_here_and_in_the_cluster() -> None:
    """A group without commits is unknown to the cluster, which is no error."""
    async with open_scene() as scene:
        for known in (frozenset({"g"}), frozenset[str]()):
            scene.broker.known_groups = known
            joined = await scene.client.enter()
            await scene.client.leave(joined.member_id)
            assert (await scene.client.describe(5)).group_state == "Empty"
            assert await scene.delete_groups("g") == {"g": 0}
            assert (await scene.client.describe(5)).group_state == "Dead"
        assert await scene.delete_groups("g") == {"g": ErrorCode.GROUP_ID_NOT_FOUND}


async def test_a_predecessors_anchor_is_hidden() -> None:
    """The gateway was killed after the last member left, and restarted with its log. The group is
    empty and can be deleted. Another gateway's anchor is shown."""
    log = MemoryLog()
    async with open_scene(state_log=log) as scene:
        broker = scene.broker
        joined = await scene.client.enter()
        await scene.client.leave(joined.member_id)
    assert broker.coordinator.group("g").member_id
    async with open_scene(broker=broker) as scene:
        assert await scene.list_groups() == {"g": ("Stable", "classic")}
        described = await scene.client.describe(5)
        assert (described.protocol_type, len(described.members)) == ("consumer", 1)
    async with open_scene(broker=broker, state_log=log) as scene:
        assert await scene.list_groups() == {"g": ("Empty", "classic")}
        assert await scene.list_groups(states_filter=("Stable",)) == {}
        described = await scene.client.describe(5)
        assert (described.group_state, described.members) == ("Empty", ())
        broker.known_groups = frozenset({"g"})
        assert await scene.delete_groups("g") == {"g": 0}
        assert await scene.list_groups() == {}


async def test_a_deletion_is_refused_beyond_max_groups() -> None:
    """An empty group must be loaded for its deletion, an unknown one need not be."""
    log = MemoryLog()
    await log.append("empty", EMPTY_GROUP)
    async with open_scene(max_groups=1, state_log=log) as scene:
        await scene.client.enter()
        assert await scene.delete_groups("empty") == {"empty": ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert scene.broker.deleted == []
        assert await scene.delete_groups("never") == {"never": ErrorCode.GROUP_ID_NOT_FOUND}


async def test_a_repeated_group_is_described_once() -> None:
    """A name of 8 KB, 2,000 times, must not produce an answer of a gigabyte."""
    async with open_scene() as scene:
        await scene.client.enter()
        names = ("g", "never", "g", "g", "never")
        answer: DescribeGroupsResponse = await scene.client.connection.ask(
            DescribeGroupsRequest(groups=names), 5
        )
        assert [group.group_id for group in answer.groups] == ["g", "never"]
        native = await scene.client.connection.ask(
            ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False), 1
        )
        assert [group.group_id for group in native.groups] == ["g", "never"]
        assert list(await scene.delete_groups(*names)) == ["g", "never"]


async def test_groups_beyond_the_limit_of_an_answer_are_not_described(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is checked before the answer is built, and later groups are not loaded."""
    monkeypatch.setattr(answer_budget, "ANSWER_BYTES_MAX", 1_000)
    names = tuple(f"g{number}" for number in range(20))
    async with hosted_groups(max_groups=len(names)) as groups:
        for name in names:
            await groups.native("n", group=name)
        viewed: list[str] = []
        view = groups.table.views.view

        async def noting(group_id: str) -> Any:
            viewed.append(group_id)
            return await view(group_id)

        monkeypatch.setattr(groups.table.views, "view", noting)
        admin = admin_of(groups)
        for asked, version in (
            (DescribeGroupsRequest(groups=names), 6),
            (ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False), 1),
        ):
            viewed.clear()
            answer: Any = await admin.answer(lone_request(asked, version), asked)
            codes = [group.error_code for group in answer.groups]
            assert codes[0] == 0
            assert codes[-1] == ErrorCode.UNKNOWN_SERVER_ERROR
            assert "ask about fewer groups" in answer.groups[-1].error_message
            assert len(viewed) == codes.count(0) + 1 < len(names)


async def test_a_deletion_waits_for_the_anchor_to_leave(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster would refuse to delete a group with members."""

    async def stays(_group_id: str) -> None:
        raise GroupRefused(RefusalReason.NOT_ANCHORED, "its coordinator is away")

    async with hosted_groups() as groups:
        await groups.native("n")
        await groups.native("n", -1)
        monkeypatch.setattr(groups.table.drivers, "is_held", lambda _group_id: True)
        monkeypatch.setattr(groups.table.drivers, "drop_anchor", stays)
        deleted = DeleteGroupsRequest(groups_names=(GROUP,))
        answer: Any = await admin_of(groups).answer(lone_request(deleted, 2), deleted)
        assert [result.error_code for result in answer.results] == [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ]
