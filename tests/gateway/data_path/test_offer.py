"""The offered versions, given those of the upstream."""

import pytest

from gateway.data_path import offer
from gateway.data_path.api_table import API_TABLE
from kafka_codecs.api_versions import (
    ApiVersion,
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
        (ApiKey.PRODUCE, (0, 10)),  # the upstream supports fewer versions
        (ApiKey.FETCH, (0, 15)),  # the gateway supports fewer versions
        (ApiKey.OFFSET_FETCH, (0, 9)),  # converted for upstreams with fewer versions
        (ApiKey.OFFSET_COMMIT, (0, 9)),
        (ApiKey.JOIN_GROUP, (0, 6)),
        (ApiKey.HEARTBEAT, (0, 4)),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1)),  # the upstream lacks the api
        (ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1)),
        (ApiKey.LIST_GROUPS, (0, 5)),
        (ApiKey.DESCRIBE_GROUPS, (0, 6)),
        (ApiKey.API_VERSIONS, (0, 5)),
        (ApiKey.INIT_PRODUCER_ID, None),
        (ApiKey.DESCRIBE_CONFIGS, (0, 4)),  # for the features of groups
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1)),
        (ApiKey.LIST_CONFIG_RESOURCES, (0, 1)),
        (ApiKey.ALTER_CONFIGS, None),
        (ApiKey.SASL_HANDSHAKE, None),
    ],
)
def test_the_offer_has_common_apis_and_the_gateways_own(
    key: ApiKey, versions: tuple[int, int] | None
) -> None:
    """The offer has nothing that the upstream would refuse, and no api with unknown answers."""
    assert offer.offered_versions(MOCK).get(key) == versions


def test_a_version_that_was_only_tried_out_is_not_offered() -> None:
    """Kafka 4.0 has ShareFetch v0, whose layout no release has since."""
    assert ApiKey.SHARE_FETCH not in offer.offered_versions({ApiKey.SHARE_FETCH: (0, 0)})
    offered = offer.offered_versions({ApiKey.SHARE_FETCH: (0, 3)})
    assert offered[ApiKey.SHARE_FETCH] == (1, 2)


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "is_meant"),
    [
        (None, -1, True),
        ("ours", 2, True),
        ("ours", 1, False),
        ("other", 2, False),
    ],
)
def test_a_client_may_mean_another_cluster_or_node(
    cluster_id: str | None, node_id: int, is_meant: bool
) -> None:
    """One that has just begun means any."""
    request = ApiVersionsRequest(cluster_id=cluster_id, node_id=node_id)
    assert offer.is_meant_for(request, "ours", {2}.__contains__) is is_meant


def test_a_client_may_mean_any_cluster_until_its_id_is_known() -> None:
    """The client may name only a node that it has reached."""
    request = ApiVersionsRequest(cluster_id="other", node_id=7)
    assert offer.is_meant_for(request, None, {7}.__contains__)


def test_a_converted_api_needs_an_upstream_that_has_it() -> None:
    """The upstream may have any version. Its lowest one remains the lowest."""
    assert ApiKey.FIND_COORDINATOR not in offer.offered_versions(MOCK)
    offered = offer.offered_versions({ApiKey.FIND_COORDINATOR: (2, 3)})
    assert offered == {**offer.offered_versions({}), ApiKey.FIND_COORDINATOR: (2, 6)}


@pytest.mark.parametrize(("upstream_max", "offered_max"), [(4, 4), (5, 6), (6, 6)])
def test_transactions_by_topic_id_need_the_previous_version(
    upstream_max: int, offered_max: int
) -> None:
    """A client that sends TxnOffsetCommit v6 relies on the cluster to add the group to the
    transaction, which it does from v5 on (KIP-890)."""
    offered = offer.offered_versions({ApiKey.TXN_OFFSET_COMMIT: (0, upstream_max)})
    assert offered[ApiKey.TXN_OFFSET_COMMIT] == (0, offered_max)


@pytest.mark.parametrize(("upstream_max", "offered_max"), [(3, 3), (4, 5), (5, 5)])
def test_a_cluster_that_lists_no_states_is_offered_no_filters(
    upstream_max: int, offered_max: int
) -> None:
    """Its groups would pass no filter by state. Before v5 all of them are classic ones."""
    upstream = {int(ApiKey.DESCRIBE_GROUPS): (0, 6), int(ApiKey.LIST_GROUPS): (0, upstream_max)}
    offered = offer.offered_versions(upstream)
    assert offered[ApiKey.LIST_GROUPS] == (0, offered_max)


def test_an_api_with_only_unknown_versions_is_not_offered() -> None:
    """The ranges do not overlap."""
    assert ApiKey.FETCH not in offer.offered_versions({ApiKey.FETCH: (16, 18)})
    newer: dict[int, tuple[int, int]] = {
        ApiKey.DESCRIBE_GROUPS: (0, 6),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (2, 3),
    }
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in offer.offered_versions(newer)


def test_the_embedded_cluster_decides_nothing_about_groups() -> None:
    """The embedded cluster states the new protocol from v1 on; the gateway also answers older
    clients."""
    offered = offer.offered_versions({**MOCK, ApiKey.CONSUMER_GROUP_HEARTBEAT: (1, 1)})
    assert offered[ApiKey.CONSUMER_GROUP_HEARTBEAT] == (0, 1)


@pytest.mark.parametrize("key", API_TABLE)
@pytest.mark.parametrize("lowest", [0, 1])
def test_the_lowest_version_is_the_upstreams(key: ApiKey, lowest: int) -> None:
    """Clients read from it what a broker can do. What they send in it is relayed or decoded."""
    highest = max(lowest, API_TABLE[key].max_version)
    upstream: dict[int, tuple[int, int]] = {
        **{ApiKey.METADATA: (0, 13), ApiKey.DESCRIBE_GROUPS: (0, 6)},
        key: (lowest, highest),
    }
    lowest = max(lowest, API_TABLE[key].min_version)
    expected = (lowest, highest) if lowest <= API_TABLE[key].max_version else None
    assert offer.offered_versions(upstream).get(key) == expected


def test_kafka_4_states_versions_of_produce_that_it_refuses() -> None:
    """KAFKA-18659: librdkafka before 2.11 compresses nothing otherwise."""
    assert offer.offered_versions({**KAFKA_4, ApiKey.METADATA: (0, 13)})[ApiKey.PRODUCE] == (0, 13)


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
    """The gateway's group.version replaces the cluster's. Scenario 66 cannot occur: the level is
    always 1 here, because the gateway itself answers keys 68 and 69."""
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
        "share.version": 1,
        "streams.version": 1,
        "group.version": 1,
    }
    assert ("group.version", 0, 1) in [
        (key.name, key.min_version, key.max_version) for key in answer.supported_features
    ]
    assert answer.finalized_features_epoch == 17


def test_share_groups_that_were_only_tried_out_are_no_feature() -> None:
    """Kafka 4.0 has the apis in versions that no release has since."""
    offered = offer.offered_versions({**KAFKA_4, 78: (0, 0), 76: (0, 0)})
    answer = offer.api_versions_answer(offered, _upstream(("share.version", 1)), 4)
    assert [key.name for key in answer.finalized_features] == ["group.version"]


def test_transactions_v2_need_all_their_versions() -> None:
    """A client that sees the feature sends versions that would be refused."""
    offered = offer.offered_versions({**KAFKA_4, 26: (0, 4)})
    answer = offer.api_versions_answer(offered, _upstream(("transaction.version", 2)), 4)
    assert [key.name for key in answer.finalized_features] == ["group.version"]


def test_features_from_level_0_are_hidden_from_older_clients() -> None:
    """Clients before ApiVersions v4 cannot parse them (KAFKA-17011). Finalized features are shown
    anyway."""
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
def test_software_names_follow_kip_511(name: str, version: str, good: bool) -> None:
    """Versions before v3 have none."""
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert offer.is_well_formed(request, 3) is good
    assert offer.is_well_formed(request, 2)


def test_connections_to_brokers_that_speak_the_same_share_one_offer() -> None:
    """Each has decoded an answer of its own."""
    spoken = {**KAFKA_4, ApiKey.FETCH: (4, 13), ApiKey.METADATA: (0, 12), ApiKey.HEARTBEAT: (0, 4)}
    first, second = (
        offer.offer_of(
            ApiVersionsResponse(
                api_keys=tuple(
                    ApiVersion(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in spoken.items()
                )
            )
        )
        for _ in range(2)
    )
    assert first is second
    assert first.versions == spoken
    assert first.offered == offer.offered_versions(spoken)
    assert ApiKey.FETCH in first.relayed
    assert ApiKey.PRODUCE in first.relayed
    assert not first.relayed.keys() & {ApiKey.METADATA, ApiKey.HEARTBEAT}


def test_the_apis_of_client_side_assignors_have_the_operators_keys() -> None:
    """The second key follows the first."""
    assert offer.client_side_apis(31_000) == {
        31_000: ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
        31_001: ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
    }
    assert offer.client_side_apis(None) == {}
