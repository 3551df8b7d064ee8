"""Injects bugs into the engine, for tests of the code that survives them."""

from typing import Any

import pytest

from coordinator.engine import GroupEngine, Step
from coordinator.interface.events import Event, Happening


def break_engine(monkeypatch: pytest.MonkeyPatch, kind: type[Event], bug: BaseException) -> None:
    """Make the engine raise `bug` at the next event of this kind: once at a happening, which comes
    again, and always at a request."""
    real = GroupEngine.handle
    met: list[Event] = []

    def handle(engine: GroupEngine, event: Event, **circumstances: Any) -> Step:
        if isinstance(event, kind) and not met:
            met.append(event)
            raise bug
        if met and event is met[0] and not isinstance(event, Happening):
            raise bug
        return real(engine, event, **circumstances)

    monkeypatch.setattr(GroupEngine, "handle", handle)
