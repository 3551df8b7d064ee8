"""Tests which connections keep their tasks."""

import contextvars

import pytest
import trio
import trio.testing

from gateway.data_path import connection_tasks
from gateway.data_path.connection_tasks import ConnectionTasks

NAME = contextvars.ContextVar("NAME", default="none")


class Connection:
    """Works until it is told to go idle."""

    def __init__(self, name: str, *, is_busy: bool = False) -> None:
        self.log_context = contextvars.Context()
        self.log_context.run(NAME.set, name)
        self.is_busy = is_busy
        self.has_ended = False
        self.names: list[str] = []
        self._is_told = trio.Event()

    @property
    def is_idle(self) -> bool:
        return self._is_told.is_set()

    async def serve(self) -> None:
        self.names.append(NAME.get())
        await self._is_told.wait()

    def go_idle(self) -> bool:
        if not self.is_busy:
            self._is_told.set()
        return not self.is_busy

    def end(self) -> None:
        self.has_ended = True
        self._is_told.set()


@pytest.fixture
def ended_connections() -> list[Connection]:
    """The connections that have ended."""
    return []


@pytest.fixture
def tasks(
    nursery: trio.Nursery, ended_connections: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> ConnectionTasks[Connection]:
    """Two connections keep their tasks."""
    monkeypatch.setattr(connection_tasks, "KEPT_MAX", 2)
    return ConnectionTasks(nursery, ended_connections.append)


async def test_those_that_have_worked_last_keep_their_tasks(
    tasks: ConnectionTasks[Connection],
) -> None:
    """The others go idle."""
    first, second, third = map(Connection, "123")
    for connection in (first, second, first, third):
        tasks.record_rest(connection)
    assert [connection.is_idle for connection in (first, second, third)] == [False, True, False]


async def test_a_connection_that_works_does_not_go_idle(tasks: ConnectionTasks[Connection]) -> None:
    """Another does, as soon as it can."""
    busy, second, third, fourth = Connection("1", is_busy=True), *map(Connection, "234")
    for connection in (busy, second, third):
        tasks.record_rest(connection)
    assert not any(connection.is_idle for connection in (busy, second, third))
    tasks.record_rest(fourth)
    assert [connection.is_idle for connection in (busy, second, third, fourth)] == [
        False,
        True,
        False,
        False,
    ]


async def test_a_task_has_the_names_of_its_connection(
    tasks: ConnectionTasks[Connection], ended_connections: list[Connection]
) -> None:
    """This holds whichever task has begun it."""
    NAME.set("another")
    connection = Connection("mine")
    tasks.start(connection)
    await trio.testing.wait_all_tasks_blocked()
    connection.go_idle()
    await trio.testing.wait_all_tasks_blocked()
    assert connection.names == ["mine"]
    assert not ended_connections


async def test_a_connection_that_has_ended_is_forgotten(
    tasks: ConnectionTasks[Connection], ended_connections: list[Connection]
) -> None:
    """A connection that has ended takes no other one's place."""
    first, second, third = map(Connection, "123")
    tasks.start(first)
    await trio.testing.wait_all_tasks_blocked()
    for connection in (first, second):
        tasks.record_rest(connection)
    first.end()
    await trio.testing.wait_all_tasks_blocked()
    assert ended_connections == [first]
    tasks.record_rest(third)
    assert not second.is_idle
