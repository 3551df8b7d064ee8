"""Looks at the cluster: one at a time."""

from types import SimpleNamespace
from typing import Any, cast

from gateway.hosting.effects import Effect, Look
from gateway.hosting.looking import Looking


def test_all_who_wait_share_a_look() -> None:
    """The next one begins when it has ended."""
    effects: list[Effect] = []
    looking = Looking(cast(Any, SimpleNamespace(wants_look=False)), effects)
    looking.begin()
    looking.begin()
    assert list(map(type, effects)) == [Look]
    looking.end()
    looking.begin()
    assert list(map(type, effects)) == [Look, Look]


def test_a_look_that_began_before_the_anchor_asked_is_not_for_the_anchor() -> None:
    """It may have seen the old anchor."""
    anchor = SimpleNamespace(wants_look=False)
    looking = Looking(cast(Any, anchor), [])
    looking.begin()
    anchor.wants_look = True
    assert not looking.end()
    looking.begin()
    assert looking.end()
