"""Gives a command to a running gateway."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, overload

import trio
from pydantic import ValidationError

from gateway.board.views import View
from gateway.control.control_socket import connect
from gateway.control.lines import UnreadableLine, receive_line
from gateway.control.messages import (
    ANSWER_BYTES_MAX,
    ANSWERS,
    COMMAND_S,
    RECEIVE_S,
    SEND_S,
    AdoptCommand,
    AdoptionAnswer,
    AllowCommand,
    Answer,
    Command,
    CommandRefused,
    DrainAnswer,
    DrainCommand,
    HoldCommand,
    Order,
    PauseCommand,
    PolicyCommand,
    PolicySet,
    Question,
    RefusalAnswer,
    ReleaseAnswer,
    ReleaseCommand,
    RemovalAnswer,
    RemoveCommand,
    RollCommand,
    ViewAnswer,
)

ANSWER_S = RECEIVE_S + COMMAND_S + SEND_S
"""How long a gateway that works may take to carry out a command."""
LOOK_S = 5.0
"""How long it may take to show what it knows."""


_V = TypeVar("_V", bound=View)
_Outcome = AdoptionAnswer | ReleaseAnswer | PolicySet | DrainAnswer | RemovalAnswer
_OUTCOMES: Mapping[type[Order], type[_Outcome]] = {
    AdoptCommand: AdoptionAnswer,
    ReleaseCommand: ReleaseAnswer,
    HoldCommand: PolicySet,
    PauseCommand: PolicySet,
    AllowCommand: PolicySet,
    RollCommand: PolicySet,
    DrainCommand: DrainAnswer,
    RemoveCommand: RemovalAnswer,
}


@overload
async def give(folder: Path, command: AdoptCommand) -> AdoptionAnswer: ...
@overload
async def give(folder: Path, command: ReleaseCommand) -> ReleaseAnswer: ...
@overload
async def give(folder: Path, command: PolicyCommand) -> PolicySet: ...
@overload
async def give(folder: Path, command: DrainCommand) -> DrainAnswer: ...
@overload
async def give(folder: Path, command: RemoveCommand) -> RemovalAnswer: ...
async def give(folder: Path, command: Order) -> _Outcome:
    """Give a command to the gateway of a state folder, and return its outcome.

    Raises CommandRefused, NoControlSocket.
    """
    answer = await _ask(folder, command, ANSWER_S)
    if not isinstance(answer, _OUTCOMES[type(command)]):
        raise _other_version(folder)
    return answer


async def look(folder: Path, question: Question, view: type[_V], *, limit_s: float = LOOK_S) -> _V:
    """Ask the gateway of a state folder. Raises CommandRefused, NoControlSocket."""
    answer = await _ask(folder, question, limit_s)
    try:
        if isinstance(answer, ViewAnswer):
            return view.model_validate(answer.view)
    except ValidationError:
        pass
    raise _other_version(folder)


def _other_version(folder: Path) -> CommandRefused:
    return CommandRefused(f"the gateway in {folder} runs another version; use the same one")


async def _ask(folder: Path, command: Command, limit_s: float) -> Answer:
    try:
        with trio.fail_after(limit_s):
            async with await connect(folder) as stream:
                with suppress(trio.BrokenResourceError):  # a busy gateway answers before it reads
                    await stream.send_all(command.model_dump_json().encode() + b"\n")
                line = await receive_line(stream, ANSWER_BYTES_MAX)
        answer = ANSWERS.validate_json(line)
    except trio.TooSlowError:
        raise CommandRefused(f"the gateway in {folder} did not answer in {limit_s:g} s") from None
    except (trio.BrokenResourceError, UnreadableLine):
        raise CommandRefused(
            f"the gateway in {folder} ended before it answered; groupferry state tells what became"
            " of the group"
        ) from None
    except ValidationError:
        raise _other_version(folder) from None
    if isinstance(answer, RefusalAnswer):
        raise CommandRefused(answer.why)
    return answer
