"""The board on a terminal of 80 x 24, and in a pipe."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from gateway.board.terminal import (
    ALIGNED_WIDTH_MAX,
    PLAIN_WIDTH,
    Bands,
    group_text,
    groups_table,
    one_line,
    screen,
)
from gateway.board.views import EventLine, GroupPage, MemberLine
from tests.gateway.board.test_recent_events import told


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


def printed(what: RenderableType, width: int = 80, height: int = 24) -> list[str]:
    """The lines on a terminal of this size."""
    out = io.StringIO()
    Console(file=out, width=width, height=height, markup=False, emoji=False, highlight=False).print(
        what
    )
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 200])
def test_a_roll_of_eight_fits_into_24_lines(width: int) -> None:
    """With its members, the latest events, and what it waits for."""
    bands, events = (
        Bands(),
        [EventLine(position=n, line=told(n).line, sentence=f"sentence {n}") for n in range(1, 20)],
    )
    for _ in range(300):
        bands.add(ROLL)
    lines = printed(screen(ROLL, bands, events, width=width, height=24), width)
    assert len(lines) <= 24
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "waits for c-2 to rejoin" in text
    assert "1/8 with the new protocol" in text
    assert "lag 1,200 records, 900 before the roll  ▁▁▂▂▃▃▄▅▅▆▆▇█" in text
    assert lines[-1].endswith("sentence 19")
    (of_c2,) = [line for line in lines if line.startswith("c-2")]
    assert "ToldToRejoin" in of_c2
    assert of_c2.endswith("!!!")


def test_details_are_one_key_away() -> None:
    """A story has only what is a sentence; the details have every event with its fields."""
    events = [
        EventLine(position=1, line=told(1).line, sentence="the gateway hosts it"),
        EventLine(position=2, line=told(2).line, sentence=""),
    ]
    story = printed(screen(ROLL, Bands(), events, width=100, height=24))
    details = printed(screen(ROLL, Bands(), events, width=100, height=24, has_details=True))
    assert "the gateway hosts it" in story[-1]
    assert "d: details of each event" in story[-2]
    assert all("hosting_started" in line for line in details[-2:])
    assert "d: back to the story" in details[-3]


def test_members_that_are_busy_come_first_if_there_is_no_room() -> None:
    """The others are counted."""
    many = page(*(member(f"c-{n:03}") for n in range(200)), member("z", phase="GivingUp"))
    lines = printed(screen(many, Bands(), [], width=80, height=24))
    assert len(lines) <= 24
    assert any(line.startswith("z ") for line in lines)
    assert "and 190 more" in lines


def test_a_pipe_gets_whole_lines() -> None:
    """Nothing is cut, and nothing of a client's names reaches a terminal as it is."""
    evil = page(member("c\x1b[2J", client_host="/10.0.0.1"), group_id="g" * 300)
    lines = printed(group_text(evil), width=10_000)
    assert any("c\\u001b[2J" in line for line in lines)
    assert any("orders:0-2" in line for line in lines)
    assert any("g" * 300 in line for line in printed(groups_table([evil]), width=10_000))
    assert "\x1b" not in one_line(evil)


def test_a_long_name_lengthens_no_other_line_of_a_pipe() -> None:
    """Whoever chooses it: a group with 32 KiB must not cost a megabyte for each thousand others."""
    groups = [page(group_id=f"g-{n}") for n in range(50)]
    longest = max(map(len, printed(groups_table(groups), width=PLAIN_WIDTH)))
    evil = page(member("c" * 900), member("short"), group_id="g" * 5_000, blocker="w" * 2_000)
    lines = printed(groups_table([*groups, evil]), width=PLAIN_WIDTH)
    assert sum(len(line) > longest + ALIGNED_WIDTH_MAX for line in lines) == 1
    assert all(line == line.rstrip() for line in lines)
    assert {line.index("hosted") for line in lines[1:-1]} == {lines[0].index("MODE")}
    lines = printed(group_text(evil), width=PLAIN_WIDTH)
    assert sum(len(line) > 900 for line in lines[-2:]) == 1


def test_a_partition_owned_twice_is_told() -> None:
    """It must never be seen."""
    assert "owned twice 1" in "\n".join(printed(group_text(page(member("c"), owned_twice=1))))


LONG = "team-07.a-group-with-a-rather-long-name.readers"


def test_long_names_take_no_column_from_the_list_of_groups() -> None:
    """The name and what the group waits for are cut, and no line is broken."""
    groups = [page(*ROLL.member_list, group_id=LONG, blocker="waits for " + "c" * 99)]
    groups.append(page(group_id="held", policy="hold", blocker=None, mode="forwarded"))
    lines = printed(groups_table(groups, width=80))
    assert len(lines) == 3
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == ["GROUP", "MODE", "STATE", "NEW/ALL", "UNOWNED", "WAITS", "FOR"]
    for word in ("team-07.", "hosted", "Reconciling", "1/8", "1.2 p·s", "waits for"):
        assert word in lines[1]
    assert lines[2].split()[-2:] == ["on", "hold"]
    groups = [page(policy="pause", blocker="paused: it keeps its target assignment")]
    assert printed(groups_table(groups), width=200)[1].count("paused") == 1
    assert "TYPE" in printed(groups_table(groups, width=200), width=200)[0]


def test_groups_that_wait_come_first_if_there_is_no_room() -> None:
    """The others are counted."""
    rest = [page(group_id=f"g-{n:02}", blocker=None) for n in range(60)]
    lines = printed(groups_table([*rest, page(group_id="late")], width=80, height=24))
    assert len(lines) == 24
    assert lines[1].startswith("late ")
    assert lines[2].startswith("g-00 ")
    assert lines[-1] == "and 39 more"


def test_long_names_take_no_column_from_the_members() -> None:
    """Nor does a member with many partitions."""
    scattered = {"orders": tuple(range(0, 200, 2))}
    group = page(member(LONG * 3, owned=scattered, to_get={"orders": (1,)}))
    line = next(each for each in printed(group_text(group)) if each.startswith("team-07."))
    assert len(line) <= 80
    for word in ("classic", "Stable", "orders:", "+1"):
        assert word in line
