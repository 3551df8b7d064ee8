"""The measurements of the ends of partitions."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, cast

from gateway.board.group_stats import AllGroupStats
from gateway.board.lag_watch import PARTITIONS_AT_ONCE_MAX, LagWatch
from gateway.board.lags import Lags
from gateway.board.steps import Steps
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.data_path.traffic import Traffic
from gateway.events.event import GatewayEvent
from gateway.events.group_events import ClientFlapped
from kafka_codecs.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.gateway.board.test_lags import offsets_committed
from tests.support.event_lines import envelope_of


class FakeCluster:
    """Partition n of each topic ends at 100 + n, and is led by broker n % 2. Broker 1 may be
    away."""

    def __init__(self, *, is_away: bool = False, error_code: int = 0) -> None:
        self.is_away = is_away
        self.error_code = error_code
        self.asked: defaultdict[int, int] = defaultdict(int)

    def leaders_of(self, names: Collection[str]) -> Mapping[tuple[str, int], int]:
        """The leaders."""
        return {(name, number): number % 2 for name in names for number in range(5_000)}

    async def ask(self, node_id: int, message: ListOffsetsRequest) -> ListOffsetsResponse:
        """The ends."""
        if self.is_away and node_id == 1:
            raise UpstreamError("away")
        self.asked[node_id] += sum(len(topic.partitions) for topic in message.topics)
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=partition.partition_index,
                            error_code=self.error_code,
                            offset=100 + partition.partition_index,
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in message.topics
            )
        )


class Stage:
    """A watch of one group."""

    def __init__(self, cluster: FakeCluster, *, partitions: int = 2, holds: bool = False) -> None:
        self.lags = Lags()
        group_stats = AllGroupStats(lambda _: "Stable")
        self.steps = Steps(self.lags, group_stats, Traffic(), share=0.3)
        self.told: list[tuple[str | None, GatewayEvent]] = []
        self.held: list[tuple[str, str]] = []
        self.unreported: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self.watch = LagWatch(
            self.lags,
            self.steps,
            cluster=cast("Cluster", cluster),
            now_ms=lambda: 5_000,
            emit=lambda event, group_id=None, owner=None: self.told.append(  # noqa: ARG005
                (group_id, event)
            ),
            hold=self._hold if holds else None,
            unreported_commits=self.unreported.__getitem__,
        )
        for number in range(partitions):
            self.lags.take(envelope_of(offsets_committed("t", **{f"p{number}": 90}), group_id="g"))

    async def _hold(self, *reason: Any) -> None:
        self.held.append(reason)


async def test_each_leader_is_asked_once_for_its_partitions() -> None:
    """The answers are the lag."""
    cluster = FakeCluster()
    stage = Stage(cluster)
    await stage.watch.measure()
    assert stage.lags.total("g", 5_000) == 10 + 11
    assert cluster.asked == {0: 1, 1: 1}


async def test_commits_that_no_event_reports_yet_count() -> None:
    """Events report them only every few seconds, in which a group may have consumed much."""
    stage = Stage(FakeCluster())
    stage.unreported["g"] = {("t", 1): 100, ("t", 7): 1}
    await stage.watch.measure()
    assert stage.lags.total("g", 5_000) == 10 + 1


async def test_a_look_asks_for_a_bounded_number_of_partitions() -> None:
    """The rest follows with the next one."""
    cluster = FakeCluster()
    stage = Stage(cluster, partitions=PARTITIONS_AT_ONCE_MAX + 10)
    await stage.watch.measure()
    assert sum(cluster.asked.values()) == PARTITIONS_AT_ONCE_MAX
    assert stage.lags.total("g", 5_000) is None
    await stage.watch.measure()
    assert stage.lags.total("g", 5_000) is not None


async def test_a_broker_that_is_away_holds_up_no_other() -> None:
    """What is known counts."""
    stage = Stage(FakeCluster(is_away=True))
    await stage.watch.measure()
    assert stage.lags.total("g", 5_000) == 10


async def test_without_the_permission_the_lag_is_unknown() -> None:
    """No step is judged by an unknown lag."""
    stage = Stage(FakeCluster(error_code=29))
    await stage.watch.measure()
    assert stage.lags.total("g", 5_000) is None


async def test_a_group_that_has_become_worse_is_reported_and_held() -> None:
    """The group is held only if a setting asks for it."""
    flapped = ClientFlapped(client_id="c", switches=3, protocol="classic")
    for holds in (False, True):
        stage = Stage(FakeCluster(), holds=holds)
        stage.steps._flapped.append(("g", flapped))
        await stage.watch.measure()
        assert stage.told == [("g", flapped)]
        assert stage.held == [("g", "client_flapped")] * holds
