"""Bytes to typed Kafka messages and back.

Owns the wire format of the messages the gateway looks into. Does no IO, has no clock, knows nothing
of groups.
"""

from kafka_codecs.codec import decode, encode
from kafka_codecs.errors import WireError

__all__ = ["WireError", "decode", "encode"]
