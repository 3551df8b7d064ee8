"""The releases of Apache Kafka that tests run on.

A new release costs a line here, and its version in `kafka/pom.xml`. Daily runs play the last
release without KIP-848 and the newest; `poe releases` plays all (KAFKA_RELEASES=all). What an
anchor relies on is tested on an older one as well.
"""

import os
from collections.abc import Sequence

import pytest

RELEASES = ("3.9", "4.3", "4.4")
"""The last release without KIP-848, and those with it."""
LAST_CLASSIC, NEWEST = RELEASES[0], RELEASES[-1]
CHOSEN = RELEASES if os.environ.get("KAFKA_RELEASES") == "all" else (LAST_CLASSIC, NEWEST)
"""The releases of this run."""
NATIVE_RELEASES = CHOSEN[1:]
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


def with_new_protocol(fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test where coordinators support KIP-848."""
    return _on(NATIVE_RELEASES, fixture)


def with_anchors(fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test on every release that anchors are tested on."""
    return _on(WITH_ANCHORS, fixture)


def _on(releases: Sequence[str], fixture: str) -> pytest.MarkDecorator:
    test_ids = [TEST_IDS[fixture].format(release) for release in releases]
    return pytest.mark.parametrize(fixture, releases, indirect=True, ids=test_ids)
