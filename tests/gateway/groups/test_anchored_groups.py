"""Groups whose anchors look up the holder: real groups and a fake cluster."""

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from coordinator.interface.events import OffsetCommitEnded
from gateway.anchor.anchor import GroupHolder
from gateway.cluster.errors import UpstreamError
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupTaken
from gateway.groups.anchored_groups import AnchoredGroups
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from tests.support.hosted_groups import GROUP, HostedGroups, hosted_groups
from tests.support.offset_stage import offset_stage


class Anchored:
    """The groups as anchors see them, and their events."""

    def __init__(self, hosted: HostedGroups) -> None:
        self.told: list[tuple[str | None, GatewayEvent]] = []
        self.cluster = hosted.cluster
        self.cluster.spoken = {
            ApiKey.DESCRIBE_GROUPS: (0, 5),
            ApiKey.JOIN_GROUP: (0, 9),
            ApiKey.SYNC_GROUP: (0, 5),
            ApiKey.HEARTBEAT: (0, 4),
            ApiKey.OFFSET_COMMIT: (0, 8),
        }
        self.let_in()
        self.groups = AnchoredGroups(hosted.registry, hosted.hosting, self._tell)

    def _tell(self, event: GatewayEvent, group_id: str | None = None) -> None:
        self.told.append((group_id, event))

    def let_in(self, *client_ids: str) -> None:
        """Only these consumers are in the group in the cluster."""
        members = tuple(
            DescribedGroupMember(
                member_id=f"{client_id}-1",
                client_id=client_id,
                client_host="/",
                member_metadata=b"",
                member_assignment=b"",
            )
            for client_id in client_ids
        )
        described = DescribedGroup(
            group_id=GROUP, protocol_type="consumer", protocol_data="range", members=members
        )
        answer = DescribeGroupsResponse(groups=(described,))
        self.cluster.answers = {DescribeGroupsRequest: lambda _: answer}

    async def holder(self) -> GroupHolder:
        """Look up the holder of the group."""
        with capture_logs():
            return await self.groups.holder_of(GROUP, is_replaced=False)


async def test_a_free_group_keeps_its_members(autojump_clock: MockClock) -> None:
    """The members notice nothing."""
    async with hosted_groups() as on:
        anchored = Anchored(on)
        await on.lone_classic_member()
        assert await anchored.holder() is GroupHolder.OURS
        assert anchored.groups.is_live(GROUP)
        assert anchored.told == []


async def test_a_silent_cluster_takes_no_group_away(
    autojump_clock: MockClock,
) -> None:
    """Fencing the members because of a short outage would stop them needlessly."""
    async with hosted_groups() as on:
        anchored = Anchored(on)
        await on.lone_classic_member()
        on.cluster.failure = UpstreamError("no broker answers")
        assert await anchored.holder() is GroupHolder.UNKNOWN
        assert anchored.groups.is_live(GROUP)
        assert anchored.told == []


async def test_members_are_fenced_when_another_coordinator_has_the_group(
    autojump_clock: MockClock,
) -> None:
    """Two coordinators would assign the partitions twice. An event reports each fence."""
    async with hosted_groups() as on:
        anchored = Anchored(on)
        joined = await on.lone_classic_member()
        anchored.let_in("intruder")
        assert await anchored.holder() is GroupHolder.THEIRS
        ((group_id, event),) = anchored.told
        assert group_id == GROUP
        assert isinstance(event, GroupTaken)
        assert "intruder" in event.reason
        assert (await on.beat(joined.member_id, joined.generation)).error != 0
        assert not anchored.groups.is_live(GROUP)


async def test_losing_a_group_without_members_is_not_reported(autojump_clock: MockClock) -> None:
    """No client loses anything."""
    async with hosted_groups() as on:
        anchored = Anchored(on)
        anchored.let_in("consumer")
        assert await anchored.holder() is GroupHolder.THEIRS
        assert anchored.told == []


async def test_the_end_of_a_commit_lets_its_partitions_move(autojump_clock: MockClock) -> None:
    """The anchor reports the end of a commit whose answer was lost."""
    async with hosted_groups() as on:
        anchored = Anchored(on)
        first = await on.native("first")
        token, verdict = await on.commit("first", first.member_epoch, {"foo": (0, 1, 2)})
        assert verdict.error == 0
        second = await on.native("second")
        await trio.sleep(2)  # past the assignment interval
        told = await on.native("first", first.member_epoch)
        assert told.assignment is not None
        left = {"foo": sorted(partition.number for partition in told.assignment)}
        assert len(left["foo"]) < 3
        await on.native("first", told.member_epoch, owned=left)
        second = await on.native("second", second.member_epoch, owned={})
        assert not second.assignment
        anchored.groups.end_commit(GROUP, OffsetCommitEnded(commit=token))
        assert (await on.native("second", second.member_epoch, owned={})).assignment


async def test_an_answer_with_partitions_leaves_only_under_an_anchor() -> None:
    """An admin has just removed it. Until it is back, a consumer that bypasses the gateway could
    consume the same partitions."""
    async with offset_stage() as stage:
        joined = await stage.client.join(version=3)
        in_cluster = stage.broker.coordinator.group("g")
        in_cluster.remove_member()
        synced = await stage.client.sync(joined, {joined.member_id: {"numbers": (0,)}})
        assert synced.error_code == ErrorCode.NONE
        assert in_cluster.member_id
