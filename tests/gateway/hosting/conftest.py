"""Scenes of one hosted group."""

import pytest

from tests.support.hosted_scene import HostedScene


@pytest.fixture
def on() -> HostedScene:
    """A group about which nothing is known."""
    return HostedScene()


@pytest.fixture
def live() -> HostedScene:
    """A group with one native member."""
    scene = HostedScene()
    scene.native_member()
    return scene
