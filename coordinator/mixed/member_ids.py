"""Ids that the engine gives to classic members of a consumer group (spec 5.3)."""

from base64 import urlsafe_b64encode
from uuid import UUID


def member_id_from(fresh_id: UUID) -> str:
    """22 characters of base64, as Kafka prints a UUID."""
    return urlsafe_b64encode(fresh_id.bytes).rstrip(b"=").decode("ascii")
