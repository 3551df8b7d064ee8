"""The package's exception."""

import kafka_codecs
from kafka_codecs.errors import WireError


def test_the_package_exports_its_error() -> None:
    """Callers need one import to handle malformed bytes."""
    assert kafka_codecs.WireError is WireError
    assert issubclass(WireError, Exception)
