"""What a client is offered, given what the upstream speaks."""

import pytest

from gateway.data_path import offer
from kafka_codecs.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafka_codecs.apis import ApiKey

MOCK = {0: (0, 10), 1: (0, 16), 3: (0, 13), 8: (0, 9), 9: (0, 6), 11: (0, 6), 12: (0, 5)}


@pytest.mark.parametrize(
    ("key", "versions"),
    [
        (ApiKey.PRODUCE, (3, 10)),  # the upstream ends first
        (ApiKey.FETCH, (4, 15)),  # we end first
        (ApiKey.OFFSET_FETCH, (1, 9)),  # converted for upstreams that end earlier
        (ApiKey.OFFSET_COMMIT, (2, 9)),
        (ApiKey.JOIN_GROUP, (0, 6)),
        (ApiKey.HEARTBEAT, (0, 4)),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1)),  # the upstream has none
        (ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1)),
        (ApiKey.LIST_GROUPS, (0, 5)),
        (ApiKey.DESCRIBE_GROUPS, (0, 6)),
        (ApiKey.API_VERSIONS, (0, 4)),
        (ApiKey.INIT_PRODUCER_ID, None),
        (ApiKey.DESCRIBE_CONFIGS, (1, 4)),  # for those of groups
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1)),
        (ApiKey.LIST_CONFIG_RESOURCES, (0, 1)),
        (ApiKey.ALTER_CONFIGS, None),
        (ApiKey.SASL_HANDSHAKE, None),
    ],
)
def test_the_offer_is_what_both_know_and_what_we_answer_ourselves(
    key: ApiKey, versions: tuple[int, int] | None
) -> None:
    """Nothing that the upstream would refuse, nothing whose answer we do not know."""
    assert offer.offered_versions(MOCK).get(key) == versions


def test_what_is_converted_needs_an_upstream_that_has_it() -> None:
    """In whichever version; its lowest one stays the lowest."""
    assert ApiKey.FIND_COORDINATOR not in offer.offered_versions(MOCK)
    offered = offer.offered_versions({ApiKey.FIND_COORDINATOR: (2, 3)})
    assert offered == {**offer.offered_versions({}), ApiKey.FIND_COORDINATOR: (2, 6)}


@pytest.mark.parametrize(("upstream_max", "offered_max"), [(4, 4), (5, 6), (6, 6)])
def test_transactions_by_topic_id_need_the_version_before(
    upstream_max: int, offered_max: int
) -> None:
    """Who sends TxnOffsetCommit v6 counts on the cluster to add the group to the transaction, as
    it does from v5 on (KIP-890)."""
    offered = offer.offered_versions({ApiKey.TXN_OFFSET_COMMIT: (0, upstream_max)})
    assert offered[ApiKey.TXN_OFFSET_COMMIT] == (0, offered_max)


def test_an_api_of_versions_we_do_not_know_is_not_offered() -> None:
    """Ranges that do not meet leave nothing."""
    assert ApiKey.FETCH not in offer.offered_versions({ApiKey.FETCH: (16, 18)})
    assert ApiKey.PRODUCE not in offer.offered_versions({ApiKey.PRODUCE: (0, 2)})


def _upstream(*features: tuple[str, int]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in features
        ),
        finalized_features_epoch=17,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features
        ),
    )


KAFKA_4 = {0: (0, 13), 26: (0, 5), 28: (0, 5), 78: (1, 2), 76: (1, 1), 88: (0, 0)}


def test_features_are_the_clusters_and_group_version() -> None:
    """Less those whose apis we do not offer; ours replaces the cluster's own group.version.

    Scenario 66 cannot hold: the level is always 1 here, whatever the cluster's, for the gateway
    itself answers keys 68 and 69.
    """
    cluster = _upstream(
        ("metadata.version", 27),
        ("group.version", 0),
        ("transaction.version", 2),
        ("share.version", 1),
        ("streams.version", 1),
    )
    answer = offer.api_versions_answer(offer.offered_versions(KAFKA_4), cluster, 4)
    assert {key.name: key.max_version_level for key in answer.finalized_features} == {
        "metadata.version": 27,
        "transaction.version": 2,
        "group.version": 1,
    }
    assert ("group.version", 0, 1) in [
        (key.name, key.min_version, key.max_version) for key in answer.supported_features
    ]
    assert answer.finalized_features_epoch == 17


def test_transactions_of_the_new_kind_need_all_their_versions() -> None:
    """A client that sees the level sends versions that would be refused."""
    offered = offer.offered_versions({**KAFKA_4, 26: (0, 4)})
    answer = offer.api_versions_answer(offered, _upstream(("transaction.version", 2)), 4)
    assert [key.name for key in answer.finalized_features] == ["group.version"]


def test_features_from_level_0_are_hidden_from_clients_that_trip_over_them() -> None:
    """Before ApiVersions v4 (KAFKA-17011); what is finalized is shown all the same."""
    answer = offer.api_versions_answer({}, _upstream(), 3)
    assert answer.supported_features == ()
    assert [key.name for key in answer.finalized_features] == ["group.version"]


def test_a_cluster_without_features_gets_an_epoch() -> None:
    """Clients ignore finalized features of a negative epoch."""
    assert offer.api_versions_answer({}, ApiVersionsResponse(), 3).finalized_features_epoch == 0


@pytest.mark.parametrize(
    ("name", "version", "good"),
    [("lib", "1.2-a", True), ("l", "1", True), ("", "1", False), ("lib", "1_2", False)],
)
def test_software_is_named_as_kip_511_wants_it(name: str, version: str, good: bool) -> None:
    """Before v3 nobody says."""
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert offer.well_formed(request, 3) is good
    assert offer.well_formed(request, 2)
