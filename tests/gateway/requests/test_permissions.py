"""The table of permissions."""

from gateway.data_path.grants import Resource
from gateway.data_path.treatments import TREATMENTS, ApiHandling
from gateway.requests.permissions import NEEDED
from kafka_codecs.apis import ApiKey


def test_every_api_about_groups_needs_a_permission() -> None:
    """ApiVersions is for everybody, and the cluster itself answers FindCoordinator and the
    heartbeats of share groups and streams groups."""
    about_groups = {
        key
        for key, treated in TREATMENTS.items()
        if treated.treatment in {ApiHandling.ANSWER, ApiHandling.VET}
    }
    free = {
        *(ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR),
        *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT),
    }
    assert {key for key, resource in NEEDED if resource is Resource.GROUP} == about_groups - free
