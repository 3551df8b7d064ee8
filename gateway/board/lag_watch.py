"""Asks the cluster where partitions end, a bounded number at a time, and judges the steps of
migrations by what it learns."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

import structlog
import trio

from gateway.board.lags import Lags, Partition, UnreportedCommits
from gateway.board.steps import Steps
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.events.event import EventSink
from kafka_codecs.list_offsets import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

MEASURE_INTERVAL_S = 10.0
"""How often partitions are asked for."""
PARTITIONS_AT_ONCE_MAX = 1_000
"""Partitions per measurement, whatever the number of groups."""
ANSWER_S = 5.0
"""How long one broker may take."""

Hold = Callable[[str, str], Awaitable[object]]
"""Puts a group on hold, for a reason."""

log = structlog.get_logger()


class LagWatch:
    """Measures the lag of groups until cancelled."""

    def __init__(
        self,
        lags: Lags,
        steps: Steps,
        *,
        cluster: Cluster,
        now_ms: Callable[[], int],
        emit: EventSink,
        hold: Hold | None,
        unreported_commits: UnreportedCommits,
    ) -> None:
        """`hold`: None leaves groups as they are when a step has made it worse."""
        self._lags = lags
        self._steps = steps
        self._cluster = cluster
        self._now_ms = now_ms
        self._emit = emit
        self._hold = hold
        self._unreported_commits = unreported_commits

    async def run(self) -> None:
        """Measure at regular intervals."""
        while True:
            await trio.sleep(MEASURE_INTERVAL_S)
            await self.measure()

    async def measure(self) -> None:
        """Measure once, and judge the steps that are due."""
        turns = self._lags.take_turns(PARTITIONS_AT_ONCE_MAX, self._steps.groups_to_judge)
        wanted = {partition for partitions in turns.values() for partition in partitions}
        ends = await self._ends_of(wanted) if wanted else {}
        self._lags.take_ends(turns, ends, self._now_ms(), self._unreported_commits)
        for group_id, event in tuple(self._steps.judge(self._now_ms())):
            self._emit(event, group_id)
            if self._hold is not None:
                await self._hold(group_id, event.name)

    async def _ends_of(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Where the partitions end, as far as the cluster says."""
        leaders = self._cluster.leaders_of({topic for topic, _ in partitions})
        by_leader: defaultdict[int, list[Partition]] = defaultdict(list)
        for partition in partitions:
            if (leader := leaders.get(partition)) is not None:
                by_leader[leader].append(partition)
        ends: dict[Partition, int] = {}

        async def ask(node_id: int, led: Iterable[Partition]) -> None:
            try:
                with trio.fail_after(ANSWER_S):
                    answer = await self._cluster.ask(node_id, _request(led))
            except (UpstreamError, trio.TooSlowError) as error:
                log.debug("ends_unknown", node_id=node_id, reason=str(error))
            else:
                ends.update(_ends_in(answer))

        async with trio.open_nursery() as nursery:
            for node_id, led_partitions in by_leader.items():
                nursery.start_soon(ask, node_id, led_partitions)
        return ends


def _request(partitions: Iterable[Partition]) -> ListOffsetsRequest:
    by_topic: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, number in sorted(partitions):
        by_topic[topic].append(ListOffsetsPartition(partition_index=number, timestamp=LATEST))
    return ListOffsetsRequest(
        topics=tuple(
            ListOffsetsTopic(name=name, partitions=tuple(numbers))
            for name, numbers in by_topic.items()
        )
    )


def _ends_in(answer: ListOffsetsResponse) -> Iterable[tuple[Partition, int]]:
    for topic in answer.topics:
        for partition in topic.partitions:
            if not partition.error_code and partition.offset >= 0:
                yield (topic.name, partition.partition_index), partition.offset
