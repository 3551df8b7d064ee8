"""RE2 over complete topic names."""

import time

import pytest

from coordinator.consumer.topic_regex import REGEX_LENGTH_MAX, compile_regex, match_topics
from coordinator.interface.errors import GroupError
from kafka_codecs.error_codes import ErrorCode

NAMES = ("orders", "orders-eu", "my-orders", "__consumer_offsets", "a.b")


@pytest.mark.parametrize(
    ("regex", "matched"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders-eu"}),
        ("^orders.*", {"orders", "orders-eu"}),
        ("^orders$", {"orders"}),
        ("orders|orders-eu", {"orders", "orders-eu"}),
        (".*orders", {"orders", "my-orders"}),
        ("(?i)ORDERS", {"orders"}),
        (r"\Qa.b\E", {"a.b"}),
        (r"a\.[[:alpha:]]", {"a.b"}),
        ("a.", set()),
        (".*", set(NAMES)),
        ("", set()),
    ],
)
def test_the_complete_name_must_match(regex: str, matched: set[str]) -> None:
    """Internal topics match like any other, as in Kafka."""
    assert match_topics([regex], NAMES) == {regex: matched}


def test_several_expressions_are_matched_at_once() -> None:
    """Each has its own result, which is empty without topics."""
    assert match_topics(["o.*", "a.*"], NAMES) == {"o.*": {"orders", "orders-eu"}, "a.*": {"a.b"}}
    assert match_topics(["o.*"], ()) == {"o.*": frozenset()}
    assert match_topics((), NAMES) == {}


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(", "missing )"),
        ("a{1001}", "invalid repetition size"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid perl operator"),
        ("[b-a]", "invalid character class range"),
        (r"\pL{1000}", "pattern too large"),
        ("a" * (REGEX_LENGTH_MAX + 1), "longer than"),
    ],
)
def test_an_invalid_regex_is_refused(regex: str, reason: str) -> None:
    """RE2 supports neither back-references nor lookaround. A pattern that needs too much memory is
    invalid."""
    with pytest.raises(GroupError, match=reason.replace("(", r"\(").replace(")", r"\)")) as refusal:
        compile_regex(regex)
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_time_of_a_match_is_linear() -> None:
    """The time grows with the name, not with the number of ways to match."""
    name = "a" * 249
    started = time.perf_counter()
    assert match_topics(["(a*)*b", "(a|aa)+b", "a" * REGEX_LENGTH_MAX], [name]) == {
        "(a*)*b": frozenset(),
        "(a|aa)+b": frozenset(),
        "a" * REGEX_LENGTH_MAX: frozenset(),
    }
    assert time.perf_counter() - started < 1
