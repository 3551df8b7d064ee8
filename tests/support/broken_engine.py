"""Injects bugs into the engine, for tests of the code that survives them."""

from typing import Any

import pytest

from coordinator.engine import GroupEngine, Step
from coordinator.interface.events import Event


def break_engine(monkeypatch: pytest.MonkeyPatch, kind: type[Event], bug: BaseException) -> None:
    """Make the engine raise `bug` once, at the next event of this kind."""
    real = GroupEngine.handle
    planted = [bug]

    def handle(engine: GroupEngine, event: Event, **circumstances: Any) -> Step:
        if isinstance(event, kind) and planted:
            raise planted.pop()
        return real(engine, event, **circumstances)

    monkeypatch.setattr(GroupEngine, "handle", handle)
