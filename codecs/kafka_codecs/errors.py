"""The one error that leaves this package."""


class WireError(Exception):
    """Bytes that are not a Kafka message, or a value that the wanted version cannot express."""
