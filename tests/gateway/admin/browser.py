"""A headless Chromium, driven by its DevTools protocol over a pipe: no driver, no package."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from tests.support.requirements import missing
from tests.support.until import until_answered

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_WITH_PIPE = ("sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null', "sh")
"""Runs a program that reads commands from descriptor 3 and answers on 4."""
ANSWER_S = 20.0
"""How long the browser may take for one command."""
UNNAMED_ROLES = {"button", "link", "textbox", "searchbox", "combobox", "table", "dialog", "image"}
"""The roles whose elements a screen reader has to name."""


class BrowserFailed(Exception):
    """The browser refused a command, or the page's script raised."""


def program() -> str:
    """The browser. Skips the test if there is none."""
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        missing("Chromium (Debian: chromium-headless-shell)")
    return path


class Page:
    """One tab. `problems` has what the page wrote to its console as an error, and what its policy
    refused."""

    def __init__(self, process: trio.Process) -> None:
        self.problems: list[str] = []
        self.requested: set[str] = set()
        """The addresses that the page has asked for."""
        self.pid = process.pid
        """The id of the browser's process, and of the session that all its processes are in."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._to = process.stdin
        self._from = process.stdout
        self._answers: dict[int, dict[str, Any]] = {}
        self._answered = trio.lowlevel.ParkingLot()
        self._next_id = 0
        self._session: str | None = None

    async def listen(self) -> None:
        """Take what the browser says, until it ends."""
        rest = b""
        while data := await self._from.receive_some(1 << 16):
            *messages, rest = (rest + data).split(b"\0")
            for message in messages:
                self._take(json.loads(message))

    def _take(self, message: dict[str, Any]) -> None:
        fields = message.get("params", {})
        match message.get("method"):
            case None:
                self._answers[message["id"]] = message
                self._answered.unpark_all()
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(fields["exceptionDetails"]))
            case "Log.entryAdded" if fields["entry"]["level"] == "error":
                self.problems.append(fields["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requested.add(fields["request"]["url"])
            case _:
                pass

    async def command(self, method: str, **fields: Any) -> dict[str, Any]:
        """Give the browser a command. Raises BrowserFailed."""
        self._next_id += 1
        command_id = self._next_id
        message = {"id": command_id, "method": method, "params": fields}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._to.send_all(json.dumps(message).encode() + b"\0")
        with trio.fail_after(ANSWER_S):
            while command_id not in self._answers:
                await self._answered.park()
        answer = self._answers.pop(command_id)
        if "error" in answer:
            raise BrowserFailed(answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    async def open(self) -> None:
        target = await self.command("Target.createTarget", url="about:blank")
        attached = await self.command(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            await self.command(f"{domain}.enable")

    async def go(self, url: str) -> None:
        await self.command("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """The value of an expression. Raises BrowserFailed."""
        answer = await self.command(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserFailed(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true. Raises trio.TooSlowError."""
        await until_answered(lambda: self.run(script))

    async def press(self, key: str) -> None:
        text = key if len(key) == 1 else ""
        await self.command("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        await self.command("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def look(self, *, width: int, is_dark: bool = False) -> None:
        """Change the window's width and theme."""
        await self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=False,
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self.command("Emulation.setEmulatedMedia", features=[theme])

    async def roles_without_name(self) -> list[str]:
        """The roles of elements that a screen reader could not name."""
        tree = await self.command("Accessibility.getFullAXTree")
        return [
            node["role"]["value"]
            for node in tree["nodes"]
            if not node["ignored"]
            and node["role"]["value"] in UNNAMED_ROLES
            and not node.get("name", {}).get("value")
        ]


@asynccontextmanager
async def browser_page(folder: Path) -> AsyncIterator[Page]:
    """A browser with one tab, and a profile of its own in `folder`."""
    browser = [
        *(program(), "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"),
        *("--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={folder}"),
    ]
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            deliver_cancel=_kill,
        )
        page = Page(await nursery.start(run, [*_WITH_PIPE, *browser]))
        nursery.start_soon(page.listen)
        await page.open()
        yield page
        nursery.cancel_scope.cancel()


async def _kill(process: trio.Process) -> None:
    """Kill the browser with its processes. The program itself may be a script."""
    os.killpg(process.pid, signal.SIGKILL)
