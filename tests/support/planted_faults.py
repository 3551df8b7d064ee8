"""Files of events with a fault of each kind."""

from pathlib import Path

from gateway.events.group_events import GroupCreated
from gateway.events.member_events import PartitionsAssigned, PartitionsReleased
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from tests.support.offset_tales import OffsetTale
from tests.support.scribe import START_MS, Scribe


def plant(folder: Path) -> None:
    """Write a file with a sound group, one with faulty groups, and one of garbage."""
    folder.mkdir()
    (folder / "sound").write_text(_text(told_less(100)))
    (folder / "planted").write_text(_text(faulty(), unreadable(), told_less(40)))
    (folder / "garbage").write_bytes(bytes(range(256)) * 20)


def _text(*scribes: Scribe) -> str:
    return "".join(f"{line}\n" for scribe in scribes for line in scribe.lines)


def told_less(told: int) -> Scribe:
    """An owner stores 100, and the next one is told this offset."""
    it = OffsetTale(f"told {told}")
    it.scribe.process_id = it.scribe.group_id
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gives(3, "a")
    it.gets(4, "b")
    it.fetches(5, "b", told)
    return it.scribe


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


def faulty() -> Scribe:
    """Partition 0 has two owners, the offset of partition 1 goes back, three lines are missing, and
    one number has two contents."""
    scribe = Scribe(group_id="faulty", process_id="faulty")
    scribe.tell(1, GroupCreated(kind="consumer"), assigned("a", 0, 1))
    scribe.beside(2, commit("a", 100, 2))
    released = PartitionsReleased(member_id="a", member_epoch=1, partitions={"t": (1,)})
    scribe.tell(3, assigned("b", 0), released, assigned("b", 1))
    scribe.beside(5, commit("b", 40, 4))
    scribe.lose(3)
    scribe.tell(6, PartitionsReleased(member_id="b", member_epoch=1, partitions={"t": (0, 1)}))
    scribe.lines.append(scribe.lines[-1].replace('"b"', '"c"'))
    return scribe


def unreadable() -> Scribe:
    """The last event is unreadable: its number is known, but not the partition that it assigned."""
    scribe = Scribe(group_id="unreadable", process_id="unreadable")
    scribe.tell(1, GroupCreated(kind="consumer"), assigned("a", 0))
    scribe.lines[-1] = scribe.lines[-1].replace('"schema_version":1', '"schema_version":2')
    return scribe
