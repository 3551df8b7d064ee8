"""The table of apis agrees with itself and with the codecs."""

from gateway.data_path.treatments import FEATURE_NEEDS, TREATMENTS, Treatment
from kafka_codecs.apis import APIS, ApiKey

WITH_ADDRESSES = {  # every api of Kafka 4.3 whose answer names a broker's or controller's address
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
BEFORE_ADDRESSES = {ApiKey.FETCH: 15, ApiKey.DESCRIBE_QUORUM: 1}


def test_no_answer_with_an_address_is_relayed() -> None:
    """Except in versions from before the addresses came."""
    for key in WITH_ADDRESSES:
        treated = TREATMENTS.get(key)
        if treated and treated.treatment is Treatment.RELAY:
            assert treated.max_version <= BEFORE_ADDRESSES[key]


def test_what_is_decoded_has_codecs_for_every_version() -> None:
    """Also the request, unless the answer alone is rewritten."""
    for key, treated in TREATMENTS.items():
        if treated.treatment is not Treatment.RELAY:
            versions = APIS[key].versions
            assert versions[0] <= treated.min_version <= treated.max_version <= versions[-1], key
            assert APIS[key].request or treated.treatment is Treatment.REWRITE, key


def test_what_is_guarded_can_be_refused() -> None:
    """Its answer is decoded where it names what is the gateway's alone."""
    for key, treated in TREATMENTS.items():
        if treated.guarded:
            versions = APIS[key].versions
            assert versions[0] <= treated.min_version <= treated.max_version <= versions[-1], key


def test_versions_are_in_order() -> None:
    """And nothing is converted that is not known."""
    for treated in TREATMENTS.values():
        assert 0 <= treated.min_version <= treated.max_version
        if treated.converted_up_to is not None:
            assert treated.converted_from <= treated.converted_up_to <= treated.max_version


def test_features_that_cannot_be_offered_stay_so() -> None:
    """Share and streams groups are not hosted here."""
    for name in ("share.version", "streams.version"):
        assert not FEATURE_NEEDS[name].keys() & TREATMENTS.keys()
