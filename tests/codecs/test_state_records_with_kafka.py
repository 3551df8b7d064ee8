"""Apache Kafka's own classes read the records of the state log, and write the same bytes."""

import base64
import itertools
import json
import subprocess
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

import pytest

from kafka_codecs.declaration import OUR_TAGS, Struct, rules_of
from kafka_codecs.state_records import LAYOUTS, OUR_TYPES, RecordType, encode_key, encode_value
from tests.support.codecs import sample
from tests.support.java_programs import java_program
from tests.support.kafka_jars import FETCH_TIMEOUT_S, kafka_jars
from tests.support.releases import NEWEST

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

KAFKAS = {kind: layout for kind, layout in LAYOUTS.items() if kind < OUR_TYPES}


def with_different_values(value: Any, numbers: Iterator[int]) -> Any:
    """The record with values that differ, so that each field is told from the others."""
    match value:
        case Struct():
            names = (field.name for field in fields(value) if field.name != "unknown_tags")
            return replace(
                value,
                **{name: with_different_values(getattr(value, name), numbers) for name in names},
            )
        case tuple():
            return tuple(with_different_values(part, numbers) for part in value)
        case str():
            return f"text {next(numbers)}"
        case bytes():
            return b"bytes %d" % next(numbers)
        case UUID():
            return UUID(int=next(numbers))
        case _:
            return next(numbers)


def as_kafka_shows(value: Any) -> Any:
    """A value in Kafka's JSON, which lacks groupferry's own fields."""
    match value:
        case Struct():
            return {
                as_kafka_names(field.name): as_kafka_shows(getattr(value, field.name))
                for field in fields(value)
                if field.name != "unknown_tags" and (rules_of(field).tag or 0) < OUR_TAGS
            }
        case tuple():
            return list(map(as_kafka_shows, value))
        case bytes():
            return base64.b64encode(value).decode()
        case UUID():
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case _:
            return value


def as_kafka_names(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(map(str.capitalize, others))


def test_kafkas_classes_read_and_write_the_same_bytes() -> None:
    """This covers all of Kafka's types. Kafka preserves groupferry's additions without reading
    them."""
    numbers = itertools.count(1)
    records = {
        kind: (
            with_different_values(sample(key, 0), numbers),
            with_different_values(sample(value, value.SCHEMA.versions[-1]), numbers),
        )
        for kind, (key, value) in KAFKAS.items()
    }
    ours = [(encode_key(kind, key), encode_value(value)) for kind, (key, value) in records.items()]
    done = subprocess.run(
        java_program("StateRecords", f"{kafka_jars(NEWEST)}/*"),
        input="".join(f"{key.hex()} {value.hex()}\n" for key, value in ours),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.splitlines()]
    shown = {kind: tuple(map(as_kafka_shows, record)) for kind, record in records.items()}
    # In the oldest key the field has another name.
    shown[RecordType.GROUP_METADATA][0]["group"] = shown[RecordType.GROUP_METADATA][0].pop(
        "groupId"
    )
    assert {record["type"]: (record["key"], record["value"]) for record in read} == shown
    theirs = [
        (bytes.fromhex(record["key_bytes"]), bytes.fromhex(record["value_bytes"]))
        for record in read
    ]
    assert theirs == ours
