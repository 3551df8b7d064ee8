"""The admin API over real groups."""

import json
from urllib.parse import quote

import jsonschema
import pytest
import trio

from gateway.admin import app as module
from gateway.admin.app import SUBSCRIBERS_MAX
from gateway.admin.openapi import description
from gateway.board import recent_events
from gateway.readable import UNSEEN
from tests.support.admin import HOST, AdminStage, admin_stage
from tests.support.hosted_groups import GROUP


async def test_a_group_is_listed_and_described() -> None:
    """The answers match the board, and the description of the API."""
    async with admin_stage() as stage:
        await stage.groups.native("n", client_id="n-1")
        listed = await stage.ask("/api/groups")
        described = await stage.ask(f"/api/group?group_id={GROUP}")
        events = await stage.ask(f"/api/latest-events?group_id={GROUP}")
        gateway = await stage.ask("/api/gateway")
        ready = await stage.ask(f"/api/readiness?group_id={GROUP}")
    assert [group["group_id"] for group in listed.json["groups"]] == [GROUP]
    assert [member["client_id"] for member in described.json["member_list"]] == ["n-1"]
    for path, answer in (
        ("/api/groups", listed),
        ("/api/group", described),
        ("/api/latest-events", events),
        ("/api/gateway", gateway),
        ("/api/readiness", ready),
    ):
        assert answer.status == 200
        fits(path, answer.json)


def fits(path: str, answer: object) -> None:
    """Check an answer against the description."""
    whole = description()
    content = whole["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    jsonschema.validate(answer, content["schema"] | {"components": whole["components"]})


async def test_a_later_look_lists_what_has_changed() -> None:
    """The page asks with the revision of its last look, and with 0 first."""
    async with admin_stage() as stage:
        await stage.groups.lone_classic_member()
        first = await stage.ask("/api/groups?after=&since=0")
        assert (first.status, len(first.json["groups"])) == (200, 1)
        again = await stage.ask(f"/api/groups?after=&since={first.json['revision']}")
        assert again.status == 200
        assert (await stage.ask("/api/groups?since=x")).status == 400


@pytest.mark.parametrize("group_id", ["a/../b", "a b?c#d%&=+", "ü\n", "x" * 32_767])
async def test_any_group_id_fits_into_an_address(group_id: str) -> None:
    """Kafka allows every string."""
    async with admin_stage() as stage:
        await stage.groups.native("n", group=group_id)
        described = await stage.ask(f"/api/group?group_id={quote(group_id, safe='')}")
        gone = await stage.ask(f"/api/group?group_id={quote(group_id[:-1], safe='')}.")
    assert described.json["group_id"] == group_id
    assert (gone.status, gone.json["reason"]) == (
        404,
        "the gateway does not know this group: see groupferry groups",
    )


async def test_a_gateway_says_whether_it_is_ready() -> None:
    """A probe sees it by the status."""
    async with admin_stage() as stage:
        assert (await stage.ask("/livez")).status == 200
        assert (await stage.ask("/readyz")).json == {"is_ready": True, "reasons": []}
        stage.stop.set()
        unready = await stage.ask("/readyz")
        assert (await stage.ask("/livez")).status == 200
    assert (unready.status, unready.json["reasons"]) == (503, ["the gateway is shutting down"])


async def test_a_command_is_carried_out_and_reported() -> None:
    """The handlers of the control socket carry it out."""
    async with admin_stage() as stage:
        await stage.groups.native("n")
        outcome = await stage.command("adopt", group_id=GROUP, dry_run=True)
        audit = await stage.groups.wait_for_event("command_given")
    assert outcome.json["reasons"] == ["it is hosted already: nothing to do"]
    assert audit["given_by"] == f"admin API: {HOST}"
    assert audit["is_trial"]


async def test_the_address_names_the_command() -> None:
    """Its body need not."""
    async with admin_stage() as stage:
        await stage.groups.native("n")
        outcome = await stage.command("release", group_id=GROUP, dry_run=True)
    assert (outcome.json["kind"], outcome.json["is_released"]) == ("release", False)


@pytest.mark.parametrize(
    ("path", "kind", "body", "status"),
    [
        ("adopt", "text/plain", b'{"group_id":"g"}', 415),
        ("adopt", "application/json", b"{", 400),
        ("adopt", "application/json", b"{}", 400),
        ("adopt", "application/json", b'{"group_id":"g","force":true}', 400),
        ("adopt", "application/json", b'{"group_id":"g","dry_run":0}', 400),
        ("drop", "application/json", b'{"group_id":"g"}', 404),
        ("adopt", "application/json", b'{"group_id":"g","command":"release"}', 400),
        ("adopt", "application/json", b" " * 300_000, 413),
    ],
)
async def test_a_command_that_is_none_is_refused(
    path: str, kind: str, body: bytes, status: int
) -> None:
    """No event reports it."""
    async with admin_stage() as stage:
        answer = await stage.ask(
            f"/api/commands/{path}", method="POST", headers={"Content-Type": kind}, body=body
        )
        assert stage.groups.events_named("command_given") == []
    assert answer.status == status
    assert answer.json.keys() == {"reason"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/groups", 405),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/groups?after=" + "x" * 40_000, 400),
        ("GET", "/api/readiness", 400),
        ("GET", "/api/readiness?group_id=nobody", 404),
        ("GET", "/api/latest-events?group_id=", 400),
        ("GET", "/api/events?after=x", 400),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(
    method: str, path: str, status: int
) -> None:
    """The answer is one line."""
    async with admin_stage() as stage:
        answer = await stage.ask(path, method=method)
    assert answer.status == status
    assert answer.json.keys() == {"reason"}


# -- the stream ----------------------------------------------------------------------------------


class Reader:
    """Reads a stream of events."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._text = ""

    async def next(self) -> dict[str, str]:
        """The next event: its fields."""
        while "\n\n" not in self._text or "id: " not in self._text:
            more = await self._stream.receive_some()
            assert more, self._text
            self._text += more.decode()
        start = min(
            where for where in (self._text.find("id: "), self._text.find("event: ")) if where >= 0
        )
        event, _, self._text = self._text[start:].partition("\n\n")
        return dict(line.partition(": ")[::2] for line in event.split("\n"))


async def follow(stage: AdminStage, query: str = "") -> Reader:
    """A stream that has begun."""
    stream = await trio.open_tcp_stream(HOST, stage.port)
    await stream.send_all(f"GET /api/events{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return Reader(stream)


async def test_a_stream_sends_events_as_they_happen() -> None:
    """A stream has the events of all groups, or of one."""
    async with admin_stage() as stage:
        reader = await follow(stage, f"?group_id={GROUP}")
        assert (await reader.next())["event"] == "hello"
        await stage.groups.native("n", group="other")
        await stage.groups.native("n")
        event = await reader.next()
    assert json.loads(event["data"])["group_id"] == GROUP


async def test_a_stream_continues_where_it_was() -> None:
    """The id of its last event is enough."""
    async with admin_stage() as stage:
        await stage.groups.native("n")
        everything = [event.line.decode() for event in stage.board.events.after(0, events_max=99)]
        reader = await follow(stage, f"?after={stage.board.events.stream_id}-1")
        assert (await reader.next())["event"] == "hello"
        events = [json.loads((await reader.next())["data"]) for _ in everything[1:]]
    sentences = [event.pop("sentence") for event in events]
    assert any(sentences)
    assert events == [json.loads(line) for line in everything[1:]]


async def test_a_stream_that_has_missed_events_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream continues with the oldest event that is left. A reader from an earlier process
    gets everything."""
    monkeypatch.setattr(recent_events, "EVENTS_MAX", 2)
    async with admin_stage() as stage:
        await stage.groups.native("n")
        last = stage.board.events.last
        stream_id = stage.board.events.stream_id
        for given in (f"{stream_id}-0", "another-7"):
            reader = await follow(stage, f"?after={given}")
            assert (await reader.next())["event"] == "hello"
            assert (await reader.next())["event"] == "gap"
            assert (await reader.next())["id"] == f"{stream_id}-{last - 1}"


async def test_a_quiet_stream_shows_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something between may otherwise close it."""
    monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.01)
    async with admin_stage() as stage:
        reader = await follow(stage)
        assert (await reader.next())["event"] == "hello"
        assert (await reader.next())["event"] == "alive"


async def test_streams_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A place is free again when its client has gone."""
    monkeypatch.setattr(module, "SUBSCRIBERS_MAX", 1)
    monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.01)
    assert SUBSCRIBERS_MAX < 64
    async with admin_stage() as stage:
        reader = await follow(stage)
        await reader.next()
        assert (await stage.ask("/api/events")).status == 503
        await reader._stream.aclose()
        while True:
            again = await follow(stage)
            with trio.move_on_after(0.2):
                await again.next()
                break


async def test_operators_hold_and_allow_a_group() -> None:
    """The board says so, and the next consumer learns why it may not switch."""
    async with admin_stage() as stage:
        await stage.groups.lone_classic_member()
        trial = await stage.command("pause", group_id=GROUP, dry_run=True)
        policies = [trial.json["reasons"]]
        for name in ("hold", "pause", "allow"):
            outcome = await stage.command(name, group_id=GROUP)
            assert outcome.json == {
                "kind": "policy",
                "group_id": GROUP,
                "policy": name,
                "reasons": [],
            }
            policies.append((await stage.ask(f"/api/group?group_id={GROUP}")).json["policy"])
        unknown = await stage.command("hold", group_id="typo")
        for end in (False, True):
            rolled = await stage.command("roll", group_id=GROUP, end=end)
            assert rolled.json["policy"] == ("end of roll" if end else "roll")
            assert rolled.json["reasons"] == []
        stranger = await stage.command("roll", group_id="typo")
    assert policies == [[], "hold", "pause", "allow"]
    assert "does not host a group of this name" in stranger.json["reasons"][0]
    assert "has consumers in a group of this name" in unknown.json["reasons"][0]


async def test_no_answer_can_disturb_a_terminal() -> None:
    """Clients choose the names of groups, and operators look with curl. The JSON means the same."""
    evil = "a\x1b]0;owned\x07\x9b2J\u202eb\u2066"
    name = quote(evil)
    async with admin_stage() as stage:
        reader = await follow(stage)
        await stage.groups.native("n", group=evil)
        answers = [
            await stage.ask(path)
            for path in (
                "/api/groups",
                f"/api/group?group_id={name}",
                f"/api/latest-events?group_id={name}",
                f"/api/readiness?group_id={name}",
                f"/api/group?group_id={name}-unknown",
            )
        ]
        answers.append(await stage.command("adopt", group_id=evil))
        await reader.next()
        events = [(await reader.next())["data"] for _ in range(3)]
    for text in (*(answer.body.decode() for answer in answers), *events):
        assert not UNSEEN.search(text)
    assert json.loads(answers[0].body)["groups"][0]["group_id"] == evil
    assert {json.loads(event)["group_id"] for event in events} == {evil}
