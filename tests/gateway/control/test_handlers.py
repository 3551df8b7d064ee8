"""What a command does with the groups of the gateway, and who is told of it."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.board.board import Board, NoSuchGroup
from gateway.board.views import View
from gateway.control.handlers import Handlers
from gateway.control.messages import (
    ANSWER_BYTES_MAX,
    COMMANDS,
    REASONS_MAX,
    AdoptCommand,
    AdoptionAnswer,
    Answer,
    CommandRefused,
    DescribeGroup,
    DrainAnswer,
    DrainCommand,
    RefusalAnswer,
    RemovalAnswer,
    RemoveCommand,
    ViewAnswer,
)
from gateway.data_path.removal import Removal
from gateway.events.event import GatewayEvent
from gateway.fleet.member import SHARDS, FleetMember
from gateway.groups.groups import Groups
from gateway.hosting.move_requests import AdoptionOutcome
from gateway.state_log.log import StateLogError


class FakeGroups:
    """Adopts nothing, for these reasons."""

    def __init__(self, *reasons: str, failure: Exception | None = None) -> None:
        self.drivers = self.orders = self
        self.reasons = reasons
        self.failure = failure
        self.dry_runs: list[bool] = []

    async def adopt(self, group_id: str, *, dry_run: bool = False) -> AdoptionOutcome:
        """The outcome."""
        if self.failure is not None:
            raise self.failure
        if group_id == "endless":
            await trio.sleep_forever()
        self.dry_runs.append(dry_run)
        return AdoptionOutcome(
            group_id=group_id, is_adopted=not self.reasons, reasons=self.reasons, held_ms=120
        )

    @contextmanager
    def taking_none(self) -> Iterator[None]:
        """Nothing changes."""
        yield

    def hosted_ids(self) -> Collection[str]:
        """The reasons' groups."""
        return self.reasons


class FakeBoard:
    """Knows no group."""

    def gateway(self) -> SimpleNamespace:
        """Two connections."""
        return SimpleNamespace(connections=2)

    async def group(self, group_id: str) -> View:
        """Nothing."""
        if group_id == "unreadable":
            raise StateLogError("the disk is gone")
        raise NoSuchGroup


class Desk:
    """Handlers, and the events that they tell."""

    def __init__(self, groups: FakeGroups, member: FleetMember | None = None) -> None:
        self.told: list[tuple[GatewayEvent, str | None]] = []
        self.removal = Removal()
        self.stop = trio.Event()
        self.handlers = Handlers(
            cast("Groups", groups),
            cast("Board", FakeBoard()),
            lambda event, group_id=None, owner=None: self.told.append(  # noqa: ARG005
                (event, group_id)
            ),
            self.removal,
            self.stop,
            member=member,
        )

    async def adopt(self, group_id: str = "\x01" * 32_767, *, dry_run: bool = False) -> Answer:
        """The answer to a command."""
        return await self.handlers.answer(AdoptCommand(group_id=group_id, dry_run=dry_run), "me")

    @property
    def audits(self) -> Sequence[dict[str, Any]]:
        """The fields of the events."""
        return [event.fields for event, _ in self.told]


async def test_the_outcome_is_that_of_the_groups() -> None:
    """So is the request."""
    groups = FakeGroups()
    told = await Desk(groups).adopt(dry_run=True)
    assert isinstance(told, AdoptionAnswer)
    assert (told.is_adopted, told.reasons, told.held_ms) == (True, (), 120)
    assert groups.dry_runs == [True]


async def test_the_reasons_are_bounded() -> None:
    """Clients choose the ids in them. The answer fits into its line; the event has ten."""
    desk = Desk(FakeGroups(*["\x01" * 70_000] * (REASONS_MAX + 5)))
    told = await desk.adopt()
    assert isinstance(told, AdoptionAnswer)
    assert len(told.reasons) == REASONS_MAX + 1
    assert told.reasons[-1] == "5 more"
    assert len(told.model_dump_json()) < ANSWER_BYTES_MAX
    assert len(desk.audits[0]["reasons"]) == 10


async def test_an_event_names_who_gave_a_command() -> None:
    """It belongs to the group."""
    desk = Desk(FakeGroups("b is outside"))
    await desk.adopt("g", dry_run=True)
    assert [group_id for _, group_id in desk.told] == ["g"]
    (audit,) = desk.audits
    assert audit == {
        "command": "adopt",
        "is_trial": True,
        "given_by": "me",
        "reasons": ["b is outside"],
    }


async def test_a_refused_command_says_why() -> None:
    """In the words of its handler."""
    desk = Desk(FakeGroups(failure=CommandRefused("groups_adopt is never")))
    assert await desk.adopt("g") == RefusalAnswer(why="groups_adopt is never")
    assert desk.audits[0]["reasons"] == ["groups_adopt is never"]


async def test_a_command_whose_group_cannot_be_read_says_why() -> None:
    """A damaged log is no bug."""
    desk = Desk(FakeGroups(failure=StateLogError("the disk is gone")))
    with capture_logs() as lines:
        refusal = await desk.adopt("g")
    assert refusal == RefusalAnswer(why="the state log cannot be read: the disk is gone")
    assert not lines


async def test_a_bug_in_a_command_ends_no_gateway() -> None:
    """The log has it, the client gets one line, and the event is told."""
    desk = Desk(FakeGroups(failure=ZeroDivisionError()))
    with capture_logs() as lines:
        told = await desk.adopt("g")
    assert isinstance(told, RefusalAnswer)
    assert "its log says why" in told.why
    assert [line["event"] for line in lines] == ["command_failed"]
    assert len(desk.audits) == 1


async def test_a_command_without_an_end_is_answered(autojump_clock: MockClock) -> None:
    """The client learns where to look."""
    desk = Desk(FakeGroups())
    told = await desk.adopt("endless")
    assert isinstance(told, RefusalAnswer)
    assert "groupferry events" in told.why
    assert len(desk.audits) == 1


@pytest.mark.parametrize(
    ("group_id", "why"),
    [("gone", "does not know this group"), ("unreadable", "cannot be read: the disk is gone")],
)
async def test_a_question_that_has_no_answer_is_refused(group_id: str, why: str) -> None:
    """Nothing was changed, so there is no event."""
    desk = Desk(FakeGroups())
    told = await desk.handlers.answer(DescribeGroup(group_id=group_id), "me")
    assert isinstance(told, RefusalAnswer)
    assert why in told.why
    assert desk.told == []


@pytest.mark.parametrize("line", [b'{"command":"groups"}', b'{"command":"gateway"}'])
def test_a_question_is_told_from_an_order_by_its_name(line: bytes) -> None:
    """An answer to it has no other kind than shown."""
    assert not isinstance(COMMANDS.validate_json(line), AdoptCommand)
    assert ViewAnswer(view={}).kind == "shown"


async def test_a_removal_begins_once_no_group_is_hosted() -> None:
    """It belongs to no group. Without clients it is over at once."""
    desk = Desk(FakeGroups("orders"))
    told = await desk.handlers.answer(RemoveCommand(), "me")
    hosted = "orders is hosted: groupferry release orders"
    assert told == RemovalAnswer(is_removed=False, reasons=(hosted,))
    desk = Desk(FakeGroups())
    assert await desk.handlers.answer(RemoveCommand(dry_run=True), "me") == RemovalAnswer(
        is_removed=False
    )
    assert await desk.handlers.answer(RemoveCommand(), "me") == RemovalAnswer(is_removed=True)
    assert [(each["command"], each["is_trial"]) for each in desk.audits] == [
        ("remove", True),
        ("remove", False),
    ]
    assert [group_id for _, group_id in desk.told] == [None, None]


async def test_one_removal_runs_at_a_time(autojump_clock: MockClock) -> None:
    """Two would not agree on who was told."""
    desk = Desk(FakeGroups())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.removal.run, lambda: ("held",))
        desk.removal._began_s = trio.current_time()
        refused = await desk.handlers.answer(RemoveCommand(), "me")
    assert refused == RefusalAnswer(why="another command removes it already")


async def test_a_drain_ends_the_gateway_once_it_is_answered() -> None:
    """A dry run says what it would end. It belongs to no group."""
    desk = Desk(FakeGroups("orders"))
    trial = await desk.handlers.answer(DrainCommand(dry_run=True), "me")
    assert trial == DrainAnswer(is_draining=False, connections=2, hosted=1)
    assert not desk.stop.is_set()
    told = await desk.handlers.answer(DrainCommand(), "me")
    assert told == DrainAnswer(is_draining=True, connections=2, hosted=1)
    assert desk.stop.is_set()
    assert [group_id for _, group_id in desk.told] == [None, None]


async def test_another_process_s_group_is_refused_by_name_of_the_process() -> None:
    """Otherwise this one would say that nobody knows the group, or adopt it a second time."""
    member = FleetMember(slot=0, slots=2, shards=SHARDS)
    own = next(name for name in "abcdef" if member.owns(name))
    other = next(name for name in "abcdef" if not member.owns(name))
    groups = FakeGroups()
    desk = Desk(groups, member)
    assert isinstance(await desk.adopt(own), AdoptionAnswer)
    answer = await desk.adopt(other)
    assert isinstance(answer, RefusalAnswer)
    assert answer.why.startswith("process 1 of the gateway has this group")
    with pytest.raises(CommandRefused, match="process 1"):
        await desk.handlers.show(DescribeGroup(group_id=other))
    assert groups.dry_runs == [False]
    assert desk.audits[1]["reasons"] == [answer.why]
