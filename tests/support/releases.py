"""The releases of Apache Kafka that tests run on.

A test runs on both, unless `on_release` chooses one: for a slow test of what does not depend on the
release. What an anchor relies on is tested on an older one as well.
"""

from collections.abc import Sequence

import pytest

RELEASES = ("3.9", "4.3")
"""The last release without KIP-848, and a recent one with it."""

TEST_IDS = {
    "kafka": "kafka-{}",
    "secure_kafka": "secure-kafka-{}",
    "_three_brokers": "three-brokers-{}",
    "one_broker": "{}",
}
"""The ids of tests by their fixture, with the release: see `side_by_side.py`."""


WITH_ANCHORS = ("2.8", *RELEASES)
"""The first of them is the oldest that runs without ZooKeeper."""


def on_release(release: str, fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test on this release only."""
    return _on((release,), fixture)


def with_anchors(fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test on every release that anchors are tested on."""
    return _on(WITH_ANCHORS, fixture)


def _on(releases: Sequence[str], fixture: str) -> pytest.MarkDecorator:
    test_ids = [TEST_IDS[fixture].format(release) for release in releases]
    return pytest.mark.parametrize(fixture, releases, indirect=True, ids=test_ids)
