"""The names and numbers of error codes are those of a library that we did not write."""

import pytest
from kio.schema.errors import ErrorCode as TheirErrorCode

from kafka_codecs.error_codes import ErrorCode


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_a_code_has_the_number_that_kio_gives_it(code: ErrorCode) -> None:
    assert TheirErrorCode[code.name.lower()].value == code.value
