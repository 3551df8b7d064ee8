"""What a command does with the groups of the gateway, and which parties learn of it."""

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
    REASONS_MAX,
    SHUTS_DOWN,
    AdoptCommand,
    AdoptionAnswer,
    CommandRefused,
    DescribeGroup,
    DrainAnswer,
    DrainCommand,
    Outcome,
    RemovalAnswer,
    RemoveCommand,
)
from gateway.data_path.removal import Removal
from gateway.events.event import GatewayEvent
from gateway.fleet.member import SHARDS, FleetMember
from gateway.fleet.parent_link import ParentLink
from gateway.fleet.words import WORD_BYTES_MAX, AskDrain, decode, make_link
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
        """Raise an error: there is no such group."""
        if group_id == "unreadable":
            raise StateLogError("the disk is gone")
        raise NoSuchGroup


class ApiContext:
    """Handlers, and the events that they emit."""

    def __init__(
        self,
        groups: FakeGroups,
        member: FleetMember | None = None,
        link: ParentLink | None = None,
    ) -> None:
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
            link=link,
        )

    async def adopt(self, group_id: str = "\x01" * 32_767, *, dry_run: bool = False) -> Outcome:
        """The outcome of a command."""
        return await self.handlers.answer(AdoptCommand(group_id=group_id, dry_run=dry_run), "me")

    @property
    def audits(self) -> Sequence[dict[str, Any]]:
        """The fields of the events."""
        return [event.fields for event, _ in self.told]


async def test_the_outcome_is_that_of_the_groups() -> None:
    """The request is passed on unchanged, too."""
    groups = FakeGroups()
    outcome = await ApiContext(groups).adopt(dry_run=True)
    assert isinstance(outcome, AdoptionAnswer)
    assert (outcome.is_adopted, outcome.reasons, outcome.held_ms) == (True, (), 120)
    assert groups.dry_runs == [True]


async def test_the_reasons_are_bounded() -> None:
    """Clients choose the ids in them. The answer fits into its line; the event has ten."""
    context = ApiContext(FakeGroups(*["\x01" * 70_000] * (REASONS_MAX + 5)))
    outcome = await context.adopt()
    assert isinstance(outcome, AdoptionAnswer)
    assert len(outcome.reasons) == REASONS_MAX + 1
    assert outcome.reasons[-1] == "5 more"
    assert len(outcome.model_dump_json()) < ANSWER_BYTES_MAX
    assert len(context.audits[0]["reasons"]) == 10


async def test_an_event_names_who_gave_a_command() -> None:
    """The event belongs to the group."""
    context = ApiContext(FakeGroups("b is outside"))
    await context.adopt("g", dry_run=True)
    assert [group_id for _, group_id in context.told] == ["g"]
    (audit,) = context.audits
    assert audit == {
        "command": "adopt",
        "is_trial": True,
        "given_by": "me",
        "reasons": ["b is outside"],
    }


async def test_a_refused_command_says_why() -> None:
    """The answer has the words of its handler."""
    context = ApiContext(FakeGroups(failure=CommandRefused("groups_adopt is never")))
    with pytest.raises(CommandRefused, match=r"^groups_adopt is never$"):
        await context.adopt("g")
    assert context.audits[0]["reasons"] == ["groups_adopt is never"]


async def test_a_command_whose_group_cannot_be_read_says_why() -> None:
    """A damaged log is no bug."""
    context = ApiContext(FakeGroups(failure=StateLogError("the disk is gone")))
    reason = "the state log cannot be read, look at state_log_failed in the log: the disk is gone"
    with capture_logs() as lines, pytest.raises(CommandRefused, match=f"^{reason}$"):
        await context.adopt("g")
    assert not lines


async def test_a_bug_in_a_command_does_not_end_the_gateway() -> None:
    """The log has the bug, the client gets one line, and the event is written."""
    context = ApiContext(FakeGroups(failure=ZeroDivisionError()))
    with capture_logs() as lines, pytest.raises(CommandRefused, match="look at its log"):
        await context.adopt("g")
    assert [line["event"] for line in lines] == ["command_failed"]
    assert len(context.audits) == 1


async def test_a_command_without_an_end_is_answered(autojump_clock: MockClock) -> None:
    """The client learns where to look."""
    context = ApiContext(FakeGroups())
    with pytest.raises(CommandRefused, match="groupferry events"):
        await context.adopt("endless")
    assert len(context.audits) == 1


async def test_a_command_ends_when_the_gateway_stops() -> None:
    """Its client and the event get the reason."""
    context = ApiContext(FakeGroups())

    async def stop() -> None:
        await trio.testing.wait_all_tasks_blocked()
        context.stop.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        with pytest.raises(CommandRefused, match=r"^the gateway is shutting down: "):
            await context.adopt("endless")
    assert context.audits[0]["reasons"] == [SHUTS_DOWN]


@pytest.mark.parametrize(
    ("group_id", "reason"),
    [
        ("gone", "does not know this group"),
        ("unreadable", "look at state_log_failed in the log: the disk is gone"),
    ],
)
async def test_a_question_that_has_no_answer_is_refused(group_id: str, reason: str) -> None:
    """Nothing was changed, so there is no event."""
    context = ApiContext(FakeGroups())
    with pytest.raises(CommandRefused, match=reason):
        await context.handlers.show(DescribeGroup(group_id=group_id))
    assert context.told == []


async def test_a_removal_begins_once_no_group_is_hosted() -> None:
    """The event of a removal belongs to no group. Without clients the removal ends immediately."""
    context = ApiContext(FakeGroups("orders"))
    answer = await context.handlers.answer(RemoveCommand(), "me")
    hosted = "orders is hosted: groupferry release orders"
    assert answer == RemovalAnswer(is_removed=False, reasons=(hosted,))
    context = ApiContext(FakeGroups())
    assert await context.handlers.answer(RemoveCommand(dry_run=True), "me") == RemovalAnswer(
        is_removed=False
    )
    assert await context.handlers.answer(RemoveCommand(), "me") == RemovalAnswer(is_removed=True)
    assert [(audit["command"], audit["is_trial"]) for audit in context.audits] == [
        ("remove", True),
        ("remove", False),
    ]
    assert [group_id for _, group_id in context.told] == [None, None]


async def test_one_removal_runs_at_a_time(autojump_clock: MockClock) -> None:
    """Two would not agree on who was told."""
    context = ApiContext(FakeGroups())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(context.removal.run, lambda: ("held",))
        context.removal._began_s = trio.current_time()
        with pytest.raises(CommandRefused, match=r"^another command removes it already: wait for"):
            await context.handlers.answer(RemoveCommand(), "me")


async def test_a_drain_of_a_process_drains_the_fleet() -> None:
    """Its parent decides, which may be about to restart that process."""
    parent, own = make_link()
    with parent, own:
        context = ApiContext(FakeGroups("orders"), link=ParentLink(own))
        answer = await context.handlers.answer(DrainCommand(), "me")
        assert isinstance(answer, DrainAnswer)
        assert answer.is_draining
        assert not context.stop.is_set()
        assert decode(parent.recv(WORD_BYTES_MAX)) == AskDrain()


async def test_a_drain_ends_the_gateway_once_it_is_answered() -> None:
    """A dry run says what it would end. It belongs to no group."""
    context = ApiContext(FakeGroups("orders"))
    trial = await context.handlers.answer(DrainCommand(dry_run=True), "me")
    assert trial == DrainAnswer(is_draining=False, connections=2, hosted=1)
    assert not context.stop.is_set()
    answer = await context.handlers.answer(DrainCommand(), "me")
    assert answer == DrainAnswer(is_draining=True, connections=2, hosted=1)
    assert context.stop.is_set()
    assert [group_id for _, group_id in context.told] == [None, None]


async def test_another_process_s_group_is_refused_by_name_of_the_process() -> None:
    """Without the refusal this process would not know the group, or adopt it a second time."""
    member = FleetMember(slot=0, slots=2, shards=SHARDS)
    own = next(name for name in "abcdef" if member.owns(name))
    other = next(name for name in "abcdef" if not member.owns(name))
    groups = FakeGroups()
    context = ApiContext(groups, member)
    assert isinstance(await context.adopt(own), AdoptionAnswer)
    with pytest.raises(CommandRefused, match=r"^process 1 of the gateway has") as refused:
        await context.adopt(other)
    with pytest.raises(CommandRefused, match="process 1"):
        await context.handlers.show(DescribeGroup(group_id=other))
    assert groups.dry_runs == [False]
    assert context.audits[1]["reasons"] == [str(refused.value)]
