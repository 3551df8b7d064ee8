"""The releases of Apache Kafka that tests run on.

A new release costs a line here, and its version in `kafka/pom.xml`. A test that does not choose a
release runs on the newest. CI, and KAFKA_RELEASES=daily, also run it on the last release without
KIP-848, but most slow tests, and each case of one, on only one of the two. `poe releases`, which is
KAFKA_RELEASES=all, runs all tests on all releases. What an anchor relies on, and a roll, are also
tested on an older release.
"""

import itertools
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

RELEASES = ("3.9", "4.3", "4.4")
"""The last release without KIP-848, and those with it."""
LAST_CLASSIC, NEWEST = RELEASES[0], RELEASES[-1]
_CHOICES = {"newest": (NEWEST,), "daily": (LAST_CLASSIC, NEWEST), "all": RELEASES}
_CHOICE = os.environ.get("KAFKA_RELEASES", "daily" if os.environ.get("CI") else "newest")
CHOSEN = _CHOICES[_CHOICE]
"""The releases of this run."""
IS_DAILY = _CHOICE == "daily"
"""Whether this is a run of CI, which leaves some cases to other days: see `turns.py`."""
NATIVE_RELEASES = tuple(release for release in CHOSEN if release != LAST_CLASSIC)
"""The releases of this run whose coordinators support KIP-848."""

TEST_IDS = {
    "kafka": "kafka-{}",
    "secure_kafka": "secure-kafka-{}",
    "_three_brokers": "three-brokers-{}",
    "one_broker": "{}",
}
"""The ids of tests by their fixture, with the release: see `side_by_side.py`."""


OLDEST = "2.8"
"""The oldest that runs without ZooKeeper."""
WITH_ANCHORS = (OLDEST, *CHOSEN)


_SLOW = re.compile(r"tests/(e2e|matrix|gateway/(?!data_path/|hosting/)[^:]*_with_kafka\.py)")
"""Tests whose releases differ little. What the data path rewrites and an anchor relies on does
differ."""
_IN_ID = re.compile("|".join(re.escape(release) for release in RELEASES))


def left_to_another_release(test_ids: Iterable[str]) -> set[str]:
    """The slow tests that run on another release instead. A test's name decides on which one it
    runs; if all releases are played, it runs on each."""
    twins: defaultdict[str, list[str]] = defaultdict(list)
    for test_id in filter(_SLOW.match, sorted(test_ids)):
        twins[_IN_ID.sub("", test_id)].append(test_id)
    if CHOSEN == RELEASES:
        return set()
    return {
        test_id
        for name, its_ids in twins.items()
        for test_id in its_ids
        if test_id != its_ids[zlib.crc32(name.encode()) % len(its_ids)]
    }


def release_number(release: str) -> tuple[int, ...]:
    """A release in the order of releases."""
    return tuple(int(part) for part in release.split("."))


def on_release(release: str, fixture: str = "kafka") -> pytest.MarkDecorator:
    """Run a test on this release only: a slow test of what does not depend on the release."""
    return _on((release,), fixture)


def on_first_release(fixture: str) -> pytest.MarkDecorator:
    """Run a slow test of what does not depend on the release on the first one of this run."""
    return _on(CHOSEN[:1], fixture)


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


def with_anchors() -> pytest.MarkDecorator:
    """Run a test on every release that anchors are tested on."""
    return _on(WITH_ANCHORS, "kafka")


def _on(releases: Sequence[str], fixture: str) -> pytest.MarkDecorator:
    test_ids = [_test_id(release, fixture) for release in releases]
    return pytest.mark.parametrize(fixture, releases, indirect=True, ids=test_ids)


def _test_id(release: str, fixture: str = "kafka") -> str:
    return TEST_IDS[fixture].format(release)
