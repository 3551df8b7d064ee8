"""What any process of a fleet answers for all of them: at the one port of the admin API, a client
meets any process.

What concerns a group is asked of the process that has it, at its control socket, and what concerns
the gateway, of each.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from gateway.board.board import EVENTS_MAX, GROUPS_MAX
from gateway.board.recent_events import RecentEvents
from gateway.board.views import (
    ClientPage,
    EventLine,
    Events,
    GatewayLine,
    GroupList,
    GroupPage,
    GroupReadiness,
    Readiness,
    View,
)
from gateway.control.client import (
    ANSWER_S,
    VIEW_TIMEOUT_S,
    fetch_view,
    find_processes,
    get_metrics,
    give,
    pass_on,
)
from gateway.control.control_socket import NoControlSocket
from gateway.control.handlers import Handlers
from gateway.control.messages import (
    AssessGroup,
    CommandRefused,
    DescribeClient,
    DescribeGateway,
    DescribeGroup,
    DrainCommand,
    LatestEvents,
    ListGroups,
    Order,
    Outcome,
    Question,
    RemoveCommand,
    RestartCommand,
)
from gateway.fleet.member import FleetMember

_VIEWS: Mapping[type[Question], type[View]] = {
    DescribeGroup: GroupPage,
    AssessGroup: GroupReadiness,
    LatestEvents: Events,
    ListGroups: GroupList,
    DescribeGateway: GatewayLine,
}
PROCESS_UP = "groupferry_process_up"
FOLLOW_INTERVAL_S = 1.0
"""How often the others are asked for their events while a client follows them."""


class FleetDoor:
    """Answers like `Handlers`, for all processes."""

    def __init__(
        self,
        own: Handlers,
        measure: Callable[[], Awaitable[bytes]],
        member: FleetMember,
        folder: Path,
        events: RecentEvents,
    ) -> None:
        """`measure`: the metrics of this process. `folder`: the state folder of the fleet.
        `events`: those of all processes, for streams; this process's own arrive there by
        themselves."""
        self._own = own
        self._measure_own = measure
        self._member = member
        self._folder = folder
        self.events = events
        self.followers = 0
        """The streams of events."""

    async def show(self, question: Question) -> View:
        """What was asked for. Raises CommandRefused."""
        match question:
            case ListGroups(after=after):
                return await self._list_groups(after)
            case DescribeGateway():
                return _add_up(await self._ask_each(question, GatewayLine))
            case DescribeClient():
                return _merge_client(await self._ask_each(question, ClientPage, needs_all=True))
            case LatestEvents(group_id=None):
                return _merge_events(await self._ask_each(question, Events), self.events)
            case _:
                group_id = question.group_id or ""
        if self._find_folder(group_id) is None:
            return await self._own.show(question)
        limit_s = ANSWER_S if isinstance(question, AssessGroup) else VIEW_TIMEOUT_S
        try:
            return await fetch_view(self._folder, question, _VIEWS[type(question)], limit_s=limit_s)
        except NoControlSocket as error:
            raise CommandRefused(str(error)) from None

    async def answer(self, order: Order, given_by: str) -> Outcome:
        """Have a command carried out. Raises CommandRefused."""
        try:
            if isinstance(order, RestartCommand):
                return await self._own.answer(order, given_by)
            if isinstance(order, DrainCommand | RemoveCommand):
                return await give(self._folder, order)
            folder = self._find_folder(order.group_id)
            if folder is None:
                return await self._own.answer(order, given_by)
            return await pass_on(folder, order, given_by)
        except NoControlSocket as error:
            raise CommandRefused(str(error)) from None

    async def readiness(self) -> Readiness:
        """Whether any process can serve clients, and otherwise why this one cannot."""
        own = await self._own.show(DescribeGateway())
        assert isinstance(own, GatewayLine)
        if own.readiness.is_ready:
            return own.readiness
        try:
            others = await self._ask_each(DescribeGateway(), GatewayLine)
        except CommandRefused:
            return own.readiness
        ready = (gateway.readiness for gateway in others if gateway.readiness.is_ready)
        return next(ready, own.readiness)

    async def measure(self) -> bytes:
        """The metrics of all processes, each sample with the number of its process."""
        texts: dict[int, str] = {}

        async def measure_one(slot: int, folder: Path) -> None:
            try:
                if slot == self._member.process:
                    texts[slot] = (await self._measure_own()).decode()
                    return
                texts[slot] = (await get_metrics(folder)).decode()
            except (CommandRefused, NoControlSocket):
                pass  # it is away, as its sample of `up` says

        folders = self._find_folders()
        async with trio.open_nursery() as nursery:
            for slot, folder in enumerate(folders):
                nursery.start_soon(measure_one, slot, folder)
        return join_metrics(texts, self._member.processes).encode()

    async def follow_others(self) -> None:
        """Take the events of the other processes while a client follows them, until cancelled."""
        seen: dict[str, int] = {}
        while True:
            await trio.sleep(FOLLOW_INTERVAL_S)
            if not self.followers:
                seen.clear()
                continue
            try:
                others = await self._ask_each(LatestEvents(), Events, with_own=False)
            except CommandRefused:
                continue  # the next round may have more luck
            for answered in others:
                last = seen.get(answered.stream_id, answered.last)
                for event in answered.events:
                    if event.position > last:
                        group_id = json.loads(event.line).get("group_id")
                        self.events.add(event.line.encode(), event.sentence, group_id)
                seen[answered.stream_id] = max(last, answered.last)

    async def _list_groups(self, after: str) -> GroupList:
        """A part of the groups of all processes. It is always complete: a process that has taken
        groups over knows nothing of earlier lists. Raises CommandRefused."""
        parts = await self._ask_each(ListGroups(after=after), GroupList, needs_all=True)
        ends = [part.next_after for part in parts if part.next_after is not None]
        lines = {line.group_id: line for part in parts for line in part.groups}
        # Beyond the end of a part, groups of that process may be missing.
        group_ids = sorted(name for name in lines if not ends or name <= min(ends))
        is_last = not ends and len(group_ids) <= GROUPS_MAX
        group_ids = group_ids[:GROUPS_MAX]
        return GroupList(
            groups=tuple(lines[name] for name in group_ids),
            next_after=None if is_last else group_ids[-1],
        )

    async def _ask_each(
        self,
        question: Question,
        view: type[Any],
        *,
        with_own: bool = True,
        needs_all: bool = False,
    ) -> Sequence[Any]:
        """What each process shows. Those that do not answer are left out, unless all are needed;
        then CommandRefused is raised."""
        folders = self._find_folders()
        own_folder = folders[self._member.process]
        shown: dict[Path, Any] = {}
        failures: list[str] = []

        async def ask_one(folder: Path) -> None:
            try:
                if folder == own_folder:
                    shown[folder] = await self._own.show(question)
                else:
                    shown[folder] = await fetch_view(folder, question, view)
            except (CommandRefused, NoControlSocket) as error:
                failures.append(str(error))

        async with trio.open_nursery() as nursery:
            for folder in folders:
                if with_own or folder != own_folder:
                    nursery.start_soon(ask_one, folder)
        if failures and (needs_all or not shown) and with_own:
            raise CommandRefused(f"{failures[0]}; a process is being started again: try again")
        return [shown[folder] for folder in sorted(shown)]

    def _find_folder(self, group_id: str) -> Path | None:
        """The folder of the process that has the group; None if this one answers, because it has
        the group, or another machine has it. Raises CommandRefused."""
        process = self._member.process_of(group_id)
        if process is None or process == self._member.process:
            return None
        return self._find_folders()[process]

    def _find_folders(self) -> Sequence[Path]:
        """The folders of the processes. Raises CommandRefused."""
        try:
            return find_processes(self._folder)
        except NoControlSocket as error:
            raise CommandRefused(str(error)) from None


def _merge_client(pages: Sequence[ClientPage]) -> ClientPage:
    """One client over the groups of all processes."""
    members = [member for page in pages for member in page.members]
    return ClientPage(
        client_id=pages[0].client_id,
        members=tuple(sorted(members, key=lambda member: member.group_id)),
        left_out=sum(page.left_out for page in pages),
    )


def _add_up(lines: Sequence[GatewayLine]) -> GatewayLine:
    """The gateway as a whole."""
    ready = [line for line in lines if line.readiness.is_ready]
    return lines[0].model_copy(
        update={
            "readiness": (ready or lines)[0].readiness,
            "connections": sum(line.connections for line in lines),
            "max_connections": sum(line.max_connections for line in lines),
            "hosted": sum(line.hosted for line in lines),
            "started_ms": min(line.started_ms for line in lines),
            "process": None,
        }
    )


def _merge_events(parts: Sequence[Events], stream: RecentEvents) -> Events:
    """The latest events of all processes, by their times. The next ones come by the stream."""
    lines: list[EventLine] = [line for part in parts for line in part.events]
    lines.sort(key=lambda line: int(json.loads(line.line)["at_ms"]))
    return Events(stream_id=stream.stream_id, last=stream.last, events=tuple(lines[-EVENTS_MAX:]))


def join_metrics(texts: Mapping[int, str], slots: int) -> str:
    """One text from those of processes: each family once, and a label with the process in each
    sample."""
    families: dict[str, list[str]] = {}
    heads: dict[str, list[str]] = {}
    for slot, text in sorted(texts.items()):
        family = ""
        for line in text.splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                head = heads.setdefault(family, [])
                if line not in head:
                    head.append(line)
            elif line:
                families.setdefault(family, []).append(_label(line, slot))
    lines = [
        f"# HELP {PROCESS_UP} 1 if the process of this number answers.",
        f"# TYPE {PROCESS_UP} gauge",
        *(f'{PROCESS_UP}{{process="{slot}"}} {float(slot in texts)}' for slot in range(slots)),
    ]
    for family, samples in families.items():
        lines += [*heads.get(family, []), *samples]
    return "".join(f"{line}\n" for line in lines)


def _label(sample: str, slot: int) -> str:
    """The sample with the number of its process. A label's value may have braces and blanks, a
    metric's name has none."""
    brace, blank = sample.find("{"), sample.find(" ")
    label = f'process="{slot}"'
    if 0 <= brace < blank:
        return f"{sample[: brace + 1]}{label},{sample[brace + 1 :]}"
    return f"{sample[:blank]}{{{label}}}{sample[blank:]}"
