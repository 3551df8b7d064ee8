"""The api versions that a client is offered: the intersection of our table and the upstream's
versions. Pure functions.

The lowest version of an api is the upstream's own, also where that is a pretence: Kafka 4 lists
Produce from v0 on, and closes the connection at v0 to v2, which are relayed to it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from gateway.cluster.broker_connection import Versions
from gateway.cluster.embedded import is_embedded
from gateway.data_path.api_table import (
    API_TABLE,
    FEATURE_NEEDS,
    METADATA_TOPIC_IDS_SINCE,
    TOPIC_IDS_SINCE,
    ApiEntry,
    ApiHandling,
)
from kafka_codecs import encode
from kafka_codecs.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafka_codecs.apis import ApiKey

_UNSUPPORTED_VERSION = 35
_INVALID_REQUEST = 42
_REBOOTSTRAP_REQUIRED = 129
_ANY_NODE = -1
_GROUP_VERSION = "group.version"
_FIRST_WITH_FEATURES_FROM_0 = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")

FIRST_WITH_SOFTWARE = 3
"""The first version of ApiVersions in which clients say what they are."""
OFFERS_MAX = 64
"""Offers kept for later connections. Brokers of one version speak the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What a broker speaks, and what its clients are therefore offered. Thousands of connections
    share it. Compared by identity: it is as good as one of a few constants."""

    api_versions: ApiVersionsResponse
    """The broker's ApiVersions answer."""
    versions: Versions
    """The versions in that answer, by api key."""
    offered: Versions
    """The versions that a client may use."""
    relayed: Versions
    """The offered versions in which requests are relayed unread. The outcome of EndTxn is noted."""


@lru_cache(maxsize=OFFERS_MAX)
def offer_of(api_versions: ApiVersionsResponse) -> Offer:
    """The offer to the clients of a broker."""
    versions = {api.api_key: (api.min_version, api.max_version) for api in api_versions.api_keys}
    offered = offered_versions(versions)
    relayed = {
        key: versions
        for key, versions in offered.items()
        if key == ApiKey.PRODUCE
        or (API_TABLE[ApiKey(key)].treatment is ApiHandling.RELAY and key != ApiKey.END_TXN)
    }
    return Offer(api_versions, versions, offered, relayed)


NO_VERSIONS = (0, -1)
"""The range of versions of an api that is not there."""

NOTHING_OFFERED = Offer(ApiVersionsResponse(), {}, {}, {})
"""The offer until the broker has been asked."""


def offered_versions(upstream: Versions) -> Versions:
    """The versions that a client may use with this upstream."""
    return {
        key.value: versions
        for key in API_TABLE
        if (versions := _offer_versions(key, API_TABLE[key], upstream)) is not None
    }


def _offer_versions(key: ApiKey, entry: ApiEntry, upstream: Versions) -> tuple[int, int] | None:
    # The embedded cluster serves no group, and states the new protocol from v1 on.
    if entry.without_upstream and (key not in upstream or is_embedded(upstream)):
        return versions_of(key)
    if key not in upstream:
        return None
    low, high = upstream[key]
    low, high = max(low, entry.min_version), min(high, entry.max_version)
    if max(low, entry.converted_from) <= high:
        alone = entry.max_version if entry.without_upstream else high
        high = max(high, alone, entry.converted_up_to or 0)
    if derives_topic_ids(upstream) and key in TOPIC_IDS_SINCE:
        high = min(high, TOPIC_IDS_SINCE[key] - 1)
    return (low, high) if low <= high else None


def client_side_apis(first_key: int | None) -> Mapping[int, ApiKey]:
    """The apis of client-side assignors by the keys that clients use, which follow each other. None
    for no such apis."""
    if first_key is None:
        return {}
    return {
        first_key: ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
        first_key + 1: ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
    }


def versions_of(key: ApiKey) -> tuple[int, int]:
    """The versions of an api that the gateway answers alone."""
    return 0, API_TABLE[key].max_version


def derives_topic_ids(upstream: Versions) -> bool:
    """Whether the upstream has no topic ids, so that the gateway derives them."""
    return upstream.get(ApiKey.METADATA, (0, 0))[1] < METADATA_TOPIC_IDS_SINCE


@lru_cache(maxsize=2 * OFFERS_MAX)
def encoded_answer(
    known: Offer, client_side: tuple[tuple[int, ApiKey], ...], version: int
) -> bytes:
    """The encoded answer to an ApiVersions request of a known version. `client_side`: the items of
    `client_side_apis`."""
    offered = {**known.offered, **{key: versions_of(api) for key, api in client_side}}
    return encode(api_versions_answer(offered, known.api_versions, version), version)


def api_versions_answer(
    offered: Versions, upstream: ApiVersionsResponse, version: int
) -> ApiVersionsResponse:
    """The answer to an ApiVersions request of a known version."""
    supported = [
        *(key for key in upstream.supported_features if _passed_on(key.name, offered)),
        SupportedFeatureKey(name=_GROUP_VERSION, min_version=0, max_version=1),
    ]
    return ApiVersionsResponse(
        api_keys=tuple(
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(offered.items())
        ),
        # Before v4 a level of 0 breaks some clients (KAFKA-17011), so brokers hide such features.
        supported_features=tuple(
            key
            for key in supported
            if key.min_version > 0 or version >= _FIRST_WITH_FEATURES_FROM_0
        ),
        finalized_features_epoch=max(upstream.finalized_features_epoch, 0),
        finalized_features=(
            *(key for key in upstream.finalized_features if _passed_on(key.name, offered)),
            FinalizedFeatureKey(name=_GROUP_VERSION, max_version_level=1, min_version_level=1),
        ),
    )


def too_new_answer() -> ApiVersionsResponse:
    """The answer, in the layout of v0, to an ApiVersions request of an unknown version
    (KIP-511)."""
    low, high = versions_of(ApiKey.API_VERSIONS)
    return ApiVersionsResponse(
        error_code=_UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high),),
    )


def refused_answer() -> ApiVersionsResponse:
    """The answer to a client whose software name or version is malformed, or that names a cluster
    without a node or a node without a cluster."""
    return ApiVersionsResponse(error_code=_INVALID_REQUEST)


def meant_for_another_answer() -> ApiVersionsResponse:
    """The answer to a client that means another cluster or node: it bootstraps again."""
    return ApiVersionsResponse(error_code=_REBOOTSTRAP_REQUIRED)


def is_meant_for(
    request: ApiVersionsRequest, cluster_id: str | None, is_here: Callable[[int], bool]
) -> bool:
    """Whether the client means the cluster and a node that it has reached (KIP-1242). A client
    that does not know them means any. None stands for any cluster."""
    if request.cluster_id is None:
        return True
    return cluster_id in (None, request.cluster_id) and is_here(request.node_id)


def is_well_formed(request: ApiVersionsRequest, version: int) -> bool:
    """Whether the client's software name and version are safe to pass on and to log, and whether it
    means a node of a cluster or none."""
    if (request.cluster_id is None) != (request.node_id == _ANY_NODE):
        return False
    return version < FIRST_WITH_SOFTWARE or bool(
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    )


def _passed_on(feature: str, offered: Versions) -> bool:
    needs = FEATURE_NEEDS.get(feature, {})
    return feature != _GROUP_VERSION and all(
        key in offered and offered[key][1] >= version for key, version in needs.items()
    )
