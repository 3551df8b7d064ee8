"""Ids that the engine gives to members of a consumer group: to classic ones (rule 5.3), and to
native ones that leave it to the server (heartbeat v0, rule 3.2)."""

from base64 import urlsafe_b64encode
from uuid import UUID


def member_id_from(fresh_id: UUID) -> str:
    """22 characters of base64, as Kafka prints a UUID."""
    return urlsafe_b64encode(fresh_id.bytes).rstrip(b"=").decode("ascii")
