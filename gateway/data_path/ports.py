"""Remembers which port represents which broker, across restarts.

A broker keeps its port as long as the state folder exists, so that other brokers that come or go
never move it.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.data_path.errors import ListenError

FILE_NAME = "broker_ports.json"
LOCK_NAME = "broker_ports.lock"
PORT_MAX = 65535


class _Ports(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    listen_port: int
    ports: dict[str, int] = Field(default_factory=dict)


class PortBook:
    """Ports by broker id. A changed listen port discards them."""

    def __init__(self, folder: Path | None, listen_port: int) -> None:
        """Read the port file if it exists. Raises ListenError if it is unusable."""
        self._path = folder / FILE_NAME if folder and listen_port else None
        self._listen_port = listen_port
        self._ports = _read(self._path, listen_port) if self._path else {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep the other processes of the fleet from changing the book during the block, which
        begins with what they have written. Raises ListenError."""
        assert self._path is not None, "a fleet has a state folder and a listen port"
        path = self._path.with_name(LOCK_NAME)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ListenError(f"{path}: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._ports = _read(self._path, self._listen_port)
            yield
        finally:
            os.close(descriptor)

    def find_port(self, node_id: int) -> int | None:
        """The broker's remembered port, if any."""
        return self._ports.get(node_id)

    def free(self) -> Iterator[int]:
        """Unused ports in ascending order; an endless series of 0 if the system chooses ports."""
        if self._listen_port == 0:
            while True:
                yield 0
        taken = {self._listen_port, *self._ports.values()}
        yield from (port for port in range(self._listen_port, PORT_MAX + 1) if port not in taken)

    def keep(self, node_id: int, port: int) -> None:
        """Remember the broker's port. It is on disk when this returns."""
        self._ports[node_id] = port
        if self._path:
            _write(self._path, self._listen_port, self._ports)


def _read(path: Path, listen_port: int) -> dict[int, int]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ListenError(f"{path}: {error.strerror}") from None
    try:
        stored = _Ports.model_validate_json(text)
        ports = {int(node_id): port for node_id, port in stored.ports.items()}
    except (ValidationError, ValueError):
        raise ListenError(f"{path} is not a valid port file; repair or remove it") from None
    if len(set(ports.values())) < len(ports) or not all(0 < p <= PORT_MAX for p in ports.values()):
        raise ListenError(f"{path} has a duplicate or invalid port; repair or remove it")
    return ports if stored.listen_port == listen_port else {}


def _write(path: Path, listen_port: int, ports: dict[int, int]) -> None:
    """Write a new file and rename it, so that a reader never sees half of it."""
    texts = {str(node_id): port for node_id, port in sorted(ports.items())}
    beside = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w") as file:
            json.dump({"listen_port": listen_port, "ports": texts}, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise ListenError(f"{path}: {error.strerror}") from None
