"""The one error of the package."""

import kafka_codecs
from kafka_codecs.errors import WireError


def test_the_package_offers_its_error() -> None:
    """Callers need one import to catch whatever malformed bytes bring."""
    assert kafka_codecs.WireError is WireError
    assert issubclass(WireError, Exception)
