"""The releases of Apache Kafka that tests run on.

A new release costs a line here, and its version in `kafka/pom.xml`. A test that does not choose a
release runs on the newest. CI, and KAFKA_RELEASES=daily, also play it on the last release without
KIP-848 (slow tests with several cases play each of them on one of the two); `poe releases`, which
is KAFKA_RELEASES=all, on all. What an anchor relies on is tested on
an older one as well.
"""

import itertools
import os
from collections.abc import Sequence

import pytest

RELEASES = ("3.9", "4.3", "4.4")
"""The last release without KIP-848, and those with it."""
LAST_CLASSIC, NEWEST = RELEASES[0], RELEASES[-1]
_CHOICES = {"newest": (NEWEST,), "daily": (LAST_CLASSIC, NEWEST), "all": RELEASES}
CHOSEN = _CHOICES[os.environ.get("KAFKA_RELEASES", "daily" if os.environ.get("CI") else "newest")]
"""The releases of this run."""
NATIVE_RELEASES = tuple(release for release in CHOSEN if release != LAST_CLASSIC)
"""Those of them whose coordinators support KIP-848."""

TEST_IDS = {
    "kafka": "kafka-{}",
    "secure_kafka": "secure-kafka-{}",
    "_three_brokers": "three-brokers-{}",
    "one_broker": "{}",
}
"""The ids of tests by their fixture, with the release: see `side_by_side.py`."""


WITH_ANCHORS = ("2.8", *CHOSEN)
"""The first of them is the oldest that runs without ZooKeeper."""


def release_number(release: str) -> tuple[int, ...]:
    """A release in the order of releases."""
    return tuple(int(part) for part in release.split("."))


def on_release(release: str, fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test on this release only: a slow test of what does not depend on the release."""
    return _on((release,), fixture)


def in_turn(names: str, *cases: Sequence[object]) -> pytest.MarkDecorator:
    """Play each case of a slow test on one of the releases, in turn: all cases and all releases are
    played, and `poe releases` plays every case on every release."""
    turns = (
        itertools.product(CHOSEN, cases)
        if CHOSEN == RELEASES
        else zip(itertools.cycle(CHOSEN), cases, strict=False)
    )
    return pytest.mark.parametrize(
        ("kafka", *names.split(",")),
        [
            pytest.param(release, *case, id="-".join([_test_id(release), *map(str, case)]))
            for release, case in turns
        ],
        indirect=["kafka"],
    )


def with_new_protocol(fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test where coordinators support KIP-848."""
    return _on(NATIVE_RELEASES, fixture)


def with_anchors(fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test on every release that anchors are tested on."""
    return _on(WITH_ANCHORS, fixture)


def _on(releases: Sequence[str], fixture: str) -> pytest.MarkDecorator:
    test_ids = [_test_id(release, fixture) for release in releases]
    return pytest.mark.parametrize(fixture, releases, indirect=True, ids=test_ids)


def _test_id(release: str, fixture: str = "kafka") -> str:
    return TEST_IDS[fixture].format(release)
