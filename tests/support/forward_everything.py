"""Group apis that ask the upstream the same thing: enough for the data path's own tests."""

from gateway.data_path.group_apis import GroupRequest
from kafka_codecs.declaration import Struct


class ForwardEverything:
    """Relays every group request."""

    async def answer(self, request: GroupRequest) -> Struct:
        """The upstream's own answer, in the request's version."""
        answer: Struct = await request.upstream.ask(request.message, request.header.api_version)
        return answer
