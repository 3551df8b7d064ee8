"""The mapping from api keys to messages."""

from importlib.util import find_spec
from pkgutil import iter_modules

import pytest

from kafka_codecs import WireError
from kafka_codecs.apis import APIS, Api, ApiKey, first_flexible_version
from tests.support.codecs import FIRST_IN_KAFKA_4, NEWER_THAN_KIO, NOT_IN_KAFKA, message_id

FOR_BROKERS_ONLY = {ApiKey.ADD_PARTITIONS_TO_TXN: {4, 5}}


def versions_of_kafka(key: ApiKey) -> set[int]:
    """The versions that kio has, those that Kafka 4 has dropped, and those newer than kio."""
    if key in NOT_IN_KAFKA:
        return {0}
    package = find_spec(f"kio.schema.{key.name.lower()}")
    paths = (package and package.submodule_search_locations) or ()
    in_kio = (int(module.name.removeprefix("v")) for module in iter_modules(paths))
    dropped = range(FIRST_IN_KAFKA_4.get(key, 0))
    newer = (version for newer_key, version in NEWER_THAN_KIO if newer_key is key)
    return {*in_kio, *dropped, *newer}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_the_versions_are_those_of_kafka(api: Api) -> None:
    """All that its clients may use, from Kafka 3.9 on."""
    for_clients = versions_of_kafka(api.key) - FOR_BROKERS_ONLY.get(api.key, set())
    assert {*api.versions} == for_clients


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: message_id(api.response))
def test_an_api_and_its_messages_belong_together(api: Api) -> None:
    """Names, keys and versions of request and response agree, and so does the module name."""
    camel = api.key.name.title().replace("_", "")
    assert api.response.__name__ == f"{camel}Response"
    assert api.response.SCHEMA.api_key == api.key
    assert api.response.__module__ == f"kafka_codecs.{api.key.name.lower()}"
    if api.request is None:  # relayed: only its response is decoded
        return
    assert api.request.__name__ == f"{camel}Request"
    assert api.request.SCHEMA == api.response.SCHEMA


def test_an_unknown_api_key_is_a_wire_error() -> None:
    """Kafka never had the key, or retired it."""
    assert first_flexible_version(12) == 4
    for key in (-1, 4, 7, min(NOT_IN_KAFKA) - 1):
        with pytest.raises(WireError, match=f"unknown api key {key}"):
            first_flexible_version(key)
