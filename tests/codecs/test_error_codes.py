"""The names and numbers of error codes agree with kio."""

import pytest
from kio.schema.errors import ErrorCode as TheirErrorCode

from kafka_codecs.error_codes import OUR_CODES, ErrorCode


@pytest.mark.parametrize(
    "code", [code for code in ErrorCode if code < OUR_CODES], ids=lambda code: code.name
)
def test_a_code_has_kios_number(code: ErrorCode) -> None:
    assert TheirErrorCode[code.name.lower()].value == code.value


def test_codes_of_the_kip_that_no_kafka_has_are_far_from_kafkas() -> None:
    assert ErrorCode.INVALID_ASSIGNMENT == OUR_CODES > 10 * max(TheirErrorCode)
