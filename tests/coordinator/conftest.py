"""Groups for the tests of the engine. After each test the group's log must restore it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.group_script import GroupScript

MakeGroup = Callable[..., GroupScript]


@pytest.fixture
def make_group() -> Iterator[MakeGroup]:
    """Makes groups with settings. At the end, their logs are cut at each batch and replayed."""
    made: list[GroupScript] = []

    def make(**how: Any) -> GroupScript:
        made.append(GroupScript(**how))
        return made[-1]

    yield make
    for group in made:
        group.check_replay()


@pytest.fixture
def group(make_group: MakeGroup) -> GroupScript:
    """A group with Kafka's default settings, on a cluster with the topic foo (3 partitions)."""
    return make_group()
