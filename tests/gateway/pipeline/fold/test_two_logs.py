"""Two gateways with logs of their own host a group one after the other, and their clocks differ."""

from gateway.events.event import GatewayEvent
from gateway.events.member_events import PartitionsAssigned, PartitionsReleased
from tests.support.event_writer import EventWriter, seconds
from tests.support.folded_lines import folded

PARTITION = {"t": (0,)}


def gets(member_id: str, epoch: int) -> GatewayEvent:
    return PartitionsAssigned(member_id=member_id, member_epoch=epoch, partitions=PARTITION)


def gives(member_id: str, epoch: int) -> GatewayEvent:
    return PartitionsReleased(member_id=member_id, member_epoch=epoch, partitions=PARTITION)


def handover(*, behind_s: float, epoch: int, apart_s: float = 1) -> list[tuple[object, ...]]:
    """The rows of a partition that a gives up at second 10 in epoch 5, at the first gateway, and
    that b gets so much later, at a gateway whose clock is behind."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    first.tell(10, gives("a", 5))
    second.tell(10 + apart_s - behind_s, gets("b", epoch))
    second.tell(100 - behind_s, gives("b", epoch + 1))
    rows = folded(*first.lines, *second.lines).ownership
    return [
        (row.kind, row.member_id, seconds(row.from_ms), seconds(row.to_ms))
        for row in rows
        if row.kind != "owner" and row.to_ms is not None
    ]


def test_epochs_tell_the_order_whatever_the_clocks_say() -> None:
    """The second log goes on with a higher epoch, so all of it came later."""
    assert handover(behind_s=5, epoch=6) == []
    assert handover(behind_s=0, epoch=6) == [("gap", None, 10, 11)]


def test_without_epochs_a_handover_is_unsure() -> None:
    """The second log begins with the epochs of the first one: by their clocks the partition had two
    owners, or none, but neither is known."""
    assert handover(behind_s=5, epoch=1) == [("unsure", "b", 6, 10)]
    assert handover(behind_s=0, epoch=1) == [("unsure", "b", 10, 11), ("gap", None, 10, 11)]
    # Even the grant seems to come before that of the first owner.
    assert handover(behind_s=15, epoch=1) == [("unsure", "b", -4, 10)]


def test_clocks_differ_by_a_minute_at_most() -> None:
    """Beyond that they tell the order, and an overlap is one."""
    assert handover(behind_s=0, epoch=1, apart_s=61) == [("gap", None, 10, 71)]
    assert handover(behind_s=0, epoch=6, apart_s=-61)[0][0] != "unsure"
