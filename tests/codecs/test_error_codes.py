"""The names and numbers of error codes agree with kio."""

import pytest
from kio.schema.errors import ErrorCode as TheirErrorCode

from kafka_codecs.error_codes import ErrorCode


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_a_code_has_kios_number(code: ErrorCode) -> None:
    assert TheirErrorCode[code.name.lower()].value == code.value
