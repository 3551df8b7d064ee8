"""What a command prints when the gateway does not answer as it should."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.board.views import Events
from gateway.control import client
from gateway.control.client import give, look
from gateway.control.control_socket import NoControlSocket, listening
from gateway.control.messages import (
    COMMANDS,
    AdoptCommand,
    AdoptionAnswer,
    Answer,
    Command,
    CommandRefused,
    DescribeGroup,
    DrainAnswer,
    DrainCommand,
    LatestEvents,
    NotKnown,
    RefusalAnswer,
    RemovalAnswer,
    RemoveCommand,
    ViewAnswer,
)
from gateway.fleet.fleet_state import FILE_NAME, control_folders, open_state, write_state
from gateway.fleet.member import SHARDS, FleetMember

COMMAND = AdoptCommand(group_id="g", dry_run=True)
DONE = AdoptionAnswer(group_id="g", is_adopted=False, reasons=("b is outside",))


@asynccontextmanager
async def answering(
    folder: Path, line: bytes | None, command: Command = COMMAND
) -> AsyncIterator[None]:
    """A gateway that answers everything with this line; None: not at all."""

    async def answer(stream: trio.SocketStream) -> None:
        assert COMMANDS.validate_json(await stream.receive_some()) == command
        if line is None:
            await trio.sleep_forever()
        else:
            await stream.send_all(line)

    with trio.fail_after(10), listening(folder) as listener:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_listeners, answer, [listener]))
            yield
            nursery.cancel_scope.cancel()


async def test_an_outcome_is_returned(tmp_path: Path) -> None:
    """The caller gets the outcome that the gateway sent."""
    async with answering(tmp_path, DONE.model_dump_json().encode() + b"\n"):
        assert await give(tmp_path, COMMAND) == DONE


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (RefusalAnswer(reason="not now").model_dump_json().encode() + b"\n", "not now"),
        (b"{}\n", "runs another version"),
        (b"HTTP/1.1 400 Bad Request\r\n", "runs another version"),
        (b"", "ended before it answered"),
        (None, "did not answer in 0.1 s"),
    ],
)
async def test_anything_else_is_one_line(
    tmp_path: Path, line: bytes | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says what to do."""
    monkeypatch.setattr(client, "ANSWER_S", 0.1 if line is None else 5.0)
    async with answering(tmp_path, line):
        with pytest.raises(CommandRefused, match=reason):
            await give(tmp_path, COMMAND)


async def test_an_answer_to_a_question_is_a_view(tmp_path: Path) -> None:
    """One that it is not, is of another version."""
    view = Events(stream_id="s", last=0, events=())
    question = LatestEvents(group_id="g")
    answer = ViewAnswer(view=view.model_dump(mode="json")).model_dump_json().encode() + b"\n"
    async with answering(tmp_path, answer, question):
        assert await look(tmp_path, question, Events) == view
    async with answering(tmp_path, b'{"kind":"shown","view":{"x":1}}\n', question):
        with pytest.raises(CommandRefused, match="another version"):
            await look(tmp_path, question, Events)


# -- a gateway of several processes --------------------------------------------------------------

SLOTS = 2
GROUPS = ("orders", "a", "b", "payments")


class FakeFleet:
    """A control socket for each process, and the commands that have arrived there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[list[Command]] = [[] for _ in range(SLOTS)]
        self.reasons: list[tuple[str, ...]] = [()] * SLOTS

    async def serve(self, slot: int, stream: trio.SocketStream) -> None:
        """Answer a command at the socket of a slot."""
        command = COMMANDS.validate_json(await stream.receive_some())
        self.commands[slot].append(command)
        await stream.send_all(self._answer(slot, command).model_dump_json().encode() + b"\n")

    def _answer(self, slot: int, command: Command) -> Answer:
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
                return ViewAnswer(
                    view=Events(stream_id="s", last=slot, events=()).model_dump(mode="json")
                )


@asynccontextmanager
async def fake_fleet(folder: Path) -> AsyncIterator[FakeFleet]:
    """A fleet for the length of the block."""
    write_state(folder, open_state(folder, SLOTS))
    fleet = FakeFleet(folder)
    with trio.fail_after(10), ExitStack() as sockets:
        async with trio.open_nursery() as nursery:
            for slot, control_folder in enumerate(control_folders(folder)):
                control_folder.mkdir(parents=True)
                listener = sockets.enter_context(listening(control_folder))
                serve = partial(trio.serve_listeners, partial(fleet.serve, slot), [listener])
                await nursery.start(serve)
            yield fleet
            nursery.cancel_scope.cancel()


async def test_a_group_that_is_not_known_is_told_apart(tmp_path: Path) -> None:
    """The admin API of any process says 404, as that of the owner does."""
    question = DescribeGroup(group_id="g")
    refusal = RefusalAnswer(reason="not known", is_unknown=True).model_dump_json().encode() + b"\n"
    async with answering(tmp_path, refusal, question):
        with pytest.raises(NotKnown, match="not known"):
            await look(tmp_path, question, Events)


async def test_a_command_reaches_the_process_that_has_the_group(tmp_path: Path) -> None:
    """No other process gets the command."""
    member = FleetMember(slot=0, slots=SLOTS, shards=SHARDS)
    async with fake_fleet(tmp_path) as fleet:
        for group_id in GROUPS:
            await give(tmp_path, AdoptCommand(group_id=group_id))
            await look(tmp_path, LatestEvents(group_id=group_id), Events)
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
        await look(tmp_path, LatestEvents(group_id="g"), Events)


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
