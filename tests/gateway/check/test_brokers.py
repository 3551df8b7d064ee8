"""Whether brokers can be reached under the addresses that clients are given."""

from gateway.check.brokers import check_brokers
from gateway.check.finding import Result
from gateway.cluster.access import PLAIN_ACCESS
from tests.support.fake_broker import FakeBroker, running_fake_broker
from tests.support.ports import HOST, free_port


async def test_a_broker_under_an_address_that_does_not_answer_is_named() -> None:
    closed = free_port()
    async with running_fake_broker(FakeBroker()) as broker:
        brokers = {1: broker.address, 7: (HOST, closed)}
        findings = [finding async for finding in check_brokers(brokers, PLAIN_ACCESS)]
    reached, failed = findings
    assert reached.detail == "1 of 2 can be reached by their advertised names"
    assert failed.result is Result.FAILS
    assert failed.detail.startswith(f"broker 7 at {HOST}:{closed}: cannot connect")
