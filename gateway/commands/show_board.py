"""`groupferry groups`, `describe`, `readiness` and `watch`: the board of a running gateway.

They ask the gateway at the control socket in its state folder, and print to the terminal.
"""

import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import trio
from rich.live import Live

from gateway.board import terminal
from gateway.board.views import Events, GroupLine, GroupPage, GroupReadiness, Groups
from gateway.control.client import look
from gateway.control.messages import AssessGroup, DescribeGroup, LatestEvents, ListGroups

LOOK_INTERVAL_S = 1.0
"""How often `watch` looks."""


async def groups(folder: Path, *, as_json: bool) -> None:
    """Print how the groups stand. Raises CommandRefused, NoControlSocket."""
    found = [each async for each in all_groups(folder)]
    if as_json:
        for each in found:
            _print_json(each.model_dump_json())
    elif found:
        console = terminal.console()
        console.print(terminal.groups_table(found, width=console.width))
    else:
        sys.stdout.write("no groups yet\n")


async def describe(folder: Path, group_id: str, *, as_json: bool) -> None:
    """Print how a group stands. Raises CommandRefused, NoControlSocket."""
    page = await look(folder, DescribeGroup(group_id=group_id), GroupPage)
    if as_json:
        _print_json(page.model_dump_json())
    else:
        terminal.console().print(terminal.group_text(page))


async def readiness(folder: Path, group_id: str | None, *, as_json: bool) -> None:
    """Print whether a group is ready for the new protocol, or each. Raises CommandRefused,
    NoControlSocket."""
    if group_id is None:
        group_ids = [each.group_id async for each in all_groups(folder)]
        if not group_ids and not as_json:
            sys.stdout.write("no groups yet\n")
    else:
        group_ids = [group_id]
    for each in group_ids:
        found = await look(folder, AssessGroup(group_id=each), GroupReadiness)
        if as_json:
            _print_json(found.model_dump_json())
        else:
            terminal.console().print(terminal.readiness_text(found))


async def watch(folder: Path, group_id: str | None, *, as_json: bool) -> None:
    """Show a group, or all of them, until Ctrl-C. Raises CommandRefused, NoControlSocket."""
    console = terminal.console()
    if as_json or not console.is_terminal:
        await _follow(folder, group_id, as_json=as_json)
        return
    bands, known = terminal.Bands(), KnownGroups(folder)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if group_id is None:
                await known.look()
                width, height = console.size
                live.update(terminal.groups_table(known.lines(), width=width, height=height))
            else:
                page = await look(folder, DescribeGroup(group_id=group_id), GroupPage)
                events = await look(folder, LatestEvents(group_id=group_id), Events)
                bands.add(page)
                width, height = console.size
                live.update(terminal.screen(page, bands, events.events, width=width, height=height))
            live.refresh()
            await trio.sleep(LOOK_INTERVAL_S)


async def _follow(folder: Path, group_id: str | None, *, as_json: bool) -> None:
    """Print a line whenever a group stands differently."""
    last: dict[str, str] = {}
    known = KnownGroups(folder)
    while True:
        found: Sequence[GroupLine]
        if group_id is None:
            found = await known.look()
        else:
            found = [await look(folder, DescribeGroup(group_id=group_id), GroupPage)]
        for each in found:
            told = each.model_dump_json() if as_json else terminal.one_line(each)
            if last.get(each.group_id) != told:
                last[each.group_id] = told
                (_print_json if as_json else _print)(told)
        sys.stdout.flush()
        await trio.sleep(LOOK_INTERVAL_S)


class KnownGroups:
    """All groups as the gateway has shown them. A look gets only what has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._since = 0
        self._lines: dict[str, GroupLine] = {}

    def lines(self) -> Sequence[GroupLine]:
        """The groups by id."""
        return [line for _group_id, line in sorted(self._lines.items())]

    async def look(self) -> Sequence[GroupLine]:
        """The groups that have changed. Raises CommandRefused, NoControlSocket."""
        changed: list[GroupLine] = []
        since, after, revision = self._since, "", 0
        while True:
            part = await look(self._folder, ListGroups(after=after, since=since), Groups)
            if not after:
                revision = part.revision
                if part.is_complete:
                    since = 0
                    self._lines.clear()
                for group_id in part.gone:
                    self._lines.pop(group_id, None)
            changed += part.groups
            self._lines.update((line.group_id, line) for line in part.groups)
            if part.next_after is None:
                break
            after = part.next_after
        self._since = revision
        return changed


async def all_groups(folder: Path) -> AsyncIterator[GroupLine]:
    """How each group stands. Raises CommandRefused, NoControlSocket."""
    after: str | None = ""
    while after is not None:
        part = await look(folder, ListGroups(after=after), Groups)
        for each in part.groups:
            yield each
        after = part.next_after


def _print_json(line: str) -> None:
    _print(terminal.as_json(json.loads(line)))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
