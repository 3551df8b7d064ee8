"""Ids that the engine gives to members of a consumer group (rules 3.2, 5.3)."""

from uuid import UUID

from coordinator.member_ids import member_id_from


def test_an_id_is_a_uuid_as_kafka_prints_it() -> None:
    """22 characters of base64, safe in URLs, no padding."""
    assert member_id_from(UUID(int=0)) == "A" * 22
    assert member_id_from(UUID(int=2**128 - 1)) == "_" * 21 + "w"
