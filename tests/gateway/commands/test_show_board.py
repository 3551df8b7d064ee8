"""`groupferry groups`, `describe` and `watch` at a running gateway."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.board.reading import line_elsewhere
from gateway.board.views import Events, FleetLine, GroupLine, GroupList, GroupPage, View
from gateway.commands import dispatch, show_board
from gateway.commands.list_layout import USUAL_LAYOUT
from gateway.commands.show_board import KnownGroups
from gateway.control.messages import (
    AssessGroup,
    CommandRefused,
    DescribeGateway,
    DescribeGroup,
    LatestEvents,
    ListGroups,
    NotKnown,
    Order,
    Question,
)
from gateway.groups.groups_elsewhere import GroupElsewhere
from tests.gateway.board.test_terminal import ROLL, lines_of, page
from tests.gateway.commands.test_show_gateways import FLEET, state
from tests.support.fake_gateway import fake_gateway
from tests.support.until import until

FAILED = 1


def line_of(group: GroupPage) -> GroupLine:
    """The group as in the list."""
    return GroupLine(**{name: getattr(group, name) for name in GroupLine.model_fields})


class Gateway:
    """Knows two groups, which it lists one by one."""

    def __init__(self) -> None:
        self.groups = {"orders-readers": ROLL, "other": page(group_id="other")}
        self.fleet: tuple[FleetLine, ...] = FLEET
        self.asked: list[Question | Order] = []

    async def answer(self, command: Question | Order, _given_by: str) -> View:
        """Answer a command as this gateway would."""
        self.asked.append(command)
        view: View
        match command:
            case ListGroups(after=""):
                listed = (line_of(self.groups["orders-readers"]),)
                view = GroupList(groups=listed, next_after="orders-readers")
            case ListGroups():
                view = GroupList(groups=(line_of(self.groups["other"]),), next_after=None)
            case DescribeGroup(group_id=group_id) if group_id in self.groups:
                view = self.groups[group_id]
            case LatestEvents():
                view = Events(stream_id="s", last=0, events=())
            case DescribeGateway():
                gateway = state(0, (0, 1), 2, None).gateway
                assert gateway is not None
                view = gateway.model_copy(update={"fleet": self.fleet})
            case _:
                raise NotKnown("the gateway does not know this group")
        return view


async def run(folder: Path, *arguments: str, gateway: Gateway | None = None) -> int:
    """The exit status of a command at this gateway."""
    async with fake_gateway(folder, (gateway or Gateway()).answer):
        command = partial(dispatch.run, [*arguments, f"--state-dir={folder}"])
        return await trio.to_thread.run_sync(command)


async def test_a_list_names_the_gateways_whose_groups_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gateways without shards are not named. A pipe gets only the groups."""
    gateway, trouble = Gateway(), {"is_here": False, "trouble": "silent"}
    gateway.fleet = tuple(one.model_copy(update=trouble) for one in FLEET)
    assert await run(tmp_path, "groups", gateway=gateway) == 0
    written = capsys.readouterr()
    missing = "groups of gateway a at h:1 are missing or old: silent"
    assert written.err == f"groupferry: {missing}\n"
    async with fake_gateway(tmp_path, gateway.answer):
        screen = await show_board._ListScreen(tmp_path, USUAL_LAYOUT).fetch()
    lines = lines_of(screen(120, 24))
    assert missing in lines[-2]
    assert len(lines) <= 24
    assert await run(tmp_path, "groups") == 0
    assert capsys.readouterr().err == ""


async def test_a_group_of_another_machine_is_shown_with_its_gateway(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What only that gateway knows is a question mark, and its readiness is not asked for here."""
    gateway = Gateway()
    known = GroupElsewhere("b at i:1", "consumer", "Stable")
    elsewhere = line_elsewhere("other", known).model_dump()
    gateway.groups["other"] = page(**elsewhere)
    assert await run(tmp_path, "groups", gateway=gateway) == 0
    *_, line = capsys.readouterr().out.splitlines()
    cells = ["other", "elsewhere", "consumer", "Stable", "?/?", "?", "p·s", "?"]
    assert line.split() == [*cells, *["at", "the", "gateway", "b", "at", "i:1"]]
    assert await run(tmp_path, "readiness", gateway=gateway) == FAILED  # of the other group
    assert [one.group_id for one in gateway.asked if isinstance(one, AssessGroup)] == [
        "orders-readers"
    ]


async def test_groups_are_listed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list comes in as many parts as the gateway sends."""
    assert await run(tmp_path, "groups") == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["GROUP", "MODE"]
    assert [line.split()[0] for line in lines] == ["orders-readers", "other"]
    assert "waits for c-2 to rejoin" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "count"), [(("groups", "--json"), 2), (("describe", "other", "--json"), 1)]
)
async def test_json_has_one_view_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], count: int
) -> None:
    """Each line is the view that the gateway sent."""
    assert await run(tmp_path, *arguments) == 0
    views: list[dict[str, Any]] = [
        json.loads(line) for line in capsys.readouterr().out.splitlines()
    ]
    assert len(views) == count
    assert views[-1]["group_id"] == "other"


async def test_an_unknown_group_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is 1."""
    assert await run(tmp_path, "describe", "nobody") == FAILED
    assert capsys.readouterr().err == "groupferry: the gateway does not know this group\n"


@pytest.mark.parametrize("command", ["groups", "watch"])
def test_a_gateway_that_does_not_run_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The line names the folder."""
    assert dispatch.run([command, f"--state-dir={tmp_path}"]) == FAILED
    assert f"no gateway is running in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize("group_id", [None, "orders-readers"])
async def test_a_watch_in_a_pipe_prints_changes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    group_id: str | None,
) -> None:
    """A group that stands as before is not printed again."""
    monkeypatch.setattr(show_board, "LOOK_INTERVAL_S", 0.001)
    gateway, out = Gateway(), ""
    async with fake_gateway(tmp_path, gateway.answer), trio.open_nursery() as nursery:
        nursery.start_soon(partial(show_board.watch, tmp_path, group_id, as_json=False))
        await until(lambda: len(gateway.asked) > 6)
        gateway.groups["orders-readers"] = page(blocker=None, stands="all is well")
        asked = len(gateway.asked)
        await until(lambda: len(gateway.asked) > asked + 6)
        out = capsys.readouterr().out
        nursery.cancel_scope.cancel()
    changes = [line for line in out.splitlines() if line.startswith("orders-readers")]
    assert [line.split("  ")[-1] for line in changes] == [
        "1 of 8 members with the new protocol; waits for c-2 to rejoin",
        "all is well; waits for nothing",
    ]


async def test_a_watcher_asks_for_what_has_changed(tmp_path: Path) -> None:
    """What it has been shown before it knows, until the gateway shows everything again."""
    roll, other = line_of(ROLL), line_of(page(group_id="other"))
    answers = [
        GroupList(groups=(roll,), next_after="orders-readers", revision=7),
        GroupList(groups=(other,), next_after=None, revision=7),
        GroupList(groups=(), next_after=None, revision=8, is_complete=False),
        GroupList(
            groups=(line_of(page(group_id="other", members=5)),),
            next_after=None,
            revision=9,
            is_complete=False,
            gone=("orders-readers",),
        ),
        GroupList(groups=(roll,), next_after=None, revision=3),
    ]
    asked: list[Question | Order] = []

    async def answer(command: Question | Order, _given_by: str) -> GroupList:
        asked.append(command)
        return answers[len(asked) - 1]

    known = KnownGroups(tmp_path)
    async with fake_gateway(tmp_path, answer):
        shown = []
        for _ in range(4):
            changed = [line.group_id for line in await known.fetch()]
            shown.append((changed, [(line.group_id, line.members) for line in known.lines()]))
    assert shown == [
        (["orders-readers", "other"], [("orders-readers", roll.members), ("other", other.members)]),
        ([], [("orders-readers", roll.members), ("other", other.members)]),
        (["other"], [("other", 5)]),
        (["orders-readers"], [("orders-readers", roll.members)]),
    ]
    assert asked == [
        ListGroups(since=0),
        ListGroups(since=0, after="orders-readers"),
        ListGroups(since=7),
        ListGroups(since=8),
        ListGroups(since=9),
    ]


@pytest.mark.parametrize("group_id", [None, "orders-readers"])
async def test_a_watch_continues_over_a_restart_of_the_gateway(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    group_id: str | None,
) -> None:
    """Unchanged lines are not printed again, and stderr says that there was no answer."""
    monkeypatch.setattr(show_board, "LOOK_INTERVAL_S", 0.001)
    gateway, out, err = Gateway(), "", ""

    async def wait_until_shown(is_shown: Callable[[], bool]) -> None:
        def is_done() -> bool:
            nonlocal out, err
            captured = capsys.readouterr()
            out, err = out + captured.out, err + captured.err
            return is_shown()

        await until(is_done)

    async with trio.open_nursery() as nursery:
        async with fake_gateway(tmp_path, gateway.answer):
            nursery.start_soon(partial(show_board.watch, tmp_path, group_id, as_json=False))
            await wait_until_shown(lambda: "orders-readers" in out)
        with trio.fail_after(20):
            await wait_until_shown(lambda: "waiting for it" in err)
        gateway.groups["orders-readers"] = page(blocker=None, stands="all is well")
        async with fake_gateway(tmp_path, gateway.answer):
            await wait_until_shown(lambda: "answers again" in err and "all is well" in out)
            nursery.cancel_scope.cancel()
    silent, again = err.splitlines()
    assert "no gateway is running" in silent or "ended before it answered" in silent
    assert again.endswith("the gateway answers again")


async def test_a_picture_older_than_three_seconds_says_so(autojump_clock: MockClock) -> None:
    """A line gives its age, and the reason once it is known. The next answer removes the line."""
    latest = show_board.LatestScreen()
    latest.record(lambda _width, height: f"picture of {height} lines")
    await trio.sleep(show_board.STALE_AFTER_S - 0.1)
    assert lines_of(latest.screen(80, 24)) == ["picture of 24 lines"]
    await trio.sleep(1)
    assert lines_of(latest.screen(80, 24)) == ["no answer for 4 s", "picture of 23 lines"]
    latest.record_failure("the gateway did not answer in 5 s")
    assert lines_of(latest.screen(80, 24))[0] == (
        "no answer for 4 s  the gateway did not answer in 5 s"
    )
    latest.record_failure(f"the gateway in /{'d' * 30} did not answer: look at the end of its log")
    *words, picture = lines_of(latest.screen(80, 24))
    assert (len(words), picture) == (2, "picture of 22 lines")
    assert words[-1].endswith("the end of its log"), "what to do is not cut"
    latest.record(lambda _width, height: f"picture of {height} lines")
    assert lines_of(latest.screen(80, 24)) == ["picture of 24 lines"]


async def test_a_look_at_a_frozen_gateway_ends_after_five_seconds(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The watch can then say so, and a command ends."""
    never = trio.Event()

    async def hang(_command: Question | Order, _given_by: str) -> View:
        await never.wait()
        raise AssertionError

    async with fake_gateway(tmp_path, hang, limit_s=math.inf):  # the clock runs while it loads
        started_s = trio.current_time()
        with pytest.raises(CommandRefused, match="did not answer in 5 s"):
            await show_board.describe(tmp_path, "orders", as_json=False)
        assert trio.current_time() - started_s == pytest.approx(5, abs=0.5)
