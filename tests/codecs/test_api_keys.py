"""The registry of api keys, compared with kio."""

from importlib import import_module

import pytest
from kio.schema.index import api_key_map

from kafka_codecs.api_keys import ApiKey
from tests.support.codecs import NOT_IN_KAFKA


def test_only_retired_keys_are_missing() -> None:
    """Kafka 4.4 has the keys 0 to 94 except 4 to 7."""
    assert sorted(ApiKey) == [*(key for key in range(95) if key not in range(4, 8)), *NOT_IN_KAFKA]


@pytest.mark.parametrize(("key", "module"), api_key_map.items(), ids=api_key_map.values())
def test_kio_agrees_on_name_and_flexible_versions(key: int, module: str) -> None:
    """kio states for each version of each request whether it is flexible."""
    api_key = ApiKey(key)
    assert api_key.name.lower() == module
    for version in range(20):
        try:
            request = import_module(f"kio.schema.{module}.v{version}.request")
        except ModuleNotFoundError:
            continue
        (flexible,) = {
            thing.__flexible__
            for thing in vars(request).values()
            if getattr(thing, "__api_key__", None) == key
        }
        assert api_key.is_flexible(version) is flexible


@pytest.mark.parametrize(
    ("api_key", "first"),
    [
        (ApiKey.PRODUCE, 9),
        (ApiKey.FETCH, 12),
        (ApiKey.HEARTBEAT, 4),
        (ApiKey.API_VERSIONS, 3),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0),
        (ApiKey.SASL_HANDSHAKE, None),
        (ApiKey.OFFSET_DELETE, None),
    ],
)
def test_some_first_flexible_versions_match_kafka(api_key: ApiKey, first: int | None) -> None:
    """Spot checks against Kafka's schemas; None means never."""
    assert api_key.first_flexible_version == first
    assert api_key.is_flexible(0) is (first == 0)
    assert api_key.is_flexible(99) is (first is not None)
