"""`groupferry gateways`."""

import json
from pathlib import Path

import pytest

from gateway.board import terminal
from gateway.board.views import FleetLine, GatewayLine, ProcessLine, ProcessState, Readiness
from gateway.commands import show_gateways
from gateway.control.control_socket import NoControlSocket

NOW_MS = 1_000_000_000
FLEET = (
    FleetLine(name="a", address="h:1", slot=0, shards=(0, 1, 2, 3), state="serving", is_here=True),
    FleetLine(
        name="b",
        address="i:1",
        slot=4,
        shards=(),
        state="starting",
        is_here=False,
        seen_ms=NOW_MS - 3_600_000,
    ),
)


def state(slot: int, shards: tuple[int, ...], own: int, moved_at_ms: int | None) -> ProcessState:
    """A process that serves."""
    process = ProcessLine(
        slot=slot,
        pid=100 + slot,
        shards=shards,
        own_shards=own,
        moved_at_ms=moved_at_ms,
        move_took_ms=None if moved_at_ms is None else 42,
    )
    gateway = GatewayLine(
        version="1",
        gateway_id="5" * 32,
        cluster_id="c",
        bootstrap="h:1",
        brokers=(1,),
        readiness=Readiness(is_ready=True, reasons=()),
        connections=7,
        max_connections=9,
        hosted=3,
        process=process,
        fleet=FLEET,
        started_ms=NOW_MS - 7_200_000,
        now_ms=NOW_MS,
    )
    return ProcessState(slot=slot, gateway=gateway, trouble="")


STATES = [
    state(0, (0, 1, 2), 2, NOW_MS - 61_000),
    state(1, (3,), 1, None),
    ProcessState(slot=2, gateway=None, trouble="no gateway is running in /slots/2"),
]


def test_the_table_has_a_line_for_each_process(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown process has a line, too."""
    terminal.console().print(terminal.gateways_table(STATES))
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["PROCESS", "STATE", "PID", "AGE"]
    assert "3, 1 of others (0-2)" in lines[0]
    assert "61 s ago, took 42 ms" in lines[0]
    assert "2 h" in lines[1]
    assert lines[1].rstrip().endswith("never")
    assert "no gateway is running in /slots/2" in lines[2]
    assert lines[2].count("?") == 6


def test_the_gateways_of_other_machines_are_named_with_their_addresses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The table also says how long they have been seen. A fleet on one machine has none."""
    terminal.console().print(terminal.fleet_table(FLEET, NOW_MS))
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["GATEWAY", "ADDRESS", "STATE", "SEEN", "FOR", "SLOT", "SHARDS"]
    assert lines[0].split() == ["a", "h:1", "serving,", "here", "?", "0", "4", "(0-3)"]
    assert lines[1].split() == ["b", "i:1", "starting", "60", "min", "4", "none"]


async def test_programs_get_a_line_of_json_for_each_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """JSON has the facts of the table."""

    async def find(_folder: Path) -> list[ProcessState]:
        return STATES

    monkeypatch.setattr(show_gateways, "find_states", find)
    await show_gateways.run(tmp_path, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["slot"] for line in lines] == [0, 1, 2]
    assert lines[0]["gateway"]["process"]["pid"] == 100
    assert lines[2]["gateway"] is None


async def test_a_gateway_that_does_not_run_is_one_line(tmp_path: Path) -> None:
    """The error of a gateway that does not run is that of every command."""
    with pytest.raises(NoControlSocket, match="no gateway is running"):
        await show_gateways.run(tmp_path, as_json=False)
