"""Group apis that ask the upstream the same thing: enough for the data path's own tests."""

from gateway.data_path.conversions import ask_for_coordinators
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.groups.offset_fetch_shapes import (
    FIRST_VERSION_WITH_BATCHES,
    answer_about,
    request_about,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_BEFORE_REQUIRE_STABLE = 6


class ForwardEverything(GroupApis):
    """Relays every group request; batches of OffsetFetch, which the mock lacks, one by one."""

    async def answer(self, request: GroupRequest) -> Struct:
        """The upstream's own answer."""
        message, version = request.message, request.header.api_version
        if isinstance(message, OffsetFetchRequest) and version >= FIRST_VERSION_WITH_BATCHES:
            return await _fetch_each(request, message)
        if isinstance(message, FindCoordinatorRequest):
            return await ask_for_coordinators(message, request.upstream, version)
        answer: Struct = await request.upstream.ask(message, version)
        return answer


async def _fetch_each(request: GroupRequest, message: OffsetFetchRequest) -> OffsetFetchResponse:
    groups = []
    for group in message.groups:
        single = request_about(group, require_stable=False)
        answer: OffsetFetchResponse = await request.upstream.ask(single, _BEFORE_REQUIRE_STABLE)
        groups.append(answer_about(group.group_id, answer))
    return OffsetFetchResponse(groups=tuple(groups))
