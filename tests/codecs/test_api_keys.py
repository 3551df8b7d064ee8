"""The registry of api keys, compared with kio."""

from importlib import import_module

import pytest
from kio.schema.index import api_key_map

from kafka_codecs.api_keys import ApiKey
from tests.support.codecs import NOT_IN_KAFKA


def test_only_retired_keys_are_missing() -> None:
    """Kafka has every key from 0 on, except 4 to 7."""
    keys = set(ApiKey) - {*NOT_IN_KAFKA}
    assert keys == {*range(max(keys) + 1)} - {*range(4, 8)}


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
