"""The identity of an anchor, and the brokers that support one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cluster.broker_connection import SOFTWARE_NAME
from gateway.hosting.identity import (
    CLIENT_ID,
    INSTANCE_ID,
    AnchorJoinMetadata,
    Gateway,
    log_of,
    may_hold,
    run_of,
    unreadable_subscription,
)
from kafka_codecs.apis import ApiKey
from tests.simulation.coordinator import described_group
from tests.simulation.subscription_reading import Reading, read

KAFKA_2_3: dict[int, tuple[int, int]] = {
    ApiKey.JOIN_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 3),
    ApiKey.HEARTBEAT: (0, 3),
    ApiKey.OFFSET_COMMIT: (0, 7),
}
"""The first release with static members (KIP-345)."""


def test_kafka_2_3_supports_an_anchor() -> None:
    """Later releases do as well."""
    assert may_hold(KAFKA_2_3)
    assert may_hold({key: (0, highest + 3) for key, (_, highest) in KAFKA_2_3.items()})


@pytest.mark.parametrize("key", KAFKA_2_3)
def test_an_older_broker_cannot_fence_a_predecessor(key: int) -> None:
    """One api without instance ids is enough: both anchors could commit."""
    lowest, highest = KAFKA_2_3[key]
    assert not may_hold({**KAFKA_2_3, key: (lowest, highest - 1)})
    assert not may_hold({other: KAFKA_2_3[other] for other in KAFKA_2_3 if other != key})


def test_an_anchor_names_its_process() -> None:
    """A later process recognises it."""
    gateway = Gateway(log_id="log", run_id=17)
    assert run_of(gateway.join_metadata.metadata) == 17


@pytest.mark.parametrize("metadata", [b"", b"17", b"run ", b"run -1", b"run 1\n", b"run 1e3"])
def test_other_metadata_names_no_process(metadata: bytes) -> None:
    """An anchor that joins has none, and those of earlier versions have random ones."""
    assert run_of(metadata) is None


# -- the bytes that no broker can read -------------------------------------------------------------


@given(run_id=st.integers(min_value=0, max_value=2**63 - 1))
def test_no_process_can_send_bytes_that_hang_a_coordinator(run_id: int) -> None:
    """The bytes are no subscription either, with which a broker would expire offsets and convert
    the group. test_anchor_in_cluster_with_kafka.py asks real brokers."""
    metadata = unreadable_subscription(run_id)
    assert read(metadata) is Reading.UNREADABLE
    assert run_of(metadata) == run_id


# -- recognition -----------------------------------------------------------------------------------

OURS = Gateway(log_id="log-1", run_id=1)


def in_group(
    join_metadata: AnchorJoinMetadata, *member_ids: str, is_stable: bool = True
) -> str | None:
    """The log whose anchor is in a group with these members."""
    return log_of(described_group(join_metadata, *member_ids, group_id="g", is_stable=is_stable))


def test_the_protocol_of_an_anchor_names_its_log() -> None:
    """While it joins, the cluster shows no protocol, and only its ids tell it from a consumer."""
    assert in_group(OURS.join_metadata, f"{INSTANCE_ID}-1") == "log-1"
    assert in_group(OURS.join_metadata, f"{INSTANCE_ID}-1", is_stable=False) == ""


@pytest.mark.parametrize("protocol_type", ["consumer", "connect", ""])
@pytest.mark.parametrize("protocol", ["range", "groupferry", "log-1", ""])
@pytest.mark.parametrize("instance_id", ["", "groupferry", "anchor"])
@pytest.mark.parametrize("is_stable", [True, False])
def test_a_group_of_consumers_is_no_anchor(
    protocol_type: str, protocol: str, instance_id: str, *, is_stable: bool
) -> None:
    """This holds even if its clients have the client id of the gateway, or the instance id of
    0.2."""
    join_metadata = AnchorJoinMetadata(
        protocol_type=protocol_type, protocol=protocol, metadata=b"", instance_id=instance_id
    )
    for prefix in (instance_id, CLIENT_ID):
        assert in_group(join_metadata, f"{prefix}-1", is_stable=is_stable) is None


def test_a_group_that_consumers_share_with_an_anchor_is_theirs() -> None:
    """The cluster admits none to a group with an anchor, but its answer may show both during a
    rebalance."""
    assert in_group(OURS.join_metadata, f"{INSTANCE_ID}-1", "payments-1", is_stable=False) is None
    assert in_group(OURS.join_metadata) is None


def test_anchors_are_recognised_by_the_client_id_of_the_gateways_connections() -> None:
    """The two are declared apart."""
    assert CLIENT_ID == SOFTWARE_NAME
