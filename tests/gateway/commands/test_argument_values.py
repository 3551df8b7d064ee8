"""A value that a flag cannot have is refused in words that say what it can have."""

from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from gateway.commands import argument_values as values

UP_TO_64 = values.number_between(64)


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (UP_TO_64, "0", "'0' is not a number from 1 to 64"),
        (UP_TO_64, "65", "'65' is not a number from 1 to 64"),
        (UP_TO_64, "-1", "'-1' is not a number from 1 to 64"),
        (UP_TO_64, "x", "'x' is not a number from 1 to 64"),
        (UP_TO_64, "١", "is not a number from 1 to 64"),  # noqa: RUF001
        (values.parse_addresses, "SASL_SSL://kafka:9092", "set upstream_security_protocol"),
        (values.check_prefix, "x" * 201, "cannot begin a topic's name"),
        (values.parse_spark_setting, "master=local", "is not spark.NAME=VALUE"),
        (values.check_group_id, "é" * 16_384, "a group id has 1 to 32767 bytes"),
        (values.check_group_id, "\udcff", "is not UTF-8"),
        (values.parse_columns, "lag,size", "there is no column 'size'"),
        (values.parse_process_number, "first", "give the number of a process, from 0"),
        (values.parse_offset_target, "soon", "'soon' is neither earliest"),
    ],
)
def test_an_invalid_value_is_refused(
    parse: Callable[[str], object], text: str, reason: str
) -> None:
    with pytest.raises(ArgumentTypeError, match=reason):
        parse(text)


def test_numbers_have_inclusive_limits() -> None:
    assert [UP_TO_64("1"), UP_TO_64("64")] == [1, 64]


def test_spark_settings_split_at_the_first_equals_sign() -> None:
    """A value may contain others."""
    assert values.parse_spark_setting("spark.a=b=c") == ("spark.a", "b=c")
    assert values.parse_spark_setting("spark.d=") == ("spark.d", "")
