"""What any process of a fleet answers for all of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from gateway.board.recent_events import RecentEvents
from gateway.board.views import ClientMember, ClientPage, EventLine, Events, GroupLine, GroupList
from gateway.control import fleet_door
from gateway.control.control_socket import NoControlSocket
from gateway.control.fleet_door import FleetDoor, join_metrics
from gateway.control.handlers import Handlers
from gateway.control.messages import (
    CommandRefused,
    DescribeClient,
    DescribeGroup,
    HoldCommand,
    LatestEvents,
    ListGroups,
    Order,
    Outcome,
    PolicySet,
    Question,
)
from gateway.fleet.member import SHARDS, FleetMember

MEMBER = FleetMember(slot=0, slots=2, shards=SHARDS)
OWN = next(name for name in "abcdef" if MEMBER.owns(name))
OTHER = next(name for name in "abcdef" if not MEMBER.owns(name))


def group_list(*group_ids: str, next_after: str | None = None) -> GroupList:
    """A part of a list."""
    lines = tuple(GroupLine.model_construct(group_id=group_id) for group_id in group_ids)
    return GroupList(groups=lines, next_after=next_after)


def client_page(group_id: str) -> ClientPage:
    """A client in a group of a process, which leaves one more out."""
    member = ClientMember.model_construct(group_id=group_id)
    return ClientPage(client_id="c", members=(member,), left_out=1)


def events(*times_ms: int) -> Events:
    """The latest events of a process."""
    lines = [
        EventLine(position=number, line=f'{{"at_ms":{at_ms}}}', sentence="")
        for number, at_ms in enumerate(times_ms, 1)
    ]
    return Events(stream_id="s", last=len(lines), events=tuple(lines))


class Processes:
    """Two processes: this one, and another one behind its control socket."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: Mapping[int, Any] = {}
        """What each shows."""
        self.asked: list[Question] = []
        """What the other one was asked."""
        self.orders: list[tuple[Order, str]] = []
        """What the other one was told to do, and in whose name."""
        self.is_other_away = False
        self._folder = folder
        monkeypatch.setattr(fleet_door, "fetch_view", self._fetch_view)
        monkeypatch.setattr(fleet_door, "pass_on", self._pass_on)
        monkeypatch.setattr(
            fleet_door, "find_processes", lambda folder: [folder / "0", folder / "1"]
        )
        self.door = FleetDoor(cast(Handlers, self), self.measure, MEMBER, folder, RecentEvents())

    async def show(self, _question: Question) -> Any:
        """Answer as this process's handlers."""
        return self.shown[0]

    async def answer(self, _order: Order, given_by: str) -> Any:
        """Carry out a command as this process's handlers."""
        raise CommandRefused(f"own, {given_by}")

    async def measure(self) -> bytes:
        """The metrics of this process."""
        return b""

    async def _fetch_view(self, _folder: Path, question: Question, *_: Any, **__: Any) -> Any:
        if self.is_other_away:
            raise NoControlSocket("no gateway is running")
        self.asked.append(question)
        return self.shown[1]

    async def _pass_on(self, folder: Path, order: Order, given_by: str) -> Outcome:
        assert folder == self._folder / "1"
        self.orders.append((order, given_by))
        return PolicySet(group_id=OTHER, policy="hold")


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    """Two processes."""
    return Processes(tmp_path, monkeypatch)


async def test_a_list_has_the_groups_of_all_processes(processes: Processes) -> None:
    """The groups are ordered by id."""
    processes.shown = {0: group_list("a", "c"), 1: group_list("b")}
    shown = cast(GroupList, await processes.door.show(ListGroups()))
    assert [line.group_id for line in shown.groups] == ["a", "b", "c"]
    assert (shown.next_after, shown.is_complete) == (None, True)


async def test_a_part_of_a_list_ends_where_the_first_process_s_part_does(
    processes: Processes,
) -> None:
    """Beyond it that process may have groups which it has not named yet."""
    processes.shown = {0: group_list("a", "b", next_after="b"), 1: group_list("c", "d")}
    shown = cast(GroupList, await processes.door.show(ListGroups()))
    assert [line.group_id for line in shown.groups] == ["a", "b"]
    assert shown.next_after == "b"


async def test_a_list_without_the_groups_of_a_process_is_none(processes: Processes) -> None:
    """Groups whose process is being started again do not count as gone."""
    processes.shown = {0: group_list("a")}
    processes.is_other_away = True
    with pytest.raises(CommandRefused, match="try again"):
        await processes.door.show(ListGroups())


async def test_a_client_is_shown_over_the_groups_of_all_processes(processes: Processes) -> None:
    """The groups are ordered by id. Without a process, some of its groups would be missing."""
    processes.shown = {0: client_page("b"), 1: client_page("a")}
    shown = cast(ClientPage, await processes.door.show(DescribeClient(client_id="c")))
    assert [member.group_id for member in shown.members] == ["a", "b"]
    assert (shown.client_id, shown.left_out) == ("c", 2)
    processes.is_other_away = True
    with pytest.raises(CommandRefused, match="try again"):
        await processes.door.show(DescribeClient(client_id="c"))


async def test_a_group_is_shown_by_the_process_that_has_it(processes: Processes) -> None:
    """Whichever the client has met."""
    processes.shown = {0: group_list("own"), 1: group_list("other")}
    assert await processes.door.show(DescribeGroup(group_id=OWN)) == processes.shown[0]
    assert await processes.door.show(DescribeGroup(group_id=OTHER)) == processes.shown[1]
    assert processes.asked == [DescribeGroup(group_id=OTHER)]


async def test_processes_that_cannot_be_found_are_a_refusal(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lack of free file descriptors is one cause. Followers of events are not interrupted."""

    def fail(_folder: Path) -> None:
        raise NoControlSocket("too many open files")

    monkeypatch.setattr(fleet_door, "find_processes", fail)
    with pytest.raises(CommandRefused, match="too many open files"):
        await processes.door.show(ListGroups())
    monkeypatch.setattr(fleet_door, "FOLLOW_INTERVAL_S", 0.001)
    processes.door.followers = 1
    with trio.move_on_after(0.05) as rounds:
        await processes.door.follow_others()
    assert rounds.cancelled_caught


async def test_a_command_reaches_the_owner_with_the_name_of_who_gave_it(
    processes: Processes,
) -> None:
    """The event about it names that client, not a process."""
    order = HoldCommand(group_id=OTHER)
    answer = await processes.door.answer(order, "admin API: h")
    assert answer == PolicySet(group_id=OTHER, policy="hold")
    assert processes.orders == [(order, "admin API: h")]
    with pytest.raises(CommandRefused, match=r"^own, admin API: h$"):
        await processes.door.answer(HoldCommand(group_id=OWN), "admin API: h")


async def test_the_latest_events_of_all_processes_stand_by_their_times(
    processes: Processes,
) -> None:
    """The events of a process that is away are missing."""
    processes.shown = {0: events(1, 4), 1: events(2, 3)}
    shown = cast(Events, await processes.door.show(LatestEvents()))
    assert [line.line for line in shown.events] == [f'{{"at_ms":{at_ms}}}' for at_ms in range(1, 5)]
    processes.is_other_away = True
    shown = cast(Events, await processes.door.show(LatestEvents()))
    assert len(shown.events) == 2


def test_each_sample_has_the_number_of_its_process() -> None:
    """Each family stands once, as Prometheus requires."""
    text = (
        "# HELP groupferry_x_total About.\n# TYPE groupferry_x_total counter\n"
        'groupferry_x_total{group="a b} {"} 2.0\n'
        "# HELP groupferry_y Other.\n# TYPE groupferry_y gauge\ngroupferry_y 7.0\n"
    )
    joined = join_metrics({0: text, 2: text.replace("7.0", "8.0")}, slots=3)
    families = {one.name: one for one in text_string_to_metric_families(joined)}
    samples = {
        name: [(sample.labels, sample.value) for sample in family.samples]
        for name, family in families.items()
    }
    assert samples["groupferry_y"] == [({"process": "0"}, 7.0), ({"process": "2"}, 8.0)]
    assert samples["groupferry_x"] == [
        ({"process": "0", "group": "a b} {"}, 2.0),
        ({"process": "2", "group": "a b} {"}, 2.0),
    ]
    assert [value for _labels, value in samples["groupferry_process_up"]] == [1.0, 0.0, 1.0]
