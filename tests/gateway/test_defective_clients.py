"""Versions of clients whose new protocol is known to be defective."""

import pytest

from gateway.defective_clients import DEFECTS, defects_of


@pytest.mark.parametrize(
    ("name", "version", "good_since"),
    [
        ("librdkafka", "2.8.0", ["2.12", "2.15", "2.15"]),
        ("librdkafka", "v2.12.2", ["2.15", "2.15"]),
        ("librdkafka", "2.15.0", []),
        ("confluent-kafka-python", "2.8.0-rdkafka-2.8.0", ["2.12", "2.15", "2.15"]),
        ("confluent-kafka-javascript", "1.0.0-librdkafka-2.16.1", []),
        ("karafka", "v2.5.0-rdkafka-ruby-v0.19.5-librdkafka-v2.11.0", ["2.12", "2.15", "2.15"]),
        ("karafka", "v2.6.0-rdkafka-ruby-v0.30.0-librdkafka-v2.15.1", []),
        ("a binding of tomorrow", "9.0.0-librdkafka-2.14.2", ["2.15", "2.15"]),
        ("confluent-kafka-python", "2.16.1", []),
        ("apache-kafka-java", "3.9.2", ["4.0", "4.4", "4.3.1", "4.2", "4.4"]),
        ("apache-kafka-java", "4.3.0", ["4.4", "4.3.1", "4.4"]),
        ("apache-kafka-java", "4.3.1", ["4.4", "4.4"]),
        ("apache-kafka-java", "4.4.0", []),
        ("platformatic-kafka", "1.30.0", ["1.35", "2.11"]),
        ("platformatic-kafka", "2.10.9", ["2.11"]),
        ("platformatic-kafka", "2.12.1", []),
        ("kgo", "1.22.0", ["1.22.1"]),
        ("kgo", "v1.22.2", []),
        ("librdkafka", "unknown", []),
        ("librdkafka", None, []),
        (None, None, []),
    ],
)
def test_each_version_has_the_defects_that_it_is_known_for(
    name: str | None, version: str | None, good_since: list[str]
) -> None:
    """What is not known, counts as fine. A binding counts by the library that it comes with."""
    assert [defect.first_good_version for defect in defects_of(name, version)] == good_since


def test_each_defect_has_a_source() -> None:
    """A reader can check a defect by its source."""
    for defect in DEFECTS:
        assert defect.symptom
        assert any(mark in defect.reference for mark in ("#", "KIP-", "KAFKA-", "CHANGELOG"))


def test_a_version_that_is_only_slower_is_told_apart() -> None:
    """A slower version loses nothing, so it is never refused."""
    assert [defect.level for defect in defects_of("apache-kafka-java", "4.3.0")] == [
        "defective",
        "slower",
        "slower",
    ]
