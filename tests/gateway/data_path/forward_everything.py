"""Group APIs that forward every request to the upstream, for the tests of the data path."""

from gateway.data_path.conversions import ask_for_coordinators
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.requests.offset_fetch_shapes import (
    FIRST_VERSION_WITH_BATCHES,
    answer_about,
    request_about,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_BEFORE_REQUIRE_STABLE = 6


class ForwardEverything(GroupApis):
    """Relays every group request. It splits OffsetFetch batches, which the mock cluster lacks."""

    async def answer(self, request: GroupRequest) -> Struct:
        """The upstream's answer."""
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
