"""The board on a terminal of 80 x 24, and in a pipe."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from gateway.board import terminal
from gateway.board.terminal import (
    ALIGNED_WIDTH_MAX,
    COLUMNS,
    PLAIN_WIDTH,
    RECENT_MS,
    Bands,
    client_table,
    format_age,
    group_text,
    groups_table,
    one_line,
    screen,
)
from gateway.board.views import ClientMember, EventLine, GroupPage, MemberLine, PartitionLine
from gateway.commands.list_layout import COLUMN_NAMES
from tests.gateway.board.test_recent_events import event_of

LAG_AT_MS = 1_000


@pytest.fixture(autouse=True)
def _set_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lags were looked at four seconds ago."""
    monkeypatch.setattr(terminal, "now_ms", lambda: LAG_AT_MS + 4_000)


def member(name: str, **how: Any) -> MemberLine:
    """A classic member at rest."""
    fields: dict[str, Any] = {
        "member_id": f"id-{name}",
        "instance_id": None,
        "client_id": name,
        "client_host": "/10.0.0.1",
        "software": "librdkafka 2.16.1",
        "protocol": "classic",
        "phase": "Stable",
        "silent_ms": None,
        "member_epoch": 5,
        "owned": {"orders": (0, 1, 2)},
        "to_give_up": {},
        "to_get": {},
        "lag": None,
    }
    return MemberLine(**(fields | how))


def page(*members: MemberLine, **how: Any) -> GroupPage:
    """A group in the middle of its roll."""
    fields: dict[str, Any] = {
        "group_id": "orders-readers",
        "mode": "hosted",
        "type": "consumer",
        "state": "Reconciling",
        "group_epoch": 9,
        "assignment_epoch": 9,
        "members": len(members),
        "native_members": 1,
        "stands": f"1 of {len(members)} members with the new protocol",
        "blocker": "waits for c-2 to rejoin",
        "unowned_partitions": 2,
        "unowned_partition_s": 1.25,
        "owned_twice": 0,
        "policy": "allow",
        "lag": 1_200,
        "behind_ms": 90_000,
        "lag_at_ms": LAG_AT_MS,
        "partitions": (),
        "lag_before": 900,
        "lag_history": tuple(range(0, 1_300, 100)),
        "disturbed": 3,
        "conversions": 1,
        "since_ms": 1,
        "mode_reason": "it has members here",
        "described_ms": None,
        "anchor": "Stable",
        "adoption": None,
        "assignor": "uniform",
        "last_refusal": None,
        "next_step": None,
        "last_step": None,
        "member_list": members,
        "members_left_out": 0,
    }
    return GroupPage(**(fields | how))


ROLL = page(
    member("c-1", protocol="consumer", to_get={"orders": (3,)}, phase="Waiting"),
    member("c-2", to_give_up={"orders": (2,)}, phase="ToldToRejoin"),
    *(member(f"c-{number}") for number in range(3, 9)),
)


def lines_of(what: RenderableType, width: int = 80, height: int = 24) -> list[str]:
    """The lines on a terminal of this size."""
    out = io.StringIO()
    Console(file=out, width=width, height=height, markup=False, emoji=False, highlight=False).print(
        what
    )
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 200])
def test_a_roll_of_eight_fits_into_24_lines(width: int) -> None:
    """This includes its members, the latest events, and what it waits for."""
    bands, events = (
        Bands(),
        [
            EventLine(position=n, line=event_of(n).line, sentence=f"sentence {n}")
            for n in range(1, 20)
        ],
    )
    for _ in range(300):
        bands.add(ROLL)
    lines = lines_of(screen(ROLL, bands, events, width=width, height=24), width)
    assert len(lines) <= 24
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "waits for c-2 to rejoin" in text
    assert "1/8 with the new protocol" in text
    assert "lag 1,200 (4 s ago), at most 90 s behind, 900 before the roll  ▁▁▂▂▃▃▄▅▅▆▆▇█" in text
    assert lines[-1].endswith("sentence 19")
    (of_c2,) = [line for line in lines if line.startswith("c-2")]
    assert "ToldToRejoin" in of_c2
    assert of_c2.endswith("!!!")


STEP = (
    "next: restart orders-consumer-7 with group.protocol=consumer; expected 1 to 2 s without an"
    " owner for its 12 partitions, nobody else disturbed"
)
TOLD = (
    "orders-consumer-6 came back with the new protocol and kept its partitions, 1.2"
    " partition-seconds without an owner, nobody else disturbed"
)


def test_deciding_words_are_not_cut_on_80_columns() -> None:
    """What a step costs stands at the end of its lines."""
    rolled = page(*ROLL.member_list, blocker=None, next_step=STEP)
    event = EventLine(position=1, line=event_of(1).line, sentence=TOLD)
    lines = lines_of(screen(rolled, Bands(), [event] * 9, width=80, height=24))
    assert len(lines) <= 24
    text = " ".join(" ".join(lines).split())
    assert STEP in text
    assert TOLD in text
    assert "…" not in text


def test_a_member_that_is_not_heard_is_shown_first_and_as_that() -> None:
    """Its phase is that of its last heartbeat."""
    silent = member("z", silent_ms=31_500)
    many = page(*(member(f"c-{n:03}") for n in range(200)), silent)
    bands = Bands()
    bands.add(many)
    lines = lines_of(screen(many, bands, [], width=80, height=24))
    (of_z,) = [line for line in lines if line.startswith("z ")]
    assert "silent 31 s" in of_z
    assert of_z.endswith("?")
    assert any("silent 31 s" in line for line in lines_of(group_text(page(silent))))


def test_details_are_one_key_away() -> None:
    """A story has only what is a sentence; the details have every event with its fields."""
    events = [
        EventLine(position=1, line=event_of(1).line, sentence="the gateway hosts it"),
        EventLine(position=2, line=event_of(2).line, sentence=""),
    ]
    story = lines_of(screen(ROLL, Bands(), events, width=100, height=24))
    details = lines_of(screen(ROLL, Bands(), events, width=100, height=24, has_details=True))
    assert "the gateway hosts it" in story[-1]
    assert "d: details of each event" in story[-2]
    details_only = [EventLine(position=n, line=event_of(n).line, sentence="") for n in range(2, 99)]
    story = lines_of(screen(ROLL, Bands(), [*events, *details_only], width=100, height=24))
    assert "the gateway hosts it" in story[-1]
    assert all("hosting_started" in line for line in details[-2:])
    assert "d: back to the story" in details[-3]


def test_members_that_are_busy_come_first_if_there_is_no_room() -> None:
    """The others are counted."""
    many = page(*(member(f"c-{n:03}") for n in range(200)), member("z", phase="GivingUp"))
    lines = lines_of(screen(many, Bands(), [], width=80, height=24))
    assert len(lines) <= 24
    assert any(line.startswith("z ") for line in lines)
    assert "and 190 more" in lines


def test_a_pipe_gets_whole_lines() -> None:
    """Nothing is cut, and nothing of a client's names reaches a terminal as it is."""
    evil = page(member("c\x1b[2J", client_host="/10.0.0.1"), group_id="g" * 300)
    lines = lines_of(group_text(evil), width=10_000)
    assert any("c\\u001b[2J" in line for line in lines)
    assert any("orders:0-2" in line for line in lines)
    assert any("g" * 300 in line for line in lines_of(groups_table([evil]), width=10_000))
    assert "\x1b" not in one_line(evil)


def test_a_long_name_lengthens_no_other_line_of_a_pipe() -> None:
    """A group id may have 32 KiB, and must not cost a megabyte for each thousand others."""
    groups = [page(group_id=f"g-{n}") for n in range(50)]
    longest = max(map(len, lines_of(groups_table(groups), width=PLAIN_WIDTH)))
    evil = page(member("c" * 900), member("short"), group_id="g" * 5_000, blocker="w" * 2_000)
    lines = lines_of(groups_table([*groups, evil]), width=PLAIN_WIDTH)
    assert sum(len(line) > longest + ALIGNED_WIDTH_MAX for line in lines) == 1
    assert all(line == line.rstrip() for line in lines)
    assert {line.index("hosted") for line in lines[1:-1]} == {lines[0].index("MODE")}
    lines = lines_of(group_text(evil), width=PLAIN_WIDTH)
    assert sum(len(line) > 900 for line in lines[-2:]) == 1


def test_a_partition_owned_twice_is_reported() -> None:
    """The list shows two owners of a partition, although there must never be two."""
    assert "owned twice 1" in "\n".join(lines_of(group_text(page(member("c"), owned_twice=1))))


LONG = "team-07.a-group-with-a-rather-long-name.readers"


def test_long_names_take_no_column_from_the_list_of_groups() -> None:
    """The name is cut, and what the group waits for is after a third line."""
    groups = [page(*ROLL.member_list, group_id=LONG, blocker="waits for " + "c" * 99)]
    groups.append(page(group_id="zz-held", policy="hold", blocker=None, mode="forwarded"))
    lines = lines_of(groups_table(groups, width=80))
    assert len(lines) == 5
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == ["GROUP", "MODE", "STATE", "NEW/ALL", "LAG", "WAITS", "FOR"]
    for word in ("team-07.", "hosted", "Reconciling", "1/8", "1,200", "waits for"):
        assert word in lines[1]
    assert lines[4].split()[-2:] == ["on", "hold"]
    groups = [page(policy="pause", blocker="paused: it keeps its target assignment")]
    assert lines_of(groups_table(groups), width=200)[1].count("paused") == 1
    assert "TYPE" in lines_of(groups_table(groups, width=200), width=200)[0]


def test_the_list_has_the_columns_and_the_order_that_are_asked_for() -> None:
    """Figures fall, and what is not known comes last."""
    lags = {"a": 5, "b": None, "c": 70}
    groups = [page(group_id=name, lag=lag) for name, lag in lags.items()]
    table = groups_table(groups, columns=("group", "lag", "behind"), sorted_by="lag")
    lines = [line.split() for line in lines_of(table, PLAIN_WIDTH)]
    assert lines == [
        ["GROUP", "LAG", "BEHIND"],
        ["c", "70", "90", "s"],
        ["a", "5", "90", "s"],
        ["b", "?", "90", "s"],
    ]
    assert (*COLUMNS,) == COLUMN_NAMES


def test_every_column_can_be_sorted_by() -> None:
    """Whatever is not known of a group."""
    unknown = dict.fromkeys(("lag", "behind_ms", "members", "native_members", "type", "blocker"))
    groups = [page(group_id="a"), page(group_id="b", **unknown, unowned_partition_s=None)]
    for name in COLUMNS:
        assert len(lines_of(groups_table(groups, columns=(name,), sorted_by=name))) == 3


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        *[(None, "?"), (0, "0 s"), (1, "1 s"), (119_000, "119 s"), (120_000, "2 min")],
        *[(120_001, "3 min"), (179_000, "3 min"), (100_000_000, "28 h")],
    ],
)
def test_an_age_is_shown_in_its_largest_unit(age_ms: int | None, text: str) -> None:
    """Rounded up: it is an upper limit."""
    assert format_age(age_ms) == text


def test_the_lag_of_each_partition_is_one_option_away() -> None:
    line = PartitionLine(
        topic="orders", partition=3, owner="c-1", committed=5, end=9, lag=4, behind_ms=None
    )
    shown = lines_of(group_text(page(partitions=(line,)), has_partitions=True), PLAIN_WIDTH)
    assert shown[-1].split() == ["orders", "3", "c-1", "5", "9", "4", "?"]


@pytest.mark.parametrize(
    ("mode", "left_out", "owner"),
    [
        *[("hosted", 0, "nobody"), ("adopting", 0, "nobody"), ("releasing", 0, "nobody")],
        *[("hosted", 1, "?"), ("forwarded", 0, "?"), ("elsewhere", 0, "?"), ("unknown", 0, "?")],
    ],
)
def test_nobody_owns_a_partition_only_if_all_members_are_known(
    mode: str, left_out: int, owner: str
) -> None:
    line = PartitionLine(
        topic="orders", partition=3, owner=None, committed=5, end=9, lag=4, behind_ms=0
    )
    group = page(partitions=(line,), mode=mode, members_left_out=left_out)
    assert lines_of(group_text(group, has_partitions=True), PLAIN_WIDTH)[-1].split()[2] == owner


def test_a_client_is_shown_over_all_its_groups() -> None:
    members = [
        ClientMember(
            group_id=name,
            mode="hosted",
            state="Stable",
            blocker=None,
            lag_at_ms=LAG_AT_MS,
            member=member("c", lag=3),
        )
        for name in ("billing", "orders")
    ]
    shown = lines_of(client_table(members, 3), PLAIN_WIDTH)
    assert [line.split()[0] for line in shown] == ["GROUP", "billing", "orders", "and"]
    assert shown[1].split()[-2:] == ["3", "-"]


def test_a_list_gives_the_age_of_a_lag_that_was_not_measured_recently() -> None:
    """The age is shown for a group whose partitions wait for their turn, or while the cluster is
    away."""
    recent, old = LAG_AT_MS + 4_000 - RECENT_MS, LAG_AT_MS + 4_000 - RECENT_MS - 1
    groups = [page(group_id="a", lag_at_ms=recent), page(group_id="b", lag_at_ms=old)]
    lines = lines_of(groups_table(groups, columns=("group", "lag")), PLAIN_WIDTH)
    assert [line.split(maxsplit=1)[1] for line in lines[1:]] == ["1,200", "1,200, 16 s ago"]


def test_groups_that_wait_come_first_if_there_is_no_room() -> None:
    """The others are counted."""
    rest = [page(group_id=f"g-{n:02}", blocker=None) for n in range(60)]
    lines = lines_of(groups_table([*rest, page(group_id="late")], width=80, height=24))
    assert len(lines) == 24
    assert lines[1].startswith("late ")
    assert lines[2].startswith("g-00 ")
    assert lines[-1] == "and 39 more"


FORWARDED = "all 3 are behind the gateway: groupferry adopt orders-readers"


def test_what_a_group_waits_for_continues_in_further_lines() -> None:
    """The command to type comes last. The screen keeps its height."""
    groups = [page(group_id=f"orders-{n}", mode="forwarded", blocker=FORWARDED) for n in range(9)]
    words = " ".join(" ".join(lines_of(groups_table(groups[:1], width=80))).split())
    assert "groupferry adopt" in words
    assert "…" not in words
    for rows in (9, 20, 24):
        lines = lines_of(groups_table(groups, width=80, height=rows))
        assert len(lines) <= rows
        shown = sum(line.startswith("orders-") for line in lines)
        assert shown == 9 or lines[-1] == f"and {9 - shown} more"


def test_a_cut_line_has_single_spaces() -> None:
    """A line is cut where it would need a third row."""
    (of_stands,) = [
        line for line in lines_of(group_text(page(blocker="word " * 60))) if "…" in line
    ] or [""]
    assert "  " not in of_stands


def test_long_names_take_no_column_from_the_members() -> None:
    """Neither long names nor a member with many partitions take room from the columns."""
    scattered = {"orders": tuple(range(0, 200, 2))}
    group = page(member(LONG * 3, owned=scattered, to_get={"orders": (1,)}))
    line = next(line for line in lines_of(group_text(group)) if line.startswith("team-07."))
    assert len(line) <= 80
    for word in ("classic", "Stable", "orders:", "+1"):
        assert word in line
