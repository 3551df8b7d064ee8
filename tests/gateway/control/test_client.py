"""What a command prints when the gateway does not answer as it should."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.board.views import Events, GatewayLine
from gateway.control import client
from gateway.control.client import fetch_view, give
from gateway.control.control_socket import NoControlSocket, listening
from gateway.control.messages import (
    AdoptCommand,
    AdoptionAnswer,
    CommandRefused,
    DescribeGateway,
    DescribeGroup,
    DrainAnswer,
    DrainCommand,
    LatestEvents,
    NotKnown,
    Order,
    Question,
    RemovalAnswer,
    RemoveCommand,
)
from gateway.fleet.fleet_state import FILE_NAME, control_folders, open_state, write_state
from gateway.fleet.member import SHARDS, FleetMember
from tests.support.fake_gateway import fake_gateway

COMMAND = AdoptCommand(group_id="g", dry_run=True)
EVENTS = Events(stream_id="s", last=0, events=())
OK, CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 200 OK\r\nConte"


@asynccontextmanager
async def answering(folder: Path, data: bytes | None) -> AsyncIterator[None]:
    """A gateway that answers everything with these bytes; None: not at all."""

    async def answer(stream: trio.SocketStream) -> None:
        assert await stream.receive_some()
        if data is None:
            await trio.sleep_forever()
        else:
            await stream.send_all(data)

    with trio.fail_after(10), listening(folder) as listener:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_listeners, answer, [listener]))
            yield
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"kind":"refusal","reason":"as older gateways answer"}\n', "runs another version"),
        (b"HTTP/1.1 500 Error\r\nContent-Length: 0\r\n\r\n", "runs another version"),
        (OK, "runs another version"),
        (OK[:-1], "ended before it answered"),
        (CUT, "ended before it answered"),
        (b"", "ended before it answered"),
        (None, "did not answer in 0.1 s"),
    ],
)
async def test_whatever_is_no_answer_is_one_line(
    tmp_path: Path, data: bytes | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says what to do."""
    monkeypatch.setattr(client, "ANSWER_S", 0.1 if data is None else 5.0)
    async with answering(tmp_path, data):
        with pytest.raises(CommandRefused, match=reason):
            await give(tmp_path, COMMAND)


async def test_a_view_of_another_version_is_one_line(tmp_path: Path) -> None:
    """Its fields are others."""
    async with fake_gateway(tmp_path, _show_events):
        assert await fetch_view(tmp_path, LatestEvents(group_id="g"), Events) == EVENTS
        with pytest.raises(CommandRefused, match="another version"):
            await fetch_view(tmp_path, DescribeGateway(), GatewayLine)


async def _show_events(_asked: Question | Order, _given_by: str) -> Events:
    return EVENTS


@pytest.mark.parametrize("refusal", [NotKnown, CommandRefused])
async def test_a_group_that_is_not_known_is_told_apart(
    tmp_path: Path, refusal: type[CommandRefused]
) -> None:
    """The admin API of any process says 404, as that of the owner does."""

    async def refuse(_asked: Question | Order, _given_by: str) -> Events:
        raise refusal("not shown")

    async with fake_gateway(tmp_path, refuse):
        with pytest.raises(CommandRefused, match=r"^not shown$") as refused:
            await fetch_view(tmp_path, DescribeGroup(group_id="g"), Events)
    assert type(refused.value) is refusal


# -- a gateway of several processes --------------------------------------------------------------

SLOTS = 2
GROUPS = ("orders", "a", "b", "payments")


class FakeFleet:
    """What has arrived at the control socket of each process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[list[Question | Order]] = [[] for _ in range(SLOTS)]
        self.reasons: list[tuple[str, ...]] = [()] * SLOTS

    async def answer(self, slot: int, command: Question | Order, _given_by: str) -> Any:
        """Answer as the process of a slot."""
        self.commands[slot].append(command)
        match command:
            case AdoptCommand(group_id=group_id):
                return AdoptionAnswer(group_id=group_id, is_adopted=True)
            case DrainCommand(dry_run=is_trial):
                return DrainAnswer(is_draining=not is_trial, connections=slot + 1, hosted=10)
            case RemoveCommand(dry_run=is_trial):
                return RemovalAnswer(
                    is_removed=not is_trial, redirected=3 * slot, reasons=self.reasons[slot]
                )
            case _:
                return EVENTS


@asynccontextmanager
async def fake_fleet(folder: Path) -> AsyncIterator[FakeFleet]:
    """A fleet for the length of the block."""
    write_state(folder, open_state(folder, SLOTS))
    fleet = FakeFleet(folder)
    async with AsyncExitStack() as processes:
        for slot, control_folder in enumerate(control_folders(folder)):
            control_folder.mkdir(parents=True)
            process = fake_gateway(control_folder, partial(fleet.answer, slot))
            await processes.enter_async_context(process)
        yield fleet


async def test_a_command_reaches_the_process_that_has_the_group(tmp_path: Path) -> None:
    """No other process gets the command."""
    member = FleetMember(slot=0, slots=SLOTS, shards=SHARDS)
    async with fake_fleet(tmp_path) as fleet:
        for group_id in GROUPS:
            await give(tmp_path, AdoptCommand(group_id=group_id))
            await fetch_view(tmp_path, LatestEvents(group_id=group_id), Events)
    for slot in range(SLOTS):
        own = [group_id for group_id in GROUPS if member.slot_of(group_id) == slot]
        assert [command.group_id for command in fleet.commands[slot][::2]] == own  # type: ignore[union-attr]
        assert len(fleet.commands[slot]) == 2 * len(own) > 0


async def test_a_drain_counts_all_processes_and_is_given_to_one(tmp_path: Path) -> None:
    """Its parent drains the others."""
    async with fake_fleet(tmp_path) as fleet:
        outcome = await give(tmp_path, DrainCommand())
    assert outcome == DrainAnswer(is_draining=True, connections=3, hosted=20)
    trial = DrainCommand(dry_run=True)
    assert fleet.commands == [[trial, DrainCommand()], [trial]]


async def test_all_processes_are_removed_or_none(tmp_path: Path) -> None:
    """A client that one has sent away must not find another that serves it."""
    async with fake_fleet(tmp_path) as fleet:
        outcome = await give(tmp_path, RemoveCommand())
        assert outcome == RemovalAnswer(is_removed=True, redirected=3)
        assert [commands[-1] for commands in fleet.commands] == [RemoveCommand()] * SLOTS
        fleet.reasons[1] = ("it hosts g",)
        outcome = await give(tmp_path, RemoveCommand())
        assert (outcome.is_removed, outcome.reasons) == (False, ("it hosts g",))
        assert [commands[-1] for commands in fleet.commands] == [RemoveCommand(dry_run=True)] * 2


async def test_a_process_that_is_away_is_one_line(tmp_path: Path) -> None:
    """Half of an answer would look like a whole one."""
    write_state(tmp_path, open_state(tmp_path, SLOTS))
    with pytest.raises(NoControlSocket, match="no gateway is running"):
        await give(tmp_path, DrainCommand())
    with pytest.raises(NoControlSocket, match="no gateway is running"):
        await fetch_view(tmp_path, LatestEvents(group_id="g"), Events)


async def test_an_unreadable_state_of_a_fleet_is_one_line(tmp_path: Path) -> None:
    """The line says which process to ask."""
    write_state(tmp_path, open_state(tmp_path, SLOTS))
    (tmp_path / FILE_NAME).write_text("{}")
    for command in (DrainCommand(), AdoptCommand(group_id="g")):
        with pytest.raises(NoControlSocket, match="not readable"):
            await give(tmp_path, command)


def test_an_older_gateways_count_of_redirected_clients_is_read() -> None:
    """Its field was called `told`."""
    answer = RemovalAnswer.model_validate_json('{"is_removed": true, "told": 3}')
    assert answer.redirected == 3
