"""The members behind the ids in the ownership maps."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.report.model import MemberName, OwnershipMap
from gateway.pipeline.report.numbers.chosen import Key


def names(
    timeline: DataFrame, drawn: Mapping[Key, OwnershipMap]
) -> Mapping[Key, tuple[MemberName, ...]]:
    """The members in the maps, by their first ownership."""
    members = {key: _drawn(each) for key, each in drawn.items()}
    wanted = timeline.sparkSession.createDataFrame(
        [(*key, member_id) for key, ids in members.items() for member_id in ids],
        "cluster_id string, group_id string, member_id string",
    )
    last = F.max_by(F.struct("instance_id", "protocol"), "from_ms")
    key = [*GROUP, "member_id"]
    found = timeline.join(F.broadcast(wanted), key).groupBy(*key).agg(last.alias("last")).collect()
    known = {(row.cluster_id, row.group_id, row.member_id): row.last for row in found}
    return {
        group: tuple(_name(member_id, known.get((*group, member_id))) for member_id in ids)
        for group, ids in members.items()
    }


def _drawn(told: OwnershipMap) -> list[str]:
    """The ids in a map, each once."""
    intervals = sorted(
        (interval.from_ms, story.topic, story.partition, member_id)
        for story in told.partitions
        for interval in story.intervals
        for member_id in (interval.other_member_id, interval.member_id)
        if member_id is not None
    )
    return list(dict.fromkeys(member_id for *_, member_id in intervals))


def _name(member_id: str, last: Row | None) -> MemberName:
    if last is None:
        return MemberName(member_id=member_id, instance_id=None, protocol=None)
    return MemberName(member_id=member_id, instance_id=last.instance_id, protocol=last.protocol)
