"""The anchors of a gateway that ends leave their groups."""

from structlog.testing import capture_logs

from kafka_codecs.apis import ApiKey
from tests.support.offset_stage import offset_stage


async def test_a_gateway_ends_once_its_anchors_have_left() -> None:
    """The gateway does not wait for the rest of the time that the anchors have."""
    with capture_logs() as lines:
        async with offset_stage() as stage:
            for group in ("a", "b"):
                stage.client.group = group
                await stage.client.native("n")
            stage.gateway.stop.set()
            await stage.gateway.ended.wait()
    asked = [header.api_key for header in stage.broker.seen]
    assert asked.count(ApiKey.LEAVE_GROUP) == 2
    assert "anchors_left_behind" not in [line["event"] for line in lines]
