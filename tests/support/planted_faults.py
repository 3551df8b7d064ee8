"""Files of events with a fault of each kind."""

from pathlib import Path

from gateway.events.group_events import GroupCreated
from gateway.events.member_events import GrantEnded, PartitionsAssigned
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from tests.support.event_writer import START_MS, EventWriter
from tests.support.offset_history import OffsetHistory


def plant(folder: Path) -> None:
    """Write a file with a sound group, one with faulty groups, and one of garbage."""
    folder.mkdir()
    (folder / "sound").write_text(_text(told_less(100)))
    (folder / "planted").write_text(_text(faulty(), unreadable(), told_less(40)))
    (folder / "garbage").write_bytes(bytes(range(256)) * 20)


def _text(*scribes: EventWriter) -> str:
    return "".join(f"{line}\n" for writer in scribes for line in writer.lines)


def told_less(told: int) -> EventWriter:
    """An owner stores 100, and the next one is told this offset."""
    it = OffsetHistory(f"told {told}")
    it.writer.process_id = it.writer.group_id
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gives(3, "a")
    it.gets(4, "b")
    it.fetches(5, "b", told)
    return it.writer


def commit(member_id: str, offset: int, at_s: int) -> OffsetsCommitted:
    stored = CommittedOffsets(partition=1, commits=1, first=offset, lowest=offset, last=offset)
    at_ms = START_MS + at_s * 1000
    return OffsetsCommitted(
        member_id=member_id,
        is_transactional=False,
        from_ms=at_ms,
        to_ms=at_ms,
        offsets={"t": (stored,)},
    )


def assigned(member_id: str, *numbers: int) -> PartitionsAssigned:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": numbers})


def faulty() -> EventWriter:
    """Partition 0 has two owners, the offset of partition 1 goes back, three lines are missing, and
    one number has two contents."""
    writer = EventWriter(group_id="faulty", process_id="faulty")
    writer.tell(1, GroupCreated(kind="consumer"), assigned("a", 0, 1))
    writer.beside(2, commit("a", 100, 2))
    released = GrantEnded(cause="revoked", member_id="a", member_epoch=1, partitions={"t": (1,)})
    writer.tell(3, assigned("b", 0), released, assigned("b", 1))
    writer.beside(5, commit("b", 40, 4))
    writer.lose(3)
    writer.tell(
        6, GrantEnded(cause="revoked", member_id="b", member_epoch=1, partitions={"t": (0, 1)})
    )
    writer.lines.append(writer.lines[-1].replace('"b"', '"c"'))
    return writer


def unreadable() -> EventWriter:
    """The last event is unreadable: its number is known, but not the partition that it assigned."""
    writer = EventWriter(group_id="unreadable", process_id="unreadable")
    writer.tell(1, GroupCreated(kind="consumer"), assigned("a", 0))
    writer.lines[-1] = writer.lines[-1].replace('"schema_version":1', '"schema_version":2')
    return writer
