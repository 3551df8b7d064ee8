"""The table of permissions."""

from gateway.data_path.api_table import API_TABLE, ApiHandling
from gateway.data_path.grants import Resource
from gateway.requests.permissions import NEEDED
from kafka_codecs.apis import ApiKey


def test_every_api_about_groups_needs_a_permission() -> None:
    """ApiVersions is for everyone, and the cluster itself answers FindCoordinator and the
    heartbeats of share groups and streams groups."""
    about_groups = {
        key
        for key, entry in API_TABLE.items()
        if entry.treatment in {ApiHandling.ANSWER, ApiHandling.INSPECT}
    }
    free = {
        *(ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR),
        *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT),
    }
    assert {key for key, resource in NEEDED if resource is Resource.GROUP} == about_groups - free
