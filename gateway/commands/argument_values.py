"""The values of flags: each function turns text into a value, or raises ArgumentTypeError, whose
text tells a user what is valid."""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from glob import glob

from gateway import addresses
from gateway.commands.list_layout import COLUMN_NAMES
from gateway.commands.offset_target import Target, parse_target
from gateway.control.messages import GROUP_ID_BYTES_MAX

_PREFIX = re.compile("[a-zA-Z0-9._-]{1,200}")
"""The characters that Kafka allows in topic names. The length leaves room for the rest of a
name."""


def parse_addresses(text: str) -> tuple[addresses.Address, ...]:
    """Addresses HOST:PORT, separated by commas."""
    try:
        return addresses.parse_addresses(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def parse_spark_setting(text: str) -> tuple[str, str]:
    """The name and value of spark.NAME=VALUE. The value may contain more equals signs."""
    name, is_set, value = text.partition("=")
    if not is_set or not name.startswith("spark."):
        raise ArgumentTypeError(f"{text!r} is not spark.NAME=VALUE")
    return name, value


def check_jars(text: str) -> str:
    """Names or patterns of jar files, separated by commas. Missing files are refused here, because
    Spark only warns of them."""
    for jar in text.split(","):
        if ":" not in jar and not glob(jar):  # noqa: PTH207  (also absolute ones)
            raise ArgumentTypeError(f"there is no {jar!r}")
    return text


def check_group_id(text: str) -> str:
    """A group id that Kafka can store: its strings are UTF-8."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ArgumentTypeError(f"{text!r} is not UTF-8") from None
    if not 0 < size <= GROUP_ID_BYTES_MAX:
        raise ArgumentTypeError(f"a group id has 1 to {GROUP_ID_BYTES_MAX} bytes")
    return text


def check_prefix(text: str) -> str:
    """The start of a topic's name."""
    if not _PREFIX.fullmatch(text):
        raise ArgumentTypeError(
            f"{text!r} cannot begin a topic's name: letters, digits, dots, _ and -, at most 200"
        )
    return text


def number_between(number_max: int, *, number_min: int = 1) -> Callable[[str], int]:
    """A parser of whole numbers between these limits, which are included."""

    def count(text: str) -> int:
        if not (text.isascii() and text.isdigit() and number_min <= int(text) <= number_max):
            raise ArgumentTypeError(f"{text!r} is not a number from {number_min} to {number_max}")
        return int(text)

    return count


def parse_process_number(text: str) -> int:
    """The number of a process, from 0."""
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ArgumentTypeError("give the number of a process, from 0")
    return int(text)


def parse_columns(text: str) -> tuple[str, ...]:
    """Names of columns, separated by commas."""
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in COLUMN_NAMES]:
        raise ArgumentTypeError(f"there is no column {unknown[0]!r}")
    return names


def parse_offset_target(text: str) -> Target:
    """Where committed offsets are to be reset to."""
    try:
        return parse_target(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is neither earliest, latest, an offset, +N or -N, nor a time"
        ) from None
