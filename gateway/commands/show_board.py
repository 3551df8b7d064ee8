"""`groupferry groups`, `describe`, `client`, `readiness` and `watch`: the board of a gateway.

They ask the gateway at the control socket in its state folder, and print to the terminal.
"""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import trio
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from gateway.board import terminal
from gateway.board.views import (
    ClientPage,
    Events,
    GatewayLine,
    GroupLine,
    GroupList,
    GroupPage,
    GroupReadiness,
)
from gateway.commands.keys import read_keys, single_keys
from gateway.commands.list_layout import USUAL_LAYOUT, ListLayout
from gateway.control.client import ANSWER_S, fetch_view, find_processes
from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import (
    AssessGroup,
    CommandRefused,
    DescribeClient,
    DescribeGateway,
    DescribeGroup,
    LatestEvents,
    ListGroups,
)
from gateway.readable import escape

LOOK_INTERVAL_S = 1.0
"""How often `watch` fetches."""
DRAW_INTERVAL_S = 0.5
"""How often it draws at least, so that the age of what it shows grows."""
STALE_AFTER_S = 3.0
"""A picture that is older says so."""


Draw = Callable[[int, int], RenderableType]
"""Draws a picture of this width and height."""


async def groups(folder: Path, *, as_json: bool, layout: ListLayout = USUAL_LAYOUT) -> None:
    """Print how the groups stand. Raises CommandRefused, NoControlSocket."""
    lines = sorted(await all_groups(folder), key=terminal.COLUMNS[layout.sorted_by].key)
    if as_json:
        for line in lines:
            _print_json(line.model_dump_json())
    elif lines:
        console = terminal.console()
        console.print(terminal.groups_table(lines, width=console.width, **layout._asdict()))
    else:
        sys.stdout.write("no groups yet\n")
    for trouble in await _name_unlisted(folder):
        _print_error(trouble)


async def _name_unlisted(folder: Path) -> Sequence[str]:
    """The gateways on other machines whose groups are not listed as they are now."""
    unlisted: dict[str, None] = {}
    for process in find_processes(folder):
        with suppress(CommandRefused, NoControlSocket):
            gateway = await fetch_view(process, DescribeGateway(), GatewayLine)
            for one in gateway.fleet:
                if one.shards and one.trouble:
                    about = f"groups of gateway {one.name} at {one.address} are missing or old"
                    unlisted[f"{about}: {one.trouble}"] = None
    return list(unlisted)


async def describe(
    folder: Path, group_id: str, *, as_json: bool, has_partitions: bool = False
) -> None:
    """Print how a group stands. `has_partitions`: also each partition's lag. Raises CommandRefused,
    NoControlSocket."""
    page = await fetch_view(folder, DescribeGroup(group_id=group_id), GroupPage)
    if as_json:
        _print_json(page.model_dump_json())
    else:
        terminal.console().print(terminal.group_text(page, has_partitions=has_partitions))


async def client(folder: Path, client_id: str, *, as_json: bool) -> None:
    """Print how a client stands in all its groups. Raises CommandRefused, NoControlSocket."""
    pages = [
        await fetch_view(process, DescribeClient(client_id=client_id), ClientPage)
        for process in find_processes(folder)
    ]
    members = [member for page in pages for member in page.members]
    if as_json:
        for page in pages:
            _print_json(page.model_dump_json())
    elif members:
        left_out = sum(page.left_out for page in pages)
        terminal.console().print(terminal.client_table(members, left_out))
    else:
        _print("no group has a member with this client id")


async def readiness(folder: Path, group_id: str | None, *, as_json: bool) -> None:
    """Print whether a group is ready for the new protocol, or each. Raises CommandRefused,
    NoControlSocket."""
    if group_id is None:
        group_ids = [line.group_id for line in await all_groups(folder) if line.gateway is None]
        if not group_ids and not as_json:
            sys.stdout.write("no groups yet\n")
    else:
        group_ids = [group_id]
    for assessed_id in group_ids:
        question = AssessGroup(group_id=assessed_id)  # which may ask the cluster
        group_readiness = await fetch_view(folder, question, GroupReadiness, limit_s=ANSWER_S)
        if as_json:
            _print_json(group_readiness.model_dump_json())
        else:
            terminal.console().print(terminal.readiness_text(group_readiness))


async def watch(
    folder: Path, group_id: str | None, *, as_json: bool, layout: ListLayout = USUAL_LAYOUT
) -> None:
    """Show a group, or all of them, until Ctrl-C. A gateway that answered once is waited for, so
    that a restart does not end the watch. Raises CommandRefused, NoControlSocket if it never
    did."""
    console = terminal.console()
    if as_json or not console.is_terminal:
        await _follow(folder, group_id, as_json=as_json)
        return
    latest = LatestScreen()
    source = _GroupScreen(folder, group_id) if group_id else _ListScreen(folder, layout)
    latest.record(await source.fetch())
    with single_keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_fetching, source, latest)
            if keys is not None:
                nursery.start_soon(_obey_keys, keys, source, latest)
            while True:
                width, height = console.size
                live.update(latest.screen(width, height), refresh=True)
                with trio.move_on_after(DRAW_INTERVAL_S):
                    await latest.changed.wait()


class LatestScreen:
    """What the gateway has answered last, and how long ago."""

    def __init__(self) -> None:
        self.changed = trio.Event()
        """Set when there is something new to draw, and then replaced by a new event."""
        self._draw: Draw = lambda _width, _height: ""
        self._answered_s = trio.current_time()
        self._trouble = ""

    def record(self, draw: Draw) -> None:
        """The gateway has answered."""
        self._draw, self._trouble, self._answered_s = draw, "", trio.current_time()
        self._wake()

    def redraw(self) -> None:
        """Draw the last answer again, in another way."""
        self._wake()

    def record_failure(self, reason: str) -> None:
        """The gateway has not answered."""
        self._trouble = reason
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    @property
    def age_s(self) -> float:
        """How old the picture is."""
        return trio.current_time() - self._answered_s

    def screen(self, width: int, height: int) -> RenderableType:
        """The latest picture. Once it is old, the first lines say so."""
        if self.age_s < STALE_AFTER_S:
            return self._draw(width, height)
        lines = terminal.stale_lines(self.age_s, self._trouble, width)
        return Group(*lines, self._draw(width, height - len(lines)))


class _Screen(Protocol):
    def press(self, key: str) -> bool:
        """Obey a key. Whether it is one of this screen."""
        ...

    async def fetch(self) -> Draw:
        """What to draw now. Raises CommandRefused, NoControlSocket."""
        ...


class _ListScreen:
    def __init__(self, folder: Path, layout: ListLayout) -> None:
        self._folder = folder
        self._known = KnownGroups(folder)
        self._layout = layout

    async def fetch(self) -> Draw:
        await self._known.fetch()
        groups, unlisted = self._known.lines(), await _name_unlisted(self._folder)

        def draw(width: int, height: int) -> RenderableType:
            foot = "\n".join([*map(escape, unlisted), f"s: sorted by {self._layout.sorted_by}"])
            last = Text(foot, style="dim", no_wrap=True, overflow="ellipsis")
            rows = height - 1 - foot.count("\n")
            table = terminal.groups_table(
                groups, width=width, height=rows, **self._layout._asdict()
            )
            return Group(table, last)

        return draw

    def press(self, key: str) -> bool:
        """Sort by the next column."""
        if key != "s":
            return False
        names = (*terminal.COLUMNS,)
        following = names.index(self._layout.sorted_by) + 1
        self._layout = self._layout._replace(sorted_by=names[following % len(names)])
        return True


class _GroupScreen:
    def __init__(self, folder: Path, group_id: str) -> None:
        self._folder = folder
        self._group_id = group_id
        self._bands = terminal.Bands()
        self._has_details = False

    def press(self, key: str) -> bool:
        """Show events with all of their fields, or the story again."""
        if key != "d":
            return False
        self._has_details = not self._has_details
        return True

    async def fetch(self) -> Draw:
        page = await fetch_view(self._folder, DescribeGroup(group_id=self._group_id), GroupPage)
        latest = await fetch_view(self._folder, LatestEvents(group_id=self._group_id), Events)
        self._bands.add(page)
        return lambda width, height: terminal.screen(
            page,
            self._bands,
            latest.events,
            width=width,
            height=height,
            has_details=self._has_details,
        )


async def _obey_keys(descriptor: int, source: _Screen, latest: LatestScreen) -> None:
    async for key in read_keys(descriptor):
        if source.press(key):
            latest.redraw()


async def _keep_fetching(source: _Screen, latest: LatestScreen) -> None:
    while True:
        await trio.sleep(LOOK_INTERVAL_S)
        try:
            latest.record(await source.fetch())
        except (CommandRefused, NoControlSocket) as error:
            latest.record_failure(str(error))


async def _follow(folder: Path, group_id: str | None, *, as_json: bool) -> None:
    """Print a line whenever a group stands differently, and to stderr when the gateway stops and
    resumes answering."""
    last: dict[str, str] = {}
    known = KnownGroups(folder)
    has_answered = is_lost = False
    while True:
        groups: Sequence[GroupLine] = ()
        try:
            if group_id is None:
                groups = await known.fetch()
            else:
                groups = [await fetch_view(folder, DescribeGroup(group_id=group_id), GroupPage)]
            if is_lost:
                _print_error("the gateway answers again")
            has_answered, is_lost = True, False
        except (CommandRefused, NoControlSocket) as error:
            if not has_answered:
                raise
            if not is_lost:
                _print_error(f"{error}; waiting for it")
            is_lost = True
        for group in groups:
            line = group.model_dump_json() if as_json else terminal.one_line(group)
            if last.get(group.group_id) != line:
                last[group.group_id] = line
                (_print_json if as_json else _print)(line)
        sys.stdout.flush()
        await trio.sleep(LOOK_INTERVAL_S)


class KnownGroups:
    """All groups as the processes of the gateway have shown them. A request gets only what has
    changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[Path, _KnownOfProcess] = {}

    def lines(self) -> Sequence[GroupLine]:
        """The groups by id."""
        lines = [line for known in self._processes.values() for line in known.lines.values()]
        return sorted(lines, key=_group_id)

    async def fetch(self) -> Sequence[GroupLine]:
        """The groups that have changed. Raises CommandRefused, NoControlSocket."""
        folders = find_processes(self._folder)
        known = self._processes
        self._processes = {one: known.get(one) or _KnownOfProcess(one) for one in folders}
        return [line for one in self._processes.values() for line in await one.fetch()]


class _KnownOfProcess:
    """The groups of one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._since = 0
        self.lines: dict[str, GroupLine] = {}

    async def fetch(self) -> Sequence[GroupLine]:
        """The groups that have changed. Raises CommandRefused, NoControlSocket."""
        changed: list[GroupLine] = []
        since, after, revision = self._since, "", 0
        while True:
            part = await fetch_view(self._folder, ListGroups(after=after, since=since), GroupList)
            if not after:
                revision = part.revision
                if part.is_complete:
                    since = 0
                    self.lines.clear()
                for group_id in part.gone:
                    self.lines.pop(group_id, None)
            changed += part.groups
            self.lines.update((line.group_id, line) for line in part.groups)
            if part.next_after is None:
                break
            after = part.next_after
        self._since = revision
        return changed


async def all_groups(folder: Path) -> Sequence[GroupLine]:
    """How each group stands, by id. Raises CommandRefused, NoControlSocket."""
    known = KnownGroups(folder)
    await known.fetch()
    return known.lines()


def _group_id(line: GroupLine) -> str:
    return line.group_id


def _print_json(line: str) -> None:
    _print(terminal.as_json(json.loads(line)))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _print_error(line: str) -> None:
    sys.stderr.write(f"groupferry: {escape(line)}\n")
