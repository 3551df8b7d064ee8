"""The wire format of the Kafka messages that the gateway reads or writes.

`decode` turns bytes into typed messages, `encode` turns messages into bytes.
"""

from kafka_codecs.codec import decode, encode
from kafka_codecs.errors import WireError

__all__ = ["WireError", "decode", "encode"]
