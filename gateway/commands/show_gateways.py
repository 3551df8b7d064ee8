"""`groupferry gateways`: the processes of a running gateway, and the gateways of its fleet."""

import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from gateway.board import terminal
from gateway.board.views import GatewayLine, ProcessState
from gateway.control.client import fetch_view, find_processes
from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import CommandRefused, DescribeGateway

VIEW_TIMEOUT_S = 2.0
"""How long a process may take to answer. One that is silent is killed after five seconds."""


async def run(folder: Path, *, as_json: bool) -> None:
    """Print how the processes stand. Raises NoControlSocket if none runs."""
    states = await find_states(folder)
    if all(state.gateway is None for state in states):
        raise NoControlSocket(states[0].trouble)
    if as_json:
        for state in states:
            sys.stdout.write(f"{terminal.as_json(state.model_dump(mode='json'))}\n")
    else:
        console = terminal.console()
        console.print(terminal.gateways_table(states))
        gateways = [state.gateway for state in states if state.gateway is not None]
        gateway = max(gateways, key=lambda one: len(one.fleet))
        if gateway.fleet:
            console.print("", terminal.fleet_table(gateway.fleet, gateway.now_ms), sep="\n")


async def find_states(folder: Path) -> Sequence[ProcessState]:
    """How each process stands. Raises NoControlSocket."""
    folders = find_processes(folder)
    states: dict[int, ProcessState] = {}

    async def ask(slot: int, control_folder: Path) -> None:
        gateway: GatewayLine | None = None
        trouble = ""
        try:
            gateway = await fetch_view(
                control_folder, DescribeGateway(), GatewayLine, limit_s=VIEW_TIMEOUT_S
            )
        except (NoControlSocket, CommandRefused) as error:
            trouble = str(error)
        states[slot] = ProcessState(slot=slot, gateway=gateway, trouble=trouble)

    async with trio.open_nursery() as nursery:
        for slot, control_folder in enumerate(folders):
            nursery.start_soon(ask, slot, control_folder)
    return [states[slot] for slot in sorted(states)]
