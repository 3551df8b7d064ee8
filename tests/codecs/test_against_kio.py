"""kio, an independent codec library, must agree on every message in every version of Kafka 4.

`test_apis_with_kafka.py` has the older versions, and newer ones.
"""

from dataclasses import MISSING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_codecs import decode, encode
from kafka_codecs.declaration import Struct
from tests.support.codecs import (
    FIRST_IN_KAFKA_4,
    NEWER_THAN_KIO,
    NOT_IN_KAFKA,
    every_message,
    message_id,
    one_of_each_layout,
    values,
)
from tests.support.codecs_kio import (
    WITHIN_KIO,
    kio_class,
    kio_read,
    kio_write,
    plain,
    schema,
)
from tests.support.hypothesis_profile import examples

KNOWN_TO_KIO = [
    (message_type, version)
    for message_type, version in every_message()
    if (message_type.SCHEMA.api_key, version) not in NEWER_THAN_KIO
    and message_type.SCHEMA.api_key not in NOT_IN_KAFKA
    and ((key := message_type.SCHEMA.api_key) is None or version >= FIRST_IN_KAFKA_4.get(key, 0))
]


NOTHING = (0, -1, "", b"", (), None)
"""The defaults of fields for which kio states none, or a time or uuid of its own."""


@pytest.mark.parametrize(
    ("message_type", "version"), one_of_each_layout(KNOWN_TO_KIO), ids=message_id
)
@settings(max_examples=examples(5))
@given(data=st.data())
def test_both_codecs_read_each_others_messages(
    message_type: type[Struct], version: int, data: st.DataObject
) -> None:
    """kio reads groupferry's bytes, and writes the same bytes for that message."""
    value = data.draw(values(message_type, version, WITHIN_KIO))
    wire = encode(value, version)
    entity = kio_read(message_type, wire, version)
    assert plain(entity) == plain(value, version)
    assert kio_write(entity) == wire
    assert decode(message_type, kio_write(entity), version) == value


@pytest.mark.parametrize(("message_type", "version"), KNOWN_TO_KIO, ids=message_id)
def test_kio_has_the_same_schema(message_type: type[Struct], version: int) -> None:
    """The schemas agree in fields, order, nullability, tags, defaults and nested structures."""
    ours = list(schema(message_type, version))
    kios = list(schema(kio_class(message_type, version)))
    assert ours == kios
    for ours_field, theirs in zip(ours, kios, strict=True):
        if ours_field.default is not MISSING:
            default = plain(ours_field.default, version)
            stated = None if theirs.default is MISSING else plain(theirs.default)
            assert default == stated or (stated is None and default in NOTHING), ours_field.path
