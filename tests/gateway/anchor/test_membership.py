"""The anchor's requests to its coordinator, and the effects of the answers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.anchor.errors import ABOUT_THE_ANCHOR, AnchorDisplaced, AnchorRefused
from gateway.anchor.identity import AnchorIds
from gateway.anchor.membership import SESSION_TIMEOUTS_MS, SOMEBODY_ELSE, Membership
from gateway.cluster.errors import UpstreamError
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from tests.support.anchors import GROUP, NODE, OURS
from tests.support.fake_coordinator import FakeGroup, FakeLinks


class Stage:
    """A membership, and its coordinator."""

    def __init__(self) -> None:
        self.connections = FakeLinks()
        self.node_id = NODE
        self.membership = Membership(
            GROUP,
            gateway=OURS,
            connections=self.connections,
            coordinator_of=self._coordinator_of,
        )

    async def _coordinator_of(self, group_id: str) -> int:
        assert group_id == GROUP
        return self.node_id

    @property
    def group(self) -> FakeGroup:
        """The group in the coordinator."""
        return self.connections.coordinator.group(GROUP)

    @property
    def joins(self) -> Sequence[JoinGroupRequest]:
        """Every JoinGroup so far."""
        return [m for _, m in self.connections.asked if isinstance(m, JoinGroupRequest)]

    async def enter(self) -> AnchorIds:
        """Join the group and complete a generation."""
        ids = await self.membership.join()
        await self.membership.sync(ids)
        return ids


@pytest.fixture
def on() -> Stage:
    return Stage()


async def test_a_free_group_takes_one_join(on: Stage) -> None:
    """The instance id is that of the log, and the metadata identifies the process."""
    ids = await on.enter()
    assert ids == AnchorIds(member_id=on.group.member_id, generation=1)
    (join,) = on.joins
    assert (join.protocol_type, join.group_instance_id) == ("groupferry", "groupferry")
    assert [(each.name, each.metadata) for each in join.protocols] == [("log-1", b"run-1")]
    assert on.group.is_synced


async def test_replacing_a_predecessor_takes_two_joins(on: Stage) -> None:
    """A mere replacement keeps the generation, and old brokers do not store it."""
    on.connections.coordinator.groups[GROUP] = FakeGroup(
        protocol_type="groupferry",
        protocol="log-1",
        instance_id="groupferry",
        member_id="predecessor",
        generation=7,
        is_synced=True,
    )
    ids = await on.membership.join()
    assert ids.generation == 8
    assert [join.member_id for join in on.joins] == ["", ids.member_id]


@pytest.mark.parametrize(
    ("longest_ms", "session_ms"),
    [(300_000, 60_000), (60_000, 60_000), (50_000, 45_000), (30_000, 30_000), (15_000, 10_000)],
)
async def test_the_session_is_the_longest_that_the_cluster_allows(
    on: Stage, longest_ms: int, session_ms: int
) -> None:
    """After INVALID_SESSION_TIMEOUT the next shorter one is tried, and kept for the next join."""
    on.connections.coordinator.longest_session_ms = longest_ms
    await on.enter()
    assert on.membership.session_timeout_ms == session_ms
    tried = len(on.joins)
    await on.membership.join()
    assert {join.session_timeout_ms for join in on.joins[tried:]} == {session_ms}


async def test_each_session_timeout_is_tried_once(on: Stage) -> None:
    """The search ends if the cluster allows none of them."""
    on.connections.coordinator.longest_session_ms = 1
    with pytest.raises(UpstreamError, match="INVALID_SESSION_TIMEOUT"):
        await on.membership.join()
    assert [join.session_timeout_ms for join in on.joins] == list(SESSION_TIMEOUTS_MS)


@pytest.mark.parametrize("code", sorted(SOMEBODY_ELSE), ids=lambda code: code.name)
async def test_a_group_of_others_is_not_joined(on: Stage, code: ErrorCode) -> None:
    """It has consumers, is of another kind, or is full."""
    on.connections.coordinator.refuses_joins_with = code
    with pytest.raises(AnchorRefused, match="another member is in the group"):
        await on.membership.join()


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, 29]
)
async def test_an_unavailable_coordinator_is_no_refusal(on: Stage, code: int) -> None:
    """The group may be free."""
    on.connections.coordinator.refuses_joins_with = code
    with pytest.raises(UpstreamError, match="JoinGroup of the anchor was answered with"):
        await on.membership.join()


async def test_every_request_of_a_removed_member_shows_the_removal(on: Stage) -> None:
    """An admin removed it, and the first request finds out."""
    ids = await on.enter()
    on.group.remove_member()
    for ask in (on.membership.beat, on.membership.sync, on.membership.leave):
        with pytest.raises(AnchorDisplaced, match="UNKNOWN_MEMBER_ID") as displaced:
            await ask(ids)
        assert not displaced.value.is_replaced


async def test_a_replaced_member_is_told_apart_from_a_removed_one(on: Stage) -> None:
    """Another process with the same state log replaced it."""
    ids = await on.enter()
    successor = Stage()
    successor.connections.coordinator = on.connections.coordinator
    await successor.enter()
    with pytest.raises(AnchorDisplaced, match="FENCED_INSTANCE_ID") as displaced:
        await on.membership.beat(ids)
    assert displaced.value.is_replaced
    assert ErrorCode.FENCED_INSTANCE_ID in ABOUT_THE_ANCHOR


async def test_an_older_generation_shows_another_member(on: Stage) -> None:
    """Another client has joined since."""
    ids = await on.enter()
    with pytest.raises(AnchorDisplaced, match="ILLEGAL_GENERATION"):
        await on.membership.beat(replace(ids, generation=ids.generation - 1))


@pytest.mark.parametrize(("leave_version", "names_members"), [(2, False), (3, True), (5, True)])
async def test_a_leaving_member_leaves_the_group_empty(
    on: Stage, leave_version: int, *, names_members: bool
) -> None:
    """The effect is immediate, not at the end of the session. Before v3 the request names only the
    member id."""
    on.connections.versions = {ApiKey.LEAVE_GROUP: (0, leave_version)}
    ids = await on.enter()
    await on.membership.leave(ids)
    assert on.group.member_id == ""
    _, request = on.connections.asked[-1]
    assert isinstance(request, LeaveGroupRequest)
    assert bool(request.members) is names_members


async def test_the_coordinator_is_looked_up_once_until_it_moves(on: Stage) -> None:
    """The anchor forgets it when an answer says that it moved."""
    ids = await on.enter()
    on.node_id = NODE + 1
    await on.membership.beat(ids)
    assert {node_id for node_id, _ in on.connections.asked} == {NODE}
    on.membership.forget_coordinator()
    await on.membership.beat(ids)
    assert on.connections.asked[-1][0] == NODE + 1
