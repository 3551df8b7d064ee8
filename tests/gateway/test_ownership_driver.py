"""How a gateway remembers its slot, finds out that a neighbour has ended, and leaves its fleet."""

import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.fleet.member import NO_SLOT, SHARDS
from gateway.fleet.ownership import Founding, ShardOwnership
from gateway.fleet.table import GatewayAddress, Seat
from gateway.ownership_driver import SLOT_FILE, OwnershipDriver, read_slot, refuses
from gateway.state_folder import StateFolderError
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
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
    """An operator has to look at the folder."""
    (tmp_path / SLOT_FILE).mkdir()
    with pytest.raises(StateFolderError):
        read_slot(tmp_path, ADDRESS)


def seat_at(port: int, host: str = HOST) -> Seat:
    """A gateway with one coordinator node."""
    address = GatewayAddress(host=host, port=9092)
    return Seat(name="g", member_id="g-1", stamp="0", slot=0, address=address, node_ports={1: port})


async def test_a_port_refuses_only_if_nobody_listens() -> None:
    """A host name that cannot be resolved says nothing about the gateway there."""
    with trio.fail_after(20):
        assert await refuses(seat_at(free_port()))
        with socket.create_server((HOST, 0)) as server:
            assert not await refuses(seat_at(server.getsockname()[1]))
        assert not await refuses(seat_at(9092, "nowhere.invalid"))


class LoneCoordinator:
    """Stands in for the cluster and the connections to it, with one gateway in the group. The
    answers to heartbeats arrive when the test says so."""

    def __init__(self) -> None:
        self.has_beaten, self.answers_beats = trio.Event(), trio.Event()

    async def coordinator_of(self, _group_id: str) -> int:
        """The only broker."""
        return 1

    async def ask(self, _node_id: int, request: Struct) -> Struct:
        """The broker's answer."""
        match request:
            case JoinGroupRequest():
                (protocol,) = request.protocols
                member = JoinGroupMember(
                    member_id="m",
                    group_instance_id=request.group_instance_id,
                    metadata=protocol.metadata,
                )
                return JoinGroupResponse(
                    generation_id=1,
                    protocol_type="groupferry",
                    protocol_name="groupferry",
                    leader="m",
                    member_id="m",
                    members=(member,),
                )
            case SyncGroupRequest(assignments=(assigned,)):
                return SyncGroupResponse(assignment=assigned.assignment)
            case HeartbeatRequest():
                self.has_beaten.set()
                await self.answers_beats.wait()
                return HeartbeatResponse()
            case _:
                return LeaveGroupResponse()


async def claim_log() -> Founding:
    """The claim of a new state log."""
    return Founding("log", 7)


async def test_an_answer_that_crosses_the_leave_of_the_group_is_ignored(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """The gateway drains: it must not end with a traceback."""
    coordinator: Any = LoneCoordinator()
    ownership = ShardOwnership("fleet", "g", ADDRESS, SHARDS, "nonce")
    driver = OwnershipDriver(
        coordinator, coordinator, ownership, claim_log=claim_log, folder=tmp_path
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run)
        await coordinator.has_beaten.wait()
        coordinator.answers_beats.set()
        await driver.leave_group()
    assert autojump_clock.current_time() < 60
