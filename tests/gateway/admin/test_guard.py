"""Who may ask the admin API."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from gateway.admin import guard
from gateway.cluster.secret import Secret
from tests.support.admin import HOST, admin_stage


async def test_without_a_token_only_names_of_loopback_are_answered() -> None:
    """A page of anywhere may make its own name lead here."""
    async with admin_stage() as stage:
        for host, status in (
            (f"localhost:{stage.port}", 200),
            ("[::1]:9190", 200),
            (HOST, 200),
            ("evil.example", 421),
            (f"evil.example:{stage.port}", 421),
            ("127.0.0.1.evil.example", 421),
            ("", 421),
        ):
            answer = await stage.ask("/api/gateway", headers={"Host": host})
            assert answer.status == status, host


async def test_a_page_of_another_site_is_refused() -> None:
    """A browser says whose page asks."""
    async with admin_stage() as stage:
        own = await stage.ask("/api/gateway", headers={"Origin": f"http://{HOST}:{stage.port}"})
        other = await stage.ask("/api/gateway", headers={"Origin": "http://evil.example"})
    assert (own.status, other.status) == (200, 403)
    assert own.headers["content-security-policy"].startswith("default-src 'none'")
    assert "access-control-allow-origin" not in own.headers


async def test_a_token_is_asked_for(tmp_path: Path) -> None:
    """The token is read for each request and never logged. Probes and the page need none."""
    path = tmp_path / "token"
    path.write_text("s3cret-1\n")
    with capture_logs() as lines:
        async with admin_stage(token=Secret(path=path)) as stage:

            async def status(shown: str | None, path: str = "/api/gateway") -> int:
                headers = {"Host": "gateway.example"}
                if shown is not None:
                    headers["Authorization"] = shown
                return (await stage.ask(path, headers=headers)).status

            assert await status("Bearer s3cret-1") == 200
            assert await status("bearer s3cret-1") == 200
            for wrong in (None, "Bearer s3cret-2", "Bearer", "Basic s3cret-1", "s3cret-1"):
                assert await status(wrong) == 401
            assert await status(None, "/livez") == 200
            assert await status(None, "/") == 200
            path.write_text("s3cret-2")
            assert await status("Bearer s3cret-2") == 200
            path.write_text("")
            assert await status("Bearer ") == 503
            path.unlink()
            assert await status("Bearer s3cret-2") == 503
    assert "s3cret" not in str(lines)


async def test_a_second_token_allows_to_look_and_to_command_nothing() -> None:
    """A wallboard needs no right to release a group."""
    tokens = {"operator": Secret("s3cret-1"), "viewer": Secret("s3cret-2")}
    async with admin_stage(token=tokens["operator"], view_token=tokens["viewer"]) as stage:

        async def status(token: str, path: str, **request: Any) -> int:
            headers = {"Host": "gateway.example", "Authorization": f"Bearer {token}"}
            headers |= {"Content-Type": "application/json"}
            return (await stage.ask(path, headers=headers, **request)).status

        assert await status("s3cret-2", "/api/groups") == 200
        assert await status("s3cret-3", "/api/groups") == 401
        order = {"method": "POST", "body": b'{"group_id": "g", "dry_run": true}'}
        assert await status("s3cret-2", "/api/commands/hold", **order) == 403
        assert await status("s3cret-1", "/api/commands/hold", **order) in (200, 409)


async def test_requests_at_a_time_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes are still answered."""
    monkeypatch.setattr(guard, "REQUESTS_MAX", 1)
    async with admin_stage() as stage:
        stream = await trio.open_tcp_stream(HOST, stage.port)
        await stream.send_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await stream.receive_some()
        assert (await stage.ask("/api/gateway")).status == 503
        assert (await stage.ask("/readyz")).status == 200


async def asked_by(address: str, app: guard.Guard, path: str) -> int:
    """The status of a request from this address."""
    scope: guard.Scope = {
        **{"type": "http", "path": path, "client": (address, 1)},
        "headers": [(b"host", b"localhost")],
    }
    statuses: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, _no_body, send)
    return statuses[0]


async def _no_body() -> Any:
    return {"type": "http.request"}


async def test_requests_of_one_address_leave_room_for_others(nursery: trio.Nursery) -> None:
    """One address may keep any number of requests open, probes included."""
    gate = trio.Event()

    async def app(_scope: guard.Scope, _receive: guard.Receive, send: guard.Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await gate.wait()

    guarded = guard.Guard(app, token=None, public=())
    for path in ("/api/groups", "/livez"):
        for _ in range(guard.REQUESTS_MAX):
            nursery.start_soon(asked_by, "10.0.0.1", guarded, path)
        await trio.testing.wait_all_tasks_blocked()
    assert await asked_by("10.0.0.1", guarded, "/api/groups") == 503
    assert await asked_by("10.0.0.1", guarded, "/livez") == 503
    statuses: list[int] = []

    async def ask(path: str) -> None:
        statuses.append(await asked_by("10.0.0.2", guarded, path))

    for path in ("/api/groups", "/livez"):
        nursery.start_soon(ask, path)
    await trio.testing.wait_all_tasks_blocked()
    gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert statuses == [200, 200]
