"""`groupferry remove`: what became of it, a line for each client that is left."""

import sys
from pathlib import Path
from typing import TextIO

from gateway.control.client import give
from gateway.control.messages import RemoveCommand
from gateway.readable import escape


async def run(folder: Path, is_trial: bool) -> int:
    """Send all clients to the cluster. Returns the exit status, 0 once none is left.

    Raises NoControlSocket, CommandRefused.
    """
    outcome = await give(folder, RemoveCommand(dry_run=is_trial))
    for reason in outcome.reasons:
        _print_line(sys.stderr, f"groupferry: the gateway is not removed: {reason}")
    for client in outcome.clients_left:
        _print_line(sys.stdout if is_trial else sys.stderr, client)
    if is_trial and not outcome.reasons:
        _print_line(
            sys.stdout, "the gateway can be removed; point bootstrap.servers at the cluster first"
        )
        return 0
    if outcome.redirected:
        _print_line(sys.stdout, _result_line(outcome.redirected, is_over=outcome.is_removed))
    elif outcome.is_removed:
        _print_line(sys.stdout, "no client is left, stop the gateway")
    return 0 if outcome.is_removed else 1


def _result_line(clients: int, *, is_over: bool) -> str:
    line = f"clients told to resolve bootstrap.servers again: {clients}"
    return f"{line}; none is left, stop the gateway" if is_over else line


def _print_line(where: TextIO, line: str) -> None:
    where.write(f"{escape(line)}\n")
