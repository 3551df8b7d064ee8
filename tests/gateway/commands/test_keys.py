"""Single keys from a terminal."""

import os
import pty
import sys
import termios

import pytest
import trio

from gateway.commands.keys import read_keys, single_keys


class Terminal:
    """Standard input that is a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """The terminal."""
        return self._descriptor


async def test_each_key_is_given_at_once_and_the_terminal_is_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No line end is needed."""
    keyboard, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    monkeypatch.setattr(sys, "stdin", Terminal(terminal))
    pressed: list[str] = []
    with single_keys() as descriptor:
        assert descriptor == terminal
        os.write(keyboard, b"dx")
        with trio.fail_after(5):
            async for key in read_keys(descriptor):
                pressed.append(key)
                if key == "x":
                    break
    assert pressed == ["d", "x"]
    assert termios.tcgetattr(terminal) == before


def test_a_pipe_gives_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, _writer = os.pipe()
    monkeypatch.setattr(sys, "stdin", Terminal(reader))
    with single_keys() as descriptor:
        assert descriptor is None
