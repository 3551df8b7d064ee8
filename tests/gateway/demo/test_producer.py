"""The producer process, against the embedded cluster itself."""

from gateway.demo.reports import ProducedReport
from tests.support.demo_stage import LIMIT_S, open_stage


async def test_the_producer_numbers_its_records_and_counts_them() -> None:
    """Record n is in partition n modulo the partitions, and the final count is that of stored
    records."""
    async with open_stage() as at:
        child, heard = await at.produce()
        await heard.until(
            lambda: any(report.acknowledged > 50 for report in heard.of(ProducedReport))
        )
        await child.finish(LIMIT_S)
    *_, last = heard.of(ProducedReport)
    assert last.final
    assert last.failed == 0
    assert sum(last.end_offsets) == last.acknowledged
    assert max(last.end_offsets) - min(last.end_offsets) <= 1
    assert child.describe_exit() == "exit status 0"
