"""The only exception that the package raises for bad data."""


class WireError(Exception):
    """The bytes are not a valid Kafka message, or the version cannot express a value."""
