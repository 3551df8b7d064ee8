"""The releases of Apache Kafka that tests run on.

A test runs on both, unless `on_release` chooses one: for a slow test of what does not depend on the
release.
"""

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


def on_release(release: str, fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test on this release only."""
    test_id = TEST_IDS[fixture].format(release)
    return pytest.mark.parametrize(fixture, [release], indirect=True, ids=[test_id])
