"""The topics of regular expressions are those that members may describe."""

from uuid import UUID

import pytest

from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.support.guarded_broker import GuardedBroker, native_join
from tests.support.offset_stage import offset_stage
from tests.support.until import until_answered


@pytest.mark.parametrize("hidden_by", ["the cluster", "the gateway"])
async def test_a_regular_expression_matches_what_the_member_may_describe(hidden_by: str) -> None:
    """The member learns neither ids nor partitions of other topics, which include the gateway's
    own."""
    is_private = hidden_by == "the gateway"
    broker = GuardedBroker(hidden_topics=frozenset() if is_private else frozenset({"secret"}))
    broker.other_topics = {"secret": UUID(int=2)}
    broker.topic_id = UUID(int=1)
    async with offset_stage(broker, private_topics=("secret",) if is_private else ()) as stage:
        joined = await native_join(stage, regex=".*")
        assert joined.error_code == 0
        assert joined.member_id is not None
        member_id, epoch = joined.member_id, joined.member_epoch

        async def beat() -> ConsumerGroupHeartbeatResponse:
            nonlocal epoch
            answer = await stage.client.native(member_id, epoch)
            assert answer.error_code == 0
            epoch = answer.member_epoch
            return answer

        await until_answered(
            beat, lambda answer: answer.assignment and answer.assignment.topic_partitions
        )
        (member,) = (await stage.client.described_as_consumer_group(0)).members
        for shown in (member.assignment, member.target_assignment):
            assert {topic.topic_name for topic in shown.topic_partitions} == {"numbers"}
