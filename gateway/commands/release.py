"""`groupferry release`: one group, or all of them, a line for each."""

import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from gateway.commands.show_board import all_groups
from gateway.control.client import give
from gateway.control.messages import CommandRefused, ReleaseAnswer, ReleaseCommand
from gateway.readable import escape

_HERE = ("hosted", "adopting", "releasing")
AT_ONCE_MAX = 8
"""Groups that are released at a time: half of the connections that the gateway takes."""


async def run(folder: Path, group_id: str | None, is_trial: bool) -> int:
    """Release a group, or all if `group_id` is None. Returns the exit status.

    Raises NoControlSocket, CommandRefused if the gateway does not list its groups.
    """
    if group_id is not None:
        return await _release(folder, group_id, is_trial)
    group_ids = [
        line.group_id for line in await all_groups(folder) if line.mode in _HERE or line.is_adopted
    ]
    if not group_ids:
        _print_line("no group is hosted or adopted")
        return 0
    return await _release_all(folder, group_ids, is_trial)


async def _release_all(folder: Path, group_ids: Sequence[str], is_trial: bool) -> int:
    statuses: list[int] = []
    limit = trio.CapacityLimiter(AT_ONCE_MAX)

    async def release(group_id: str) -> None:
        async with limit:
            statuses.append(await _release(folder, group_id, is_trial))

    async with trio.open_nursery() as nursery:
        for group_id in group_ids:
            nursery.start_soon(release, group_id)
    return max(statuses)


async def _release(folder: Path, group_id: str, is_trial: bool) -> int:
    try:
        outcome = await give(folder, ReleaseCommand(group_id=group_id, dry_run=is_trial))
        reasons = outcome.reasons
    except CommandRefused as refused:
        reasons = (str(refused),)
    for reason in reasons:
        outcome_words = "cannot be released yet" if is_trial else "is not released"
        sys.stderr.write(escape(f"groupferry: {group_id} {outcome_words}: {reason}") + "\n")
    if reasons:
        return 1
    _print_line(_result_line(outcome, is_trial=is_trial))
    return 0


def _result_line(outcome: ReleaseAnswer, *, is_trial: bool) -> str:
    if is_trial:
        return f"{outcome.group_id} can be released"
    if outcome.unowned_ms is None:
        return f"{outcome.group_id} is released"
    return (
        f"{outcome.group_id} is released; its partitions were without an owner for"
        f" {outcome.unowned_ms} ms"
    )


def _print_line(line: str) -> None:
    sys.stdout.write(f"{escape(line)}\n")
