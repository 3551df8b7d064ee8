"""Member ids that the engine generates in a consumer group (rules 3.2, 5.3)."""

from uuid import UUID

from coordinator.consumer.member_ids import member_id_from


def test_an_id_is_a_uuid_as_kafka_prints_it() -> None:
    """The id has 22 characters of URL-safe base64 without padding."""
    assert member_id_from(UUID(int=0)) == "A" * 22
    assert member_id_from(UUID(int=2**128 - 1)) == "_" * 21 + "w"
