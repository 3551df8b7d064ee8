"""Ids that the engine generates for members of a consumer group: for classic members (rule 5.3),
and for native members with heartbeat v0 (rule 3.2)."""

from base64 import urlsafe_b64encode
from uuid import UUID


def member_id_from(fresh_id: UUID) -> str:
    """The UUID as 22 characters of base64, as Kafka prints it."""
    return urlsafe_b64encode(fresh_id.bytes).rstrip(b"=").decode("ascii")
