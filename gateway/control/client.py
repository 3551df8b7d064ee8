"""Asks a running gateway, and gives it commands: speaks the admin API at the control socket."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar, cast, overload
from urllib.parse import urlencode

import trio
from pydantic import ValidationError

from gateway.board.views import View
from gateway.control.control_socket import NoControlSocket, connect
from gateway.control.http_client import NoAnswer, NotHttp, send_request
from gateway.control.messages import (
    COMMAND_S,
    COMMANDS_PATH,
    GIVEN_BY_HEADER,
    METRICS_PATH,
    QUESTIONS,
    AdoptCommand,
    AdoptionAnswer,
    AllowCommand,
    CommandRefused,
    DrainAnswer,
    DrainCommand,
    HoldCommand,
    NotKnown,
    Order,
    Outcome,
    PauseCommand,
    PolicyCommand,
    PolicySet,
    Question,
    QuestionToAll,
    ReleaseAnswer,
    ReleaseCommand,
    RemovalAnswer,
    RemoveCommand,
    RestartAnswer,
    RestartCommand,
    RollCommand,
)
from gateway.fleet.fleet_state import control_folder_of, control_folders
from gateway.state_folder import StateFolderError

ANSWER_S = COMMAND_S + 10.0
"""How long a gateway that works may take to carry out a command."""
VIEW_TIMEOUT_S = 5.0
"""How long it may take to show what it knows."""

_PATHS = {question: path for path, question in QUESTIONS.items()}
_V = TypeVar("_V", bound=View)
_OUTCOMES: Mapping[type[Order], type[Outcome]] = {
    AdoptCommand: AdoptionAnswer,
    ReleaseCommand: ReleaseAnswer,
    HoldCommand: PolicySet,
    PauseCommand: PolicySet,
    AllowCommand: PolicySet,
    RollCommand: PolicySet,
    DrainCommand: DrainAnswer,
    RemoveCommand: RemovalAnswer,
    RestartCommand: RestartAnswer,
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
@overload
async def give(folder: Path, command: RestartCommand) -> RestartAnswer: ...
async def give(folder: Path, command: Order) -> Outcome:
    """Give a command to the gateway of a state folder, and return its outcome. Of several
    processes, the one that has the group gets it; commands about no group, each of them.

    Raises CommandRefused, NoControlSocket.
    """
    match command:
        case DrainCommand() if len(folders := find_processes(folder)) > 1:
            return await _drain(folders, command)
        case RemoveCommand() if len(folders := find_processes(folder)) > 1:
            return await _remove(folders, command)
        case RestartCommand():
            return await _give_any(find_processes(folder), command)
        case DrainCommand() | RemoveCommand():
            (folder,) = find_processes(folder)
        case _:
            folder = find_process(folder, command.group_id)
    outcome: Outcome = await _give(folder, command)
    return outcome


async def pass_on(folder: Path, command: Order, given_by: str) -> Outcome:
    """Give a command to the process with this control folder, in the name of who gave it to
    another one. Raises CommandRefused, NoControlSocket."""
    outcome: Outcome = await _give(folder, command, {GIVEN_BY_HEADER: given_by})
    return outcome


async def _give(folder: Path, command: Order, headers: Mapping[str, str] | None = None) -> Any:
    answer = await _ask(
        folder,
        "POST",
        f"{COMMANDS_PATH}/{command.command}",
        body=command.model_dump_json().encode(),
        headers={"Content-Type": "application/json", **(headers or {})},
        limit_s=ANSWER_S,
    )
    try:
        return _OUTCOMES[type(command)].model_validate_json(answer)
    except ValidationError:
        raise _other_version(folder) from None


async def _give_any(folders: Sequence[Path], command: RestartCommand) -> RestartAnswer:
    """Give the command to any process that runs. Raises CommandRefused, NoControlSocket."""
    for folder in folders[:-1]:
        with suppress(NoControlSocket):
            return cast(RestartAnswer, await _give(folder, command))
    return cast(RestartAnswer, await _give(folders[-1], command))


async def _give_each(folders: Sequence[Path], command: Order) -> Sequence[Any]:
    """Give all processes a command at the same time. Raises CommandRefused, NoControlSocket."""
    outcomes: dict[Path, Any] = {}
    failures: list[CommandRefused | NoControlSocket] = []

    async def give_one(folder: Path) -> None:
        try:
            outcomes[folder] = await _give(folder, command)
        except (CommandRefused, NoControlSocket) as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        for folder in folders:
            nursery.start_soon(give_one, folder)
    if failures:
        raise failures[0]
    return [outcomes[folder] for folder in folders]


async def _try_each(folders: Sequence[Path], command: Order) -> Sequence[Any]:
    """What the command would do in each process. Raises CommandRefused, NoControlSocket."""
    return await _give_each(folders, command.model_copy(update={"dry_run": True}))


async def _drain(folders: Sequence[Path], command: DrainCommand) -> DrainAnswer:
    """Drain one process: its parent drains the others."""
    outcomes = await _try_each(folders, command)
    if not command.dry_run:
        outcomes = [await _give(folders[0], command), *outcomes[1:]]
    return DrainAnswer(
        is_draining=outcomes[0].is_draining,
        connections=sum(outcome.connections for outcome in outcomes),
        hosted=sum(outcome.hosted for outcome in outcomes),
    )


async def _remove(folders: Sequence[Path], command: RemoveCommand) -> RemovalAnswer:
    """Remove all processes at the same time, or none: clients that one has sent away may come to
    another."""
    outcomes = await _try_each(folders, command)
    if not command.dry_run and not any(outcome.reasons for outcome in outcomes):
        outcomes = await _give_each(folders, command)
    return RemovalAnswer(
        is_removed=all(outcome.is_removed for outcome in outcomes),
        redirected=sum(outcome.redirected for outcome in outcomes),
        reasons=tuple(reason for outcome in outcomes for reason in outcome.reasons),
        clients_left=tuple(client for outcome in outcomes for client in outcome.clients_left),
    )


async def fetch_view(
    folder: Path, question: Question, view: type[_V], *, limit_s: float = VIEW_TIMEOUT_S
) -> _V:
    """Ask the gateway of a state folder; of several processes, the one that has the group in
    question. Raises CommandRefused, NoControlSocket."""
    group_id = None if isinstance(question, QuestionToAll) else question.group_id
    if group_id is not None:
        folder = find_process(folder, group_id)
    query = urlencode(question.model_dump(exclude_none=True))
    path = _PATHS[type(question)]
    answer = await _ask(folder, "GET", f"{path}?{query}" if query else path, limit_s=limit_s)
    try:
        return view.model_validate_json(answer)
    except ValidationError:
        raise _other_version(folder) from None


async def get_metrics(folder: Path) -> bytes:
    """The metrics of the process with this control folder. Raises CommandRefused,
    NoControlSocket."""
    return await _ask(folder, "GET", METRICS_PATH, limit_s=VIEW_TIMEOUT_S)


def find_processes(folder: Path) -> Sequence[Path]:
    """The control folders of the gateway's processes. Raises NoControlSocket."""
    try:
        return control_folders(folder)
    except StateFolderError as error:
        raise NoControlSocket(str(error)) from None


def find_process(folder: Path, group_id: str) -> Path:
    """The control folder of the process that has the group. Raises NoControlSocket."""
    try:
        return control_folder_of(folder, group_id)
    except StateFolderError as error:
        raise NoControlSocket(str(error)) from None


def _other_version(folder: Path) -> CommandRefused:
    return CommandRefused(f"the gateway in {folder} runs another version; use the same one")


async def _ask(
    folder: Path,
    method: str,
    target: str,
    *,
    limit_s: float,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """What the process with this control folder answers. Raises CommandRefused, NoControlSocket."""
    try:
        with trio.fail_after(limit_s):
            async with await connect(folder) as stream:
                status, answer = await send_request(stream, method, target, body, headers)
    except trio.TooSlowError:
        raise CommandRefused(
            f"the gateway in {folder} did not answer in {limit_s:g} s: look at its process and the"
            " end of its log"
        ) from None
    except NoAnswer:
        raise CommandRefused(
            f"the gateway in {folder} ended before it answered; groupferry state shows what became"
            " of the group"
        ) from None
    except NotHttp:
        raise _other_version(folder) from None
    if status == HTTPStatus.OK:
        return answer
    try:
        reason = json.loads(answer)["reason"]
    except (ValueError, TypeError, KeyError):
        raise _other_version(folder) from None
    raise NotKnown(reason) if status == HTTPStatus.NOT_FOUND else CommandRefused(reason)
