"""Every api and version of the newest Kafka is served, or left out with a reason."""

import pytest

from gateway.data_path.api_table import API_TABLE, PRODUCE_ADDRESSES_SINCE
from kafka_codecs.apis import ApiKey
from tests.gateway.data_path.kafka_apis import (
    KNOWN_NEWER,
    NAMES_PASS,
    answers_with_addresses,
    relayed_addresses,
    requests_in,
    requests_with_names,
    unknown_apis,
    unmasked_names,
)
from tests.support.kafka_jars import FETCH_TIMEOUT_S, kafka_jars
from tests.support.releases import NEWEST

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


def test_nothing_is_unknown_of_the_newest_kafka() -> None:
    """A release that adds something is noticed, and what is left out is there."""
    (jar,) = kafka_jars(NEWEST).glob("kafka-clients-*.jar")
    defined = requests_in(jar)
    assert list(unknown_apis(defined)) == []
    for key, (newest, _reason) in KNOWN_NEWER.items():
        assert API_TABLE[key].max_version < newest == defined[key][1]


def test_an_api_or_version_that_is_new_is_named() -> None:
    """The next release may add both."""
    newest = API_TABLE[ApiKey.HEARTBEAT].max_version
    defined = {int(ApiKey.HEARTBEAT): ("HeartbeatRequest", newest + 1), 9_999: ("NewRequest", 0)}
    assert list(unknown_apis(defined)) == [
        f"HeartbeatRequest v{newest + 1} is unknown; the newest known is v{newest}",
        "NewRequest (9999) is unknown",
    ]


def test_no_answer_with_addresses_is_relayed() -> None:
    """Fetch is relayed up to the last version without addresses."""
    (jar,) = kafka_jars(NEWEST).glob("kafka-clients-*.jar")
    addressed = answers_with_addresses(jar)
    assert list(relayed_addresses(addressed)) == []
    assert addressed[ApiKey.METADATA] == 0
    assert addressed[ApiKey.PRODUCE] == PRODUCE_ADDRESSES_SINCE
    assert addressed[ApiKey.FETCH] == API_TABLE[ApiKey.FETCH].max_version + 1
    assert list(relayed_addresses({**addressed, ApiKey.END_TXN: 5})) == [
        "END_TXN v5 has addresses, and is relayed"
    ]


def test_no_request_can_name_the_gateways_own_topics() -> None:
    """Unless the name does no harm there. kio, with which `test_entities.py` compares fields, is
    older than the newest apis."""
    (jar,) = kafka_jars(NEWEST).glob("kafka-clients-*.jar")
    naming = requests_with_names(jar)
    assert list(unmasked_names(naming)) == []
    assert naming >= NAMES_PASS
    assert list(unmasked_names({ApiKey.END_TXN, ApiKey.UPDATE_FEATURES})) == [
        "UPDATE_FEATURES names topics or transactional ids, which no codec declares"
    ]
