"""The identity of an anchor, and the brokers that support one."""

import pytest

from gateway.hosting.identity import Gateway, may_hold, run_of
from kafka_codecs.apis import ApiKey

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
    assert may_hold({key: (0, most + 3) for key, (_, most) in KAFKA_2_3.items()})


@pytest.mark.parametrize("key", KAFKA_2_3)
def test_an_older_broker_cannot_fence_a_predecessor(key: int) -> None:
    """One api without instance ids is enough: both anchors could commit."""
    least, most = KAFKA_2_3[key]
    assert not may_hold({**KAFKA_2_3, key: (least, most - 1)})
    assert not may_hold({other: KAFKA_2_3[other] for other in KAFKA_2_3 if other != key})


def test_an_anchor_names_its_process() -> None:
    """A later process recognises it."""
    assert run_of(Gateway(log_id="log", run_id=17).metadata) == 17


@pytest.mark.parametrize("metadata", [b"", b"17", b"run ", b"run -1", b"run 1\n", b"run 1e3"])
def test_other_metadata_names_no_process(metadata: bytes) -> None:
    """An anchor that joins has none, and those of earlier versions have random ones."""
    assert run_of(metadata) is None
