"""How a gateway remembers its slot, and finds out that a neighbour has ended."""

import socket
from pathlib import Path

import pytest
import trio

from gateway.fleet.member import NO_SLOT
from gateway.fleet.table import GatewayAddress, Seat
from gateway.ownership_driver import SLOT_FILE, read_slot, refuses
from gateway.state_folder import StateFolderError
from tests.support.ports import HOST, free_port

ADDRESS = GatewayAddress(host="gateway.example", port=9092)


def test_a_slot_is_remembered_for_one_address(tmp_path: Path) -> None:
    """The node of a slot must not get another address."""
    assert read_slot(tmp_path, ADDRESS) == NO_SLOT
    (tmp_path / SLOT_FILE).write_text("7 gateway.example 9092\n")
    assert read_slot(tmp_path, ADDRESS) == 7
    assert read_slot(tmp_path, ADDRESS.model_copy(update={"port": 9093})) == NO_SLOT
    assert read_slot(tmp_path, ADDRESS.model_copy(update={"host": "other"})) == NO_SLOT


@pytest.mark.parametrize("text", ["", "seven gateway.example 9092", "7 gateway.example"])
def test_a_slot_that_cannot_be_read_is_none(text: str, tmp_path: Path) -> None:
    """The fleet gives the gateway another one."""
    (tmp_path / SLOT_FILE).write_text(text)
    assert read_slot(tmp_path, ADDRESS) == NO_SLOT


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    """Somebody has to look at the folder."""
    (tmp_path / SLOT_FILE).mkdir()
    with pytest.raises(StateFolderError):
        read_slot(tmp_path, ADDRESS)


def seat_at(port: int, host: str = HOST) -> Seat:
    """A gateway with one coordinator node."""
    address = GatewayAddress(host=host, port=9092)
    return Seat(name="g", member_id="g-1", stamp="0", slot=0, address=address, node_ports={1: port})


async def test_a_port_refuses_only_if_nobody_listens() -> None:
    """A host that nobody can find says nothing about the gateway there."""
    with trio.fail_after(20):
        assert await refuses(seat_at(free_port()))
        with socket.create_server((HOST, 0)) as server:
            assert not await refuses(seat_at(server.getsockname()[1]))
        assert not await refuses(seat_at(9092, "nowhere.invalid"))
