"""Gives a command to a running gateway."""

from contextlib import suppress
from pathlib import Path

import trio
from pydantic import ValidationError

from gateway.control.control_socket import connect
from gateway.control.lines import BadLine, receive_line
from gateway.control.messages import (
    ANSWER_BYTES_MAX,
    ANSWERS,
    Adoption,
    Command,
    CommandRefused,
    Refusal,
)
from gateway.control.server import COMMAND_S, RECEIVE_S, SEND_S

ANSWER_S = RECEIVE_S + COMMAND_S + SEND_S
"""How long a gateway that works may take."""


async def give(folder: Path, command: Command) -> Adoption:
    """Give a command to the gateway of a state folder, and return its outcome.

    Raises CommandRefused, NoControlSocket.
    """
    try:
        with trio.fail_after(ANSWER_S):
            async with await connect(folder) as stream:
                with suppress(trio.BrokenResourceError):  # a busy gateway answers before it reads
                    await stream.send_all(command.model_dump_json().encode() + b"\n")
                line = await receive_line(stream, ANSWER_BYTES_MAX)
        answer = ANSWERS.validate_json(line)
    except trio.TooSlowError:
        raise CommandRefused(f"the gateway in {folder} did not answer in {ANSWER_S:g} s") from None
    except (trio.BrokenResourceError, BadLine):
        raise CommandRefused(
            f"the gateway in {folder} ended before it answered; groupferry state tells what became"
            " of the group"
        ) from None
    except ValidationError:
        raise CommandRefused(
            f"the gateway in {folder} runs another version; use the same one"
        ) from None
    if isinstance(answer, Refusal):
        raise CommandRefused(answer.why)
    return answer
