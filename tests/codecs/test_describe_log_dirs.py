"""DescribeLogDirs from a table, in both directions."""

import pytest

from kafka_codecs.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("version", "wire"),
    [(1, "00000001 0001 't' 00000001 00000003"), (2, "02 02 't' 02 00000003 00 00")],
)
def test_a_request_encodes_and_decodes(version: int, wire: str) -> None:
    """The bytes are written by hand from Kafka's schema."""
    topic = DescribableLogDirTopic(topic="t", partitions=(3,))
    check_both_ways(DescribeLogDirsRequest(topics=(topic,)), version, wire)


@pytest.mark.parametrize(("version", "wire"), [(1, "ffffffff"), (2, "00 00")])
def test_null_requests_all_topics(version: int, wire: str) -> None:
    """As above."""
    check_both_ways(DescribeLogDirsRequest(topics=None), version, wire)


def test_a_response_encodes_and_decodes() -> None:
    """As above."""
    partition = DescribeLogDirsPartition(
        partition_index=3, partition_size=4, offset_lag=5, is_future_key=False
    )
    topic = DescribeLogDirsTopic(name="t", partitions=(partition,))
    result = DescribeLogDirsResult(log_dir="/d", topics=(topic,), total_bytes=6, usable_bytes=7)
    wire = """
        00000000 0000                       # throttle_time_ms, error_code
        02                                  # results
          0000 03 '/d'                      # error_code, log_dir
          02 02 't'                         # topics
            02                              # partitions
              00000003 0000000000000004     # partition_index, partition_size
              0000000000000005 00 00        # offset_lag, is_future_key
          00
          0000000000000006 0000000000000007 # total_bytes, usable_bytes
          00
        00
    """
    check_both_ways(DescribeLogDirsResponse(results=(result,)), 4, wire)
