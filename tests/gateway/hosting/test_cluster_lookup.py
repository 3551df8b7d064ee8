"""One lookup in the cluster serves all that wait for it."""

import pytest

from gateway.hosting.cluster_lookup import ClusterLookup
from gateway.hosting.effects import Effect, Look
from tests.support.hosted_scene import HostedScene


@pytest.fixture
def effects() -> list[Effect]:
    """What the lookup asks for."""
    return []


@pytest.fixture
def lookup(on: HostedScene, effects: list[Effect]) -> ClusterLookup:
    """The lookup of a group that has an anchor."""
    return ClusterLookup(on.group.anchor, effects)


def test_all_that_wait_share_a_lookup(lookup: ClusterLookup, effects: list[Effect]) -> None:
    """The next one begins when it has ended."""
    lookup.begin()
    lookup.begin()
    assert [*map(type, effects)] == [Look]
    lookup.end()
    lookup.begin()
    assert [*map(type, effects)] == [Look, Look]


def test_a_lookup_that_began_before_the_anchor_asked_is_not_for_the_anchor(
    on: HostedScene, lookup: ClusterLookup
) -> None:
    """The lookup may have seen the old anchor."""
    lookup.begin()
    on.group.anchor.wants_look = True
    assert not lookup.end()
    lookup.begin()
    assert lookup.end()
