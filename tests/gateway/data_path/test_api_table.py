"""The table of APIs is consistent with itself and with the codecs."""

from gateway.data_path.api_table import (
    API_TABLE,
    FEATURE_NEEDS,
    LEFT_OUT,
    LISTS_NAMES,
    ApiHandling,
)
from gateway.data_path.entities import NAMING_APIS
from kafka_codecs.apis import APIS, ApiKey

WITH_ADDRESSES = {  # in Kafka 4.4, the answers that name a broker or controller
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
}
BEFORE_ADDRESSES = {ApiKey.FETCH: 15}


def test_no_answer_with_an_address_is_relayed() -> None:
    """Versions before the api had addresses are exceptions."""
    for key in WITH_ADDRESSES:
        entry = API_TABLE.get(key)
        if entry and entry.treatment is ApiHandling.RELAY:
            assert entry.max_version <= BEFORE_ADDRESSES[key]


def test_decoded_apis_have_codecs_for_every_version() -> None:
    """The request has one as well, unless only the answer is rewritten."""
    for key, entry in API_TABLE.items():
        if entry.treatment is not ApiHandling.RELAY:
            versions = APIS[key].versions
            assert versions[0] == entry.min_version <= entry.max_version <= versions[-1], key
            assert APIS[key].request or entry.treatment is ApiHandling.REWRITE, key


def test_apis_that_name_or_list_topics_have_codecs() -> None:
    """Private names are masked in requests, and left out of lists, on decoded values."""
    for key, entry in API_TABLE.items():
        if key in NAMING_APIS | LISTS_NAMES:
            versions = APIS[key].versions
            assert versions[0] == entry.min_version <= entry.max_version <= versions[-1], key


def test_versions_are_in_order() -> None:
    """Only known versions are converted."""
    for entry in API_TABLE.values():
        assert entry.max_version >= 0
        if entry.converted_up_to is not None:
            assert entry.converted_from <= entry.converted_up_to <= entry.max_version


def test_a_feature_is_passed_on_where_its_apis_are() -> None:
    """A cluster that has them has the feature behind the gateway, too."""
    for needs in FEATURE_NEEDS.values():
        for key, version in needs.items():
            assert version <= API_TABLE[key].max_version


def test_every_api_is_served_or_left_out_with_a_reason() -> None:
    """None is forgotten."""
    assert not API_TABLE.keys() & LEFT_OUT.keys()
    assert API_TABLE.keys() | LEFT_OUT.keys() == set(ApiKey)
