"""The socket in the state folder: who can connect, and what is in its place."""

import os
import socket
import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from gateway.control.control_socket import (
    SOCKET_NAME,
    WAITING_MAX,
    NoControlSocket,
    connect,
    listening,
)


async def is_reachable(folder: Path) -> bool:
    """Whether a client reaches this process by the folder."""
    with listening(folder) as listener, trio.fail_after(5):
        async with await connect(folder) as client, await listener.accept() as accepted:
            await client.send_all(b"x")
            return await accepted.receive_some() == b"x"


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
async def test_only_the_owner_can_connect(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path never has another mode: nothing changes it after it is bound."""
    monkeypatch.setattr(os, "chmod", None)
    before = os.umask(umask)
    try:
        with listening(tmp_path):
            mode = stat.S_IMODE((tmp_path / SOCKET_NAME).stat().st_mode)
    finally:
        os.umask(before)
    assert mode == 0o600 & ~umask


async def test_the_socket_is_removed_at_the_end(tmp_path: Path) -> None:
    """A client must not mistake it for a gateway."""
    with listening(tmp_path):
        assert (tmp_path / SOCKET_NAME).is_socket()
    assert not (tmp_path / SOCKET_NAME).exists()


async def test_the_socket_of_a_killed_gateway_is_replaced(tmp_path: Path) -> None:
    """No process listens on it."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{tmp_path / SOCKET_NAME}")
    with pytest.raises(NoControlSocket, match=f"no gateway is running in {tmp_path}"):
        await connect(tmp_path)
    assert await is_reachable(tmp_path)


async def test_a_file_in_its_place_stays(tmp_path: Path) -> None:
    """A file that the gateway did not make is not removed."""
    (tmp_path / SOCKET_NAME).write_text("precious")
    with pytest.raises(NoControlSocket, match=f"cannot listen on {tmp_path}/{SOCKET_NAME}: "):
        with listening(tmp_path):
            pass
    assert (tmp_path / SOCKET_NAME).read_text() == "precious"


async def test_the_path_of_the_folder_may_be_long(tmp_path: Path) -> None:
    """The path may be longer than that of a socket can be."""
    folder = tmp_path.joinpath(*["x" * 200] * 3)
    folder.mkdir(parents=True)
    assert await is_reachable(folder)


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
async def test_a_folder_without_a_gateway_is_named(tmp_path: Path, name: str) -> None:
    """The line says which flag names another folder."""
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    folder = tmp_path / name
    with pytest.raises(NoControlSocket) as refused:
        await connect(folder)
    assert str(refused.value) == f"no gateway is running in {folder}: start it, or see --state-dir"


async def test_a_gateway_that_accepts_nobody_is_busy(tmp_path: Path) -> None:
    """The queue of its socket is full."""
    async with AsyncExitStack() as waiting:
        waiting.enter_context(listening(tmp_path))
        for _ in range(WAITING_MAX + 1):
            await waiting.enter_async_context(await connect(tmp_path))
        with pytest.raises(NoControlSocket, match="takes no more connections: it is busy"):
            await connect(tmp_path)


async def test_a_process_without_free_descriptors_reaches_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running out of descriptors is reported like any other reason."""

    def fail(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(trio.socket, "socket", fail)
    with pytest.raises(NoControlSocket, match="Too many open files"):
        await connect(tmp_path)
