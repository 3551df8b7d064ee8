"""Short histories of one partition's owners and offsets, one call per event."""

from gateway.events.event import GatewayEvent
from gateway.events.member_events import GrantEnded, PartitionsAssigned
from gateway.events.offset_events import (
    CommittedOffsets,
    FetchedOffset,
    OffsetsCommitted,
    OffsetsFetched,
)
from tests.support.event_writer import START_MS, EventWriter

TOPIC = "t"


class OffsetHistory:
    """The history of partition 0 of TOPIC. Times are seconds since START_MS."""

    def __init__(self, group_id: str) -> None:
        self.writer = EventWriter(group_id=group_id)

    def gets(self, at_s: float, member_id: str) -> None:
        """The engine grants the partition."""
        event = PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={TOPIC: (0,)})
        self.writer.tell(at_s, event)

    def gives(self, at_s: float, member_id: str) -> None:
        """The member releases the partition."""
        event = GrantEnded(
            cause="revoked", member_id=member_id, member_epoch=1, partitions={TOPIC: (0,)}
        )
        self.writer.tell(at_s, event)

    def fetches(self, at_s: float, member_id: str, offset: int) -> None:
        """The member fetches its start offset."""
        fetched = FetchedOffset(partition=0, offset=offset)
        self.happens(at_s, OffsetsFetched(member_id=member_id, starts={TOPIC: (fetched,)}))

    def commits(
        self,
        at_s: float,
        member_id: str,
        *offsets: int,
        since_s: float | None = None,
        told_s: float | None = None,
        in_transaction: bool = False,
    ) -> None:
        """The member commits several times: first at `since_s`, last at `at_s`. The gateway reports
        this at `told_s`."""
        committed = CommittedOffsets(
            partition=0,
            commits=len(offsets),
            first=offsets[0],
            lowest=min(offsets),
            last=offsets[-1],
        )
        event = OffsetsCommitted(
            member_id=member_id,
            is_transactional=in_transaction,
            from_ms=START_MS + round((at_s if since_s is None else since_s) * 1000),
            to_ms=START_MS + round(at_s * 1000),
            offsets={TOPIC: (committed,)},
        )
        self.happens(at_s if told_s is None else told_s, event)

    def happens(self, at_s: float, event: GatewayEvent) -> None:
        """An event that the state log does not contain."""
        self.writer.beside(at_s, event)
