"""Claims of members that contradict the engine's grants. Each is a finding, even without an
overlap.

A member may claim a partition for a while after losing it, because it learns of the loss later. Its
claim is therefore compared with the latest grant of the partition, released or not. A commit may
also be on its way while another member gets the partition, for a second at most.

While the cluster serves a group, no event tells its grants. After an adoption the owner of a
partition is therefore unknown until the engine grants it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.events.group_events import GroupAdopted, GroupCreated, GroupForwarded
from gateway.pipeline.history import History
from gateway.pipeline.tables.granted import TopicPartition
from gateway.pipeline.tables.offset_history import IN_FLIGHT_MS_MAX
from gateway.pipeline.tables.ownership import OwnershipRow
from gateway.pipeline.tables.row import Row
from gateway.pipeline.tables.stated import Claims


@dataclass(slots=True, kw_only=True)
class DifferenceRow(Row):
    """One claim of a member without a grant."""

    topic: str
    partition: int
    member_id: str
    """The member that claimed the partition."""
    granted_to: str | None
    """The member that the partition was last granted to; null if there was no grant. A null is
    reported only for groups whose creation was seen."""
    said_by: Literal["statement", "commit"]
    at_ms: int


def differences(
    history: History, ownership: Sequence[OwnershipRow], claims: Claims
) -> list[DifferenceRow]:
    """See `DifferenceRow`. Of a member's claims in one round, the first and the last are
    compared."""
    grants = _grants(ownership)
    is_whole = bool(history.of(GroupCreated))
    away_ms = [told.at_ms for told in history.of(GroupForwarded, GroupAdopted)]
    found: list[DifferenceRow] = []
    for partition, some in claims.items():
        of_partition = grants.get(partition, [])
        if not of_partition and not is_whole:
            continue
        times = [grant[0] for grant in of_partition]
        for claim in some:
            for at_ms in sorted({claim.from_ms, claim.to_ms}):
                before, behind = bisect_left(times, at_ms), bisect_right(times, at_ms)
                was_away = bisect_right(away_ms, at_ms)
                if was_away and (
                    not before or of_partition[before - 1][1] <= away_ms[was_away - 1]
                ):
                    continue  # the cluster may have granted it since
                granted_to = of_partition[before - 1][2] if before else None
                # Events of one millisecond may have happened in either order.
                granted_now = [grant[2] for grant in of_partition[before:behind]]
                if claim.member_id in (granted_to, *granted_now):
                    continue
                sent_ms = at_ms - IN_FLIGHT_MS_MAX
                if claim.is_commit and any(
                    ended_ms >= sent_ms and owner_id == claim.member_id
                    for _begun_ms, ended_ms, owner_id in of_partition[:before]
                ):
                    continue
                if granted_to is not None or is_whole:
                    found.append(
                        DifferenceRow(
                            cluster_id=history.cluster_id,
                            group_id=history.group_id,
                            topic=partition[0],
                            partition=partition[1],
                            member_id=claim.member_id,
                            granted_to=granted_to,
                            said_by="commit" if claim.is_commit else "statement",
                            at_ms=at_ms,
                        )
                    )
    return found


def _grants(
    ownership: Sequence[OwnershipRow],
) -> dict[TopicPartition, list[tuple[int, float, str]]]:
    """The beginning, the end and the owner of each granted interval. Of several at one moment, the
    one that lasts longest comes last."""
    found: dict[TopicPartition, list[tuple[int, float, str]]] = {}
    for row in ownership:
        if row.basis == "granted" and row.kind == "owner" and row.member_id is not None:
            to_ms = float("inf") if row.to_ms is None else row.to_ms
            grant = (row.from_ms or 0, to_ms, row.member_id)
            found.setdefault((row.topic, row.partition), []).append(grant)
    for some in found.values():
        some.sort()
    return found
