"""Two gateways with logs of their own host a group one after the other, and their clocks differ."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    AdoptionStarted,
    GenerationWentBack,
    GroupAdopted,
    GroupCreated,
    GroupTaken,
    HostingStarted,
)
from gateway.events.member_events import GrantEnded, PartitionsAssigned, PartitionsStated
from gateway.events.offset_events import (
    CommittedOffsets,
    FetchedOffset,
    OffsetsCommitted,
    OffsetsFetched,
)
from gateway.pipeline.fold import offsets
from gateway.pipeline.fold.history import LateLineError
from gateway.pipeline.fold.lines import Line
from gateway.pipeline.fold.tables import ALL_ROWS, STATES, Tables, begin
from tests.support.event_writer import GROUP, START_MS, EventWriter, seconds
from tests.support.folded_lines import folded, placed
from tests.support.group_events import EMPTY, STABLE, bump, group_goes

PARTITION = {"t": (0,)}
DAY_S = 24 * 60 * 60


def gets(member_id: str, epoch: int) -> GatewayEvent:
    return PartitionsAssigned(member_id=member_id, member_epoch=epoch, partitions=PARTITION)


def gives(member_id: str, epoch: int) -> GatewayEvent:
    return GrantEnded(
        cause="revoked", member_id=member_id, member_epoch=epoch, partitions=PARTITION
    )


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


@pytest.mark.parametrize("behind_s", [-5, 0, 5])
def test_each_hosting_of_a_group_that_returns_has_its_place(behind_s: float) -> None:
    """The second gateway hosts it in between. A fold that stops after each hosting, as before old
    lines are deleted, goes on with the next one."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    first.tell(10, gives("a", 5))
    second.tell(11 - behind_s, HostingStarted(reason="moves"), gets("b", 6))
    second.tell(DAY_S - behind_s, gives("b", 7))
    hosted = [[*first.lines, *second.lines]]
    taken = len(first.lines)
    first.tell(DAY_S + 1, HostingStarted(reason="returns"), gets("a", 8))
    hosted.append(first.lines[taken:])
    rows = folded(*hosted[0], *hosted[1]).ownership
    assert {row.kind for row in rows if row.from_ms is not None} <= {"owner", "gap"}
    fold = begin("", GROUP)
    for lines in hosted:
        fold.take(placed(*lines))
    assert fold.finish().ownership == rows


def kinds(*writers: EventWriter) -> set[str]:
    """What the partition's rows tell, besides its owners."""
    rows = folded(*(line for writer in writers for line in writer.lines)).ownership
    found: set[str] = {row.kind for row in rows if row.from_ms is not None}
    return found - {"owner"}


def test_epochs_that_begin_again_tell_no_order() -> None:
    """The group is created at the second gateway, after it has been at the first one twice, the
    last time for some seconds. Low epochs do not make that time the later one."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 1), gives("a", 50))
    first.tell(DAY_S, HostingStarted(reason="returns"), gets("a", 51))
    first.tell(DAY_S + 10, gives("a", 52))
    second.tell(
        DAY_S + 11, HostingStarted(reason="moves"), GroupCreated(kind="classic"), gets("b", 1)
    )
    second.tell(DAY_S + 20, bump(2))
    assert "overlap" not in kinds(first, second)


def test_a_group_that_is_created_at_another_gateway_did_not_come_from_there() -> None:
    """Its epochs begin again at the second gateway, whose clock is 5 s behind, after seconds at the
    first one."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    first.tell(10, gives("a", 5))
    second.tell(11 - 5, GroupCreated(kind="classic"), gets("b", 1))
    second.tell(20 - 5, bump(2))
    assert kinds(first, second) == {"unsure"}


def test_what_a_member_states_is_no_epoch_of_the_group() -> None:
    """It may have been away for long."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    first.tell(10, gives("a", 5))
    second.beside(5, PartitionsStated(member_id="b", member_epoch=3, partitions={}))
    second.tell(6, gets("b", 6))
    assert kinds(first, second) == set()


def test_an_adoption_begins_before_its_end_is_told() -> None:
    """Its records tell the generation of the group before `group_adopted`."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    first.tell(10, gives("a", 5))
    second.tell(11 - 5, HostingStarted(reason="moves"), gets("b", 6))
    second.tell(15 - 5, gives("b", 7))
    first.beside(16, AdoptionStarted(members=1))
    first.tell(17, group_goes(EMPTY, STABLE, 8))
    first.beside(18, HostingStarted(reason="it was adopted"), GroupAdopted(held_ms=2_000))
    first.tell(19, gets("a", 9))
    assert kinds(first, second) <= {"gap"}


@pytest.mark.parametrize(
    "loss",
    [GroupTaken(reason="g0"), GenerationWentBack(generation_before=9, generation=1)],
)
def test_a_gateway_that_learns_late_of_a_loss_is_not_called_safe(loss: GatewayEvent) -> None:
    """Its last member may have consumed beside those of the second gateway, whatever the epochs."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    second.tell(11, HostingStarted(reason="free"), gets("b", 6))
    first.beside(30, loss)
    first.tell(30, gives("a", 5))
    second.tell(31, gives("b", 6))
    assert "unsure" in kinds(first, second)


def committed(at_s: float, member_id: str, offset: int) -> OffsetsCommitted:
    """One commit."""
    at_ms = START_MS + round(at_s * 1000)
    told = CommittedOffsets(partition=0, commits=1, first=offset, lowest=offset, last=offset)
    return OffsetsCommitted(
        member_id=member_id,
        is_transactional=False,
        from_ms=at_ms,
        to_ms=at_ms,
        offsets={"t": (told,)},
    )


def commits(writer: EventWriter, at_s: float, member_id: str, offset: int) -> None:
    """Tell of one commit."""
    writer.beside(at_s, committed(at_s, member_id, offset))


@pytest.mark.parametrize(("epoch", "found"), [(6, set()), (1, {"unsure"})])
def test_claims_that_overlap_by_clocks_are_unsure_unless_the_order_is_known(
    epoch: int, found: set[str]
) -> None:
    """The clock of b's gateway is 5 s behind, so b seems to commit before a's last commit."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    commits(first, 2, "a", 90)
    commits(first, 9, "a", 100)
    first.tell(10, gives("a", 5))
    second.tell(11 - 5, gets("b", epoch))
    commits(second, 12 - 5, "b", 110)
    commits(second, 20 - 5, "b", 120)
    rows = folded(*first.lines, *second.lines).ownership
    assert {row.kind for row in rows if row.basis == "stated"} - {"owner"} == found


def fetches(writer: EventWriter, at_s: float, member_id: str, offset: int) -> None:
    """Tell of the answer to a fetch."""
    starts = {"t": (FetchedOffset(partition=0, offset=offset),)}
    writer.beside(at_s, OffsetsFetched(member_id=member_id, starts=starts))


def findings(*writers: EventWriter) -> list[str | None]:
    """What is found about commits, and then about starts."""
    rows = folded(*(line for writer in writers for line in writer.lines))
    found = [*(row.finding for row in rows.offsets), *(row.finding for row in rows.wrong_starts)]
    return [each for each in found if each is not None]


def told_less(*, epoch: int, behind_s: float = 0) -> list[str | None]:
    """a commits 100 at second 9 at the first gateway; b, at the second one, is told 40 at second
    12."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    commits(first, 9, "a", 100)
    first.tell(10, gives("a", 5))
    second.tell(11 - behind_s, gets("b", epoch))
    fetches(second, 12 - behind_s, "b", 40)
    second.tell(100 - behind_s, gives("b", epoch + 1))
    return findings(first, second)


def test_a_lost_commit_is_unsure_unless_the_order_is_known() -> None:
    """Perhaps b was told 40 before a committed 100."""
    assert told_less(epoch=6) == ["lost"]
    assert told_less(epoch=1) == ["unsure"]


def test_a_hosting_without_epochs_follows_what_its_log_follows() -> None:
    """The second gateway restarts just after it has taken the group over."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    commits(first, 9, "a", 100)
    first.tell(10, gives("a", 5))
    second.tell(11, gets("b", 6))
    second.beside(12, HostingStarted(reason="restarted"))
    fetches(second, 13, "b", 40)
    assert findings(first, second) == ["lost"]


def test_within_one_log_a_commit_is_lost_whatever_another_log_tells() -> None:
    other, first = EventWriter("g0", "p0"), EventWriter("g1", "p1")
    other.tell(0, gets("c", 1))
    other.tell(0.5, gives("c", 1))
    first.tell(1, gets("a", 4))
    commits(first, 9, "a", 100)
    first.tell(10, gives("a", 5))
    first.tell(11, gets("b", 6))
    fetches(first, 12, "b", 40)
    assert findings(other, first) == ["lost"]


def test_a_commit_that_perhaps_came_later_skips_nothing() -> None:
    """The clock of b's gateway is 5 s behind, and b seems to commit 110 before a commits 100. Then
    c, at the first gateway again, begins with 110."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 5))
    commits(first, 9, "a", 100)
    first.tell(10, gives("a", 5))
    second.tell(11 - 5, gets("b", 5))
    commits(second, 12 - 5, "b", 110)
    second.tell(13 - 5, gives("b", 5))
    first.tell(14, HostingStarted(reason="returns"), gets("c", 6))
    fetches(first, 15, "c", 110)
    assert findings(first, second) == ["unsure"]


def goes_back(*, epoch: int) -> list[str | None]:
    """The clock of b's gateway is 15 s behind, and its commit of 110 seems to come before a's of
    100."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, gets("a", 4))
    commits(first, 9, "a", 100)
    first.tell(10, gives("a", 5))
    second.tell(11 - 15, gets("b", epoch))
    commits(second, 13 - 15, "b", 110)
    second.tell(100 - 15, gives("b", epoch + 1))
    return findings(first, second)


def test_a_commit_that_went_back_is_unsure_unless_the_order_is_known() -> None:
    assert goes_back(epoch=1) == ["unsure"]
    assert goes_back(epoch=6) == []


@pytest.mark.parametrize("told_s", [10, 10.5, 13, 16])
def test_a_log_that_epochs_move_stays_in_its_own_order(told_s: float) -> None:
    """The clock of b's gateway is 5 s behind. Some of its events are moved behind the first log,
    which ends at second 10. Its commits, stored at 7 and told at 10 or later, still follow them."""
    first, second = EventWriter("g0", "p0"), EventWriter("g1", "p1")
    first.tell(1, gets("a", 4))
    commits(first, 9, "a", 100)
    first.tell(10, gives("a", 5))
    second.tell(6, gets("b", 6))
    fetches(second, 6.5, "b", 100)
    second.beside(told_s, committed(7, "b", 110))
    rows = folded(*first.lines, *second.lines)
    assert findings(first, second) == []
    assert rows.differences == []
    assert [row.kind for row in rows.ownership if row.kind != "owner"] == []


@pytest.mark.parametrize(("name", "other"), [("g0", "g1"), ("g1", "g0")])
def test_what_happens_at_once_in_two_logs_has_the_order_of_the_epochs(
    name: str, other: str
) -> None:
    """The names of the gateways do not matter."""
    first, second = EventWriter(name, "p0"), EventWriter(other, "p1")
    first.tell(1, gets("a", 4))
    first.tell(10, gives("a", 5))
    second.tell(10, gets("b", 6))
    rows = folded(*first.lines, *second.lines).ownership
    assert [row.kind for row in rows if row.kind != "owner"] == []


def test_beyond_a_limit_faults_of_two_logs_are_unsure_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets, "OPEN_MAX", 0)
    assert told_less(epoch=6) == ["unsure"]


def moves_about(dice: random.Random) -> list[str]:
    """The lines of a group that two or three gateways host one after another, in the order of their
    writing. Each gateway has a clock of its own. Epochs never fall, and offsets grow."""
    writers = [EventWriter(f"g{n}", f"p{n}") for n in range(dice.choice((2, 3)))]
    ahead_s = [dice.choice((-10, 0, dice.uniform(-10, 10))) for _ in writers]
    lines: list[str] = []
    now_s, epoch, offset = 100.0, 1, 0
    for owner in map("m{}".format, range(dice.randrange(2, 8))):
        number = dice.randrange(len(writers))
        writer = writers[number]
        for does in ("hosts", "gets", *["commits"] * dice.randrange(4), "gives"):
            now_s += dice.choice((0, 0.001, 2, 40))
            epoch += dice.randrange(2)
            at_s, written = now_s + ahead_s[number], len(writer.lines)
            match does:
                case "hosts":
                    writer.beside(at_s, HostingStarted(reason="free"))
                case "gets":
                    writer.tell(at_s, gets(owner, epoch))
                    fetches(writer, at_s, owner, offset)
                case "commits":
                    offset += 1
                    commits(writer, at_s, owner, offset)
                case _:
                    writer.tell(at_s, gives(owner, epoch))
            lines += writer.lines[written:]
    return lines


def rows(tables: Tables) -> Counter[str]:
    return Counter(repr(row) for name in ALL_ROWS for row in getattr(tables, name))


def in_batches(dice: random.Random, lines: Sequence[Line]) -> Counter[str]:
    """All rows of a fold that stops and goes on, and begins again with a late line."""
    fold, closed, taken = begin("", GROUP), Counter[str](), 0
    while taken < len(lines):
        before, taken = taken, taken + dice.randrange(1, 6)
        try:
            closed += rows(fold.take(lines[before:taken]))
        except LateLineError:
            fold = begin("", GROUP)
            closed = rows(fold.take(lines[:taken]))
        fold = STATES.validate_json(STATES.dump_json(fold))
    return closed + rows(fold.finish())


@pytest.mark.parametrize("seed", range(200))
def test_clocks_of_gateways_make_no_faults_and_batches_no_difference(seed: int) -> None:
    dice = random.Random(seed)
    lines = moves_about(dice)
    told = folded(*lines)
    found = {row.kind for row in told.ownership} | {row.finding for row in told.offsets}
    assert found | {row.finding for row in told.wrong_starts} <= {"owner", "gap", "unsure", None}
    assert told.differences == []
    assert in_batches(dice, placed(*lines)) == rows(told)
