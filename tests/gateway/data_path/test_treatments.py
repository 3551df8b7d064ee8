"""The table of APIs is consistent with itself and with the codecs."""

from gateway.data_path.entities import NAMING_APIS
from gateway.data_path.treatments import (
    FEATURE_NEEDS,
    LEFT_OUT,
    LISTS_NAMES,
    TREATMENTS,
    ApiHandling,
)
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
        treated = TREATMENTS.get(key)
        if treated and treated.treatment is ApiHandling.RELAY:
            assert treated.max_version <= BEFORE_ADDRESSES[key]


def test_decoded_apis_have_codecs_for_every_version() -> None:
    """The request has one as well, unless only the answer is rewritten."""
    for key, treated in TREATMENTS.items():
        if treated.treatment is not ApiHandling.RELAY:
            versions = APIS[key].versions
            assert versions[0] == treated.min_version <= treated.max_version <= versions[-1], key
            assert APIS[key].request or treated.treatment is ApiHandling.REWRITE, key


def test_apis_that_name_or_list_topics_have_codecs() -> None:
    """Private names are masked in requests, and left out of lists, on decoded values."""
    for key, treated in TREATMENTS.items():
        if key in NAMING_APIS | LISTS_NAMES:
            versions = APIS[key].versions
            assert versions[0] == treated.min_version <= treated.max_version <= versions[-1], key


def test_versions_are_in_order() -> None:
    """Only known versions are converted."""
    for treated in TREATMENTS.values():
        assert treated.max_version >= 0
        if treated.converted_up_to is not None:
            assert treated.converted_from <= treated.converted_up_to <= treated.max_version


def test_a_feature_is_passed_on_where_its_apis_are() -> None:
    """A cluster that has them has the feature behind the gateway, too."""
    for needs in FEATURE_NEEDS.values():
        for key, version in needs.items():
            assert version <= TREATMENTS[key].max_version


def test_every_api_is_served_or_left_out_with_a_reason() -> None:
    """None is forgotten."""
    assert not TREATMENTS.keys() & LEFT_OUT.keys()
    assert TREATMENTS.keys() | LEFT_OUT.keys() == set(ApiKey)
