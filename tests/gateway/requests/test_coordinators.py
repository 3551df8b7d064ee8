"""The listener that answers for a group."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import pytest
import trio
from trio.testing import MockClock

from gateway.cluster.errors import UpstreamError
from gateway.data_path.errors import UpstreamAway
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from gateway.requests import coordinators as module
from gateway.requests.coordinators import (
    ASK_AGAIN_S,
    FIRST_FIND_VERSION_WITH_BATCHES,
    LOOK_PATIENCE_S,
    Coordinators,
)
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.support.hosted_groups import ScriptedCluster, lone_request


class Away:
    """The client's own broker, which is unreachable."""

    versions: ClassVar = {ApiKey.FIND_COORDINATOR: (0, 6), ApiKey.DESCRIBE_GROUPS: (0, 5)}

    async def ask(self, message: Struct, version: int) -> Any:
        raise UpstreamAway


def request_at(node_id: int) -> GroupRequest:
    """A request of a client at the listener of this broker."""
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    request = lone_request(message, 4)
    return replace(request, upstream=cast(Upstream, Away()), node_id=node_id)


async def is_at(coordinators: Coordinators, group_id: str, node_id: int) -> bool:
    """Whether the group's coordinator is this broker. Asks the cluster where the gateway does."""
    lately = coordinators.is_at_lately(group_id, request_at(node_id))
    return await coordinators.node_of(group_id, None) == node_id if lately is None else lately


async def test_a_group_is_only_at_its_upstream_coordinator() -> None:
    """Commits use the client's own connection."""
    cluster = ScriptedCluster()
    cluster.coordinators["g"] = 2
    coordinators = Coordinators(cluster, ShareRule())
    assert await is_at(coordinators, "g", 2)
    assert not await is_at(coordinators, "g", 1)
    assert not await is_at(coordinators, "g", 3)


def test_any_broker_of_the_embedded_cluster_will_do() -> None:
    """Each of them accepts every group."""
    coordinators = Coordinators(ScriptedCluster(), ShareRule())
    embedded = lone_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert coordinators.is_at_lately("g", embedded)


async def found_together(coordinators: Coordinators, count: int) -> list[int | UpstreamError]:
    """The answers to this many clients that ask together."""
    answers: list[int | UpstreamError] = []

    async def ask() -> None:
        try:
            answers.append(await coordinators.node_of("g", None))
        except UpstreamError as error:
            answers.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(ask)
    return answers


async def test_members_that_join_at_once_share_one_lookup() -> None:
    """A thousand lookups would hold each other up until their time is over."""
    cluster = ScriptedCluster()
    coordinators = Coordinators(cluster, ShareRule())
    assert await found_together(coordinators, 100) == [1] * 100
    assert cluster.coordinator_questions == ["g"]
    cluster.coordinators["g"] = 2
    assert await coordinators.node_of("g", None) == 2


async def test_members_that_share_a_lookup_share_its_failure() -> None:
    """Each gets an error of its own. The next one asks again."""
    cluster = ScriptedCluster()
    cluster.failure = UpstreamError("away")
    coordinators = Coordinators(cluster, ShareRule())
    answers = await found_together(coordinators, 10)
    assert [str(answer) for answer in answers] == ["away"] * 10
    assert len({id(answer) for answer in answers}) == 10
    assert cluster.coordinator_questions == ["g"]
    cluster.failure = None
    assert await coordinators.node_of("g", None) == 1


async def test_a_lookup_continues_without_the_member_that_began_it(
    autojump_clock: MockClock,
) -> None:
    """Its client may disconnect. Another member then asks."""
    cluster = ScriptedCluster()
    cluster.hangs = True
    coordinators = Coordinators(cluster, ShareRule())
    async with trio.open_nursery() as nursery:
        first = trio.CancelScope()

        async def ask() -> None:
            with first:
                await coordinators.node_of("g", None)

        nursery.start_soon(ask)
        await trio.sleep(1)
        nursery.start_soon(found_together, coordinators, 10)
        await trio.sleep(1)
        assert cluster.coordinator_questions == ["g"]
        cluster.hangs = False
        first.cancel()
    assert cluster.coordinator_questions == ["g", "g"]


async def test_the_cluster_is_asked_once_while_clients_stay() -> None:
    """Every heartbeat needs the coordinator."""
    cluster = ScriptedCluster()
    coordinators = Coordinators(cluster, ShareRule())
    for _ in range(5):
        assert await is_at(coordinators, "g", 1)
    assert cluster.coordinator_questions == ["g"]


async def test_a_moved_coordinator_is_found(autojump_clock: MockClock) -> None:
    """A client at the new broker shows that the coordinator moved. The cluster is asked again, but
    not for each request."""
    cluster = ScriptedCluster()
    coordinators = Coordinators(cluster, ShareRule())
    assert await is_at(coordinators, "g", 1)
    cluster.coordinators["g"] = 2
    for _ in range(5):
        assert not await is_at(coordinators, "g", 2)
    assert cluster.coordinator_questions == ["g"]
    await trio.sleep(ASK_AGAIN_S)
    assert await is_at(coordinators, "g", 2)
    assert not await is_at(coordinators, "g", 1)
    assert cluster.coordinator_questions == ["g", "g"]


async def test_a_silent_cluster_gives_no_answer() -> None:
    """The coordinator is then unknown."""
    cluster = ScriptedCluster()
    cluster.failure = UpstreamError("nobody listens")
    with pytest.raises(UpstreamError):
        await is_at(Coordinators(cluster, ShareRule()), "g", 1)


async def test_requests_do_not_each_wait_for_a_hanging_cluster(
    autojump_clock: MockClock,
) -> None:
    """A member's heartbeats wait behind all its commits. The cluster is asked again after a short
    time."""
    cluster = ScriptedCluster()
    coordinators = Coordinators(cluster, ShareRule())
    cluster.hangs = True
    for group_id in ("g", "h", "g", "h"):
        assert await coordinators.nodes_instead((group_id,), request_at(1)) == {}
    assert trio.current_time() == pytest.approx(LOOK_PATIENCE_S)
    await trio.sleep(ASK_AGAIN_S)
    cluster.hangs = False
    cluster.coordinators["g"] = 2
    assert await coordinators.nodes_instead(("g",), request_at(1)) == {"g": 2}


async def test_a_limited_number_of_coordinators_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients can invent group ids."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 3)
    cluster = ScriptedCluster()
    coordinators = Coordinators(cluster, ShareRule())
    for group_id in ("a", "b", "c", "d"):
        assert await is_at(coordinators, group_id, 1)
    assert await is_at(coordinators, "d", 1)
    assert cluster.coordinator_questions == ["a", "b", "c", "d"]
    assert await is_at(coordinators, "a", 1)
    assert cluster.coordinator_questions == ["a", "b", "c", "d", "a"]


async def test_one_user_leaves_the_coordinators_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user may invent any number of groups."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 4)
    coordinators = Coordinators(ScriptedCluster(), ShareRule())
    await coordinators.node_of("a", QuotaKey("alice", is_principal=True))
    for number in range(9):
        await coordinators.node_of(f"g{number}", QuotaKey("mallory", is_principal=True))
    assert coordinators.last_known("a") == 1
    assert [coordinators.last_known(f"g{number}") for number in (6, 7, 8)] == [None, 1, 1]


async def test_the_last_known_coordinator_needs_no_request() -> None:
    """Lists have thousands of groups."""
    cluster = ScriptedCluster()
    coordinators = Coordinators(cluster, ShareRule())
    assert coordinators.last_known("g") is None
    await is_at(coordinators, "g", 1)
    cluster.coordinators["g"] = 2
    assert coordinators.last_known("g") == 1
    assert cluster.coordinator_questions == ["g"]


async def test_many_coordinators_are_looked_up_together() -> None:
    """Their broker is down, and another one answers. A request per group would exhaust a member's
    patience."""
    asked: list[tuple[str, ...]] = []

    class Counting(ScriptedCluster):
        async def coordinators_of(
            self, group_ids: Iterable[str], *, doubtful: int | None = None
        ) -> Mapping[str, int | UpstreamError]:
            assert doubtful == 1
            asked.append(tuple(group_ids))
            return await super().coordinators_of(asked[-1], doubtful=doubtful)

    cluster = Counting()
    cluster.coordinators = dict.fromkeys("abc", 2)
    cluster.addresses = {2: ("other", 9092)}
    message = FindCoordinatorRequest(coordinator_keys=("a", "b", "c"))
    request = replace(lone_request(message, 4), upstream=cast(Upstream, Away()))
    answer = await Coordinators(cluster, ShareRule()).find(request, message)
    assert [(coordinator.key, coordinator.node_id) for coordinator in answer.coordinators] == [
        ("a", 2),
        ("b", 2),
        ("c", 2),
    ]
    assert asked == [("a", "b", "c")]


class Told:
    """The client's own broker, which knows the coordinator."""

    versions: ClassVar = Away.versions

    async def ask(self, message: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        if version < FIRST_FIND_VERSION_WITH_BATCHES:
            return FindCoordinatorResponse(node_id=2, host="b", port=9092)
        coordinators = [
            Coordinator(key=k, node_id=2, host="b", port=1) for k in message.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=tuple(coordinators))


async def find(coordinators: Coordinators, group_id: str, version: int) -> None:
    """A client asks where its group is."""
    batch = version >= FIRST_FIND_VERSION_WITH_BATCHES
    asked = {"coordinator_keys": (group_id,)} if batch else {"key": group_id}
    message = FindCoordinatorRequest(**asked)
    request = replace(lone_request(message, version), upstream=cast(Upstream, Told()))
    await coordinators.find(request, message)


@pytest.mark.parametrize("version", [3, 4])
async def test_a_client_that_has_asked_needs_no_lookup(version: int) -> None:
    """Every member asks before it joins, and a thousand may join together."""
    cluster = ScriptedCluster()
    coordinators = Coordinators(cluster, ShareRule())
    await find(coordinators, "g", version)
    assert coordinators.is_at_lately("g", request_at(2)) is True
    assert cluster.coordinator_questions == []


async def test_a_clients_answer_does_not_outweigh_a_lookup() -> None:
    """The broker that a client asks may be the last to learn of a new coordinator."""
    cluster = ScriptedCluster()
    coordinators = Coordinators(cluster, ShareRule())
    assert await is_at(coordinators, "g", 1)
    await find(coordinators, "g", 4)
    assert coordinators.is_at_lately("g", request_at(1)) is True


async def test_a_clients_answer_may_be_old() -> None:
    """A member elsewhere is a reason to ask the cluster."""
    coordinators = Coordinators(ScriptedCluster(), ShareRule())
    await find(coordinators, "g", 4)
    assert coordinators.is_at_lately("g", request_at(1)) is None


async def test_clients_questions_displace_no_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may ask about any number of names."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 2)
    coordinators = Coordinators(ScriptedCluster(), ShareRule())
    for group_id in ("a", "b"):
        await coordinators.node_of(group_id, None)
    await find(coordinators, "c", 4)
    assert coordinators.last_known("a") == coordinators.last_known("b") == 1
    assert coordinators.last_known("c") is None
