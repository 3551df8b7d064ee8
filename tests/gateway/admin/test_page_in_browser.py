"""The page in a real headless Chromium: what an operator sees and does."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from gateway.board.views import FleetLine
from tests.gateway.admin.axe import violations
from tests.gateway.admin.browser import Page, browser_page, program
from tests.gateway.commands.test_show_gateways import FLEET
from tests.support.admin import HOST, AdminStage, admin_stage
from tests.support.hosted_groups import GROUP
from tests.support.until import until

FROZEN_S = 5.0
"""The page shows a frozen gateway after three seconds; a browser may be late."""
LIMIT_S = 120.0
"""The browser's processes compete with other tests."""
HOLD = "[...document.querySelectorAll('#commands button')].find((b) => b.textContent === 'Hold…')"


@asynccontextmanager
async def watched_page(
    folder: Path, fleet: tuple[FleetLine, ...] = ()
) -> AsyncIterator[tuple[AdminStage, Page]]:
    """The page of a gateway with a classic group of one member, and with this fleet."""
    program()
    async with admin_stage(limit_s=LIMIT_S, fleet=fleet) as stage, browser_page(folder) as page:
        await stage.groups.lone_classic_member(client_id="c-1")
        await page.go(f"http://{HOST}:{stage.port}/")
        await page.until("document.querySelectorAll('#groups tbody tr').length === 1")
        yield stage, page


def freeze() -> None:
    """Stop the gateway, which runs in this process, for some seconds."""
    time.sleep(FROZEN_S)


async def open_group(page: Page) -> None:
    """Open the group by a click."""
    await page.run("document.querySelector('#groups tbody a').click()")
    await page.until("document.querySelectorAll('#members tbody tr').length === 1")


async def test_a_group_is_found_opened_and_followed(tmp_path: Path) -> None:
    """This works by click and by key; what happens shows without a reload, and nothing is loaded
    from elsewhere."""
    async with watched_page(tmp_path) as (stage, page):
        await page.press("/")
        assert await page.run("document.activeElement.id") == "find"
        await page.run("document.activeElement.blur()")
        await open_group(page)
        assert await page.run("document.getElementById('group-title').textContent") == GROUP
        await page.until("document.getElementById('stands').textContent.includes('1 member')")
        await stage.groups.native("n", client_id="n-1")
        await page.until("document.querySelectorAll('#members tbody tr').length === 2")
        story = "document.getElementById('story').textContent"
        await page.until(f"{story}.includes('converted from the classic to the new protocol')")
        assert not await page.run(f"{story}.includes('target computed')")
        await page.press("d")
        await page.until(f"{story}.includes('target computed')")
        await page.press("Escape")
        await page.until("!document.getElementById('list').hidden")
        assert page.problems == []
        assert {url.split("/")[2] for url in page.requested} == {f"{HOST}:{stage.port}"}


async def test_the_list_names_the_gateways_whose_groups_are_missing(tmp_path: Path) -> None:
    """Gateways without shards are not named."""
    silent = [one.model_copy(update={"trouble": "no answer"}) for one in FLEET]
    async with watched_page(tmp_path, (FLEET[0], silent[1])) as (_stage, page):
        await page.until("document.getElementById('gateway').textContent !== ''")
        assert await page.run("document.getElementById('unlisted').hidden")
    async with watched_page(tmp_path, tuple(silent)) as (_stage, page):
        await page.until("!document.getElementById('unlisted').hidden")
        text = await page.run("document.getElementById('unlisted').textContent")
        assert text == "Groups of gateway a at h:1 are missing or old: no answer."


async def test_a_link_shows_another_person_the_same(tmp_path: Path) -> None:
    """What is searched, filtered and sorted stands in the address, and the way back leads there."""
    async with watched_page(tmp_path) as (stage, page):
        await page.run("document.querySelector('th[data-sort=lag] button').click()")
        await page.run("document.getElementById('find').value = 'ord'")
        await page.run("document.getElementById('find').dispatchEvent(new Event('input'))")
        assert await page.run("location.hash") == "#find=ord&sort=lag"
        sort = "document.querySelector('th[data-sort=lag]').ariaSort"
        assert await page.run(sort) == "descending"
        await page.go("about:blank")
        await page.go(f"http://{HOST}:{stage.port}/#find=ord&show=hosted&sort=lag")
        await page.until("document.querySelectorAll('#groups tbody tr').length === 1")
        assert await page.run(sort) == "descending"
        assert await page.run("document.getElementById('show').value") == "hosted"
        await open_group(page)
        await page.press("Escape")
        await page.until("!document.getElementById('list').hidden")
        assert await page.run("location.hash") == "#find=ord&show=hosted&sort=lag"
        await page.press("s")
        await page.until("location.hash.endsWith('sort=behind')")
        assert page.problems == []


async def test_a_client_is_shown_over_all_its_groups(tmp_path: Path) -> None:
    """One click from a member."""
    async with watched_page(tmp_path) as (stage, page):
        await stage.groups.native("n", group="other", client_id="c-1")
        await open_group(page)
        await page.run("document.querySelector('#members tbody a').click()")
        await page.until("document.querySelectorAll('#client-members tbody tr').length === 2")
        groups = "[...document.querySelectorAll('#client-members a')].map((a) => a.textContent)"
        assert await page.run(groups) == sorted([GROUP, "other"])
        for width in (1280, 360):
            await page.look(width=width)
            assert await page.run("document.documentElement.scrollWidth") <= width
            assert await violations(page) == []
        await page.run("document.querySelector('#client-members a').click()")
        await page.until("document.querySelectorAll('#members tbody tr').length === 1")
        assert page.problems == []


STALE_OPACITY = (
    "(() => { document.body.className = 'stale';"
    " const opacity = getComputedStyle(document.getElementById('main')).opacity;"
    " document.body.className = ''; return opacity; })()"
)
"""How visible the groups are while they are old."""


@pytest.mark.parametrize("is_open", [True, False], ids=["group", "list"])
async def test_a_frozen_gateway_is_seen_within_three_seconds(tmp_path: Path, is_open: bool) -> None:
    """The page says for how long the gateway has not answered, looks old, and recovers by
    itself."""
    async with watched_page(tmp_path) as (_stage, page):
        if is_open:
            await open_group(page)
        await page.until("document.getElementById('live').textContent === 'live'")
        await page.run(
            "window.texts = [];"
            "new MutationObserver(() => texts.push(document.body.className"
            " + ': ' + document.getElementById('live').textContent))"
            ".observe(document.getElementById('live'), { childList: true, characterData: true,"
            " subtree: true })"
        )
        assert await page.run(f"{STALE_OPACITY}") == "0.55"
        freeze()
        await page.until("document.getElementById('live').textContent === 'live'")
        texts = await page.run("window.texts.join('; ')")
        assert "stale: no answer for 3 s" in texts
        await page.until("document.body.className === ''")


async def test_a_roll_is_held_from_the_page(tmp_path: Path) -> None:
    """After a confirmation that says what will happen. A consumer that switches is then refused."""
    async with watched_page(tmp_path) as (stage, page):
        await open_group(page)
        await page.until(f"{HOLD} !== undefined")
        await page.run(f"{HOLD}.click()")
        await page.until("document.getElementById('dialog').open")
        dialog = await page.run("document.getElementById('dialog-text').textContent")
        assert "No further consumer switches" in dialog
        assert (await stage.board.line(GROUP)).policy == "allow"
        await page.run("document.getElementById('dialog-yes').click()")
        await page.until(
            "document.getElementById('dialog-text').textContent.includes('is on hold')"
        )
        await page.run("document.querySelector('#dialog [value=no]').click()")
        await page.until("document.getElementById('group-facts').textContent.includes('ON HOLD')")
        assert "holds the migration" in (await stage.groups.native("n")).reason
        assert page.problems == []


async def test_the_page_says_whether_a_group_is_ready(tmp_path: Path) -> None:
    """A dialog says so, and changes nothing."""
    async with watched_page(tmp_path) as (_, page):
        await open_group(page)
        ready = HOLD.replace("Hold…", "Readiness…")
        await page.until(f"{ready} !== undefined")
        await page.run(f"{ready}.click()")
        await page.until("document.getElementById('dialog').open")
        dialog = await page.run("document.getElementById('dialog-text').textContent")
        assert "It can convert" in dialog
        assert "1 x unknown, new protocol: unknown" in dialog
        assert await page.run("document.getElementById('dialog-yes').hidden")
        assert await violations(page) == []
        assert page.problems == []


@pytest.mark.parametrize(("policy", "offered"), [("allow", "Hold…"), ("hold", "Allow…")])
async def test_a_forwarded_group_can_be_held(tmp_path: Path, policy: str, offered: str) -> None:
    """A forwarded group cannot be paused, because the cluster assigns its partitions."""
    async with watched_page(tmp_path) as (_, page):
        await page.run(
            "fetch = ((real) => async (path, options) => {"
            " if (!String(path).startsWith('api/group?')) return real(path, options);"
            " const group = await (await real(path, options)).json();"
            f" const told = {{...group, mode: 'forwarded', policy: '{policy}'}};"
            " return new Response(JSON.stringify(told)); })(fetch)"
        )
        await open_group(page)
        await page.until("document.querySelectorAll('#commands button').length === 3")
        buttons = "[...document.querySelectorAll('#commands button')].map((b) => b.textContent)"
        assert await page.run(buttons) == ["Adopt…", offered, "Readiness…"]


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
async def test_the_page_fits_a_phone_and_names_its_controls(tmp_path: Path, is_dark: bool) -> None:
    """The body is never wider than the window, and the themes differ."""
    async with watched_page(tmp_path) as (_, page):
        for width in (360, 1280):
            await page.look(width=width, is_dark=is_dark)
            assert await page.run("document.documentElement.scrollWidth") <= width
        assert await page.roles_without_name() == []
        await open_group(page)
        await page.look(width=360, is_dark=is_dark)
        assert await page.run("document.documentElement.scrollWidth") <= 360
        assert await page.roles_without_name() == []
        background = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        brightness = sum(await page.run(background)) / 3
        assert brightness < 100 if is_dark else brightness > 200


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
async def test_axe_finds_nothing(tmp_path: Path, is_dark: bool) -> None:
    """The test covers the list, a mixed group and the dialog, on a desktop and on a phone."""
    async with watched_page(tmp_path) as (stage, page):
        for width in (1280, 360):
            await page.look(width=width, is_dark=is_dark)
            assert await violations(page) == []
        await open_group(page)
        await stage.groups.native("n", client_id="n-1")
        await page.until("document.querySelectorAll('#members tbody tr').length === 2")
        for width in (1280, 360):
            await page.look(width=width, is_dark=is_dark)
            assert await violations(page) == []
        await page.run(f"{HOLD}.click()")
        await page.until("document.getElementById('dialog').open")
        assert await violations(page) == []
        assert page.problems == []
        await page.run("document.querySelector('#dialog button').textContent = ''")
        assert any(violation.startswith("button-name: ") for violation in await violations(page))


async def test_two_hundred_members_are_followed(tmp_path: Path) -> None:
    """Members are in roll order, on a phone, too. A second in which nothing happens touches no
    element, and a member that goes costs one row."""
    async with watched_page(tmp_path) as (stage, page):
        stage.groups.cluster.partition_counts["foo"] = 400
        for n in range(200):
            await stage.groups.native(f"m{n}", group="large", client_id=f"c-{n:03}")
        await page.run("location.hash = 'group=large'")
        await page.until("document.querySelectorAll('#members tbody tr').length === 200")
        clients = (
            "[...document.querySelectorAll('#members td:first-child a')]"
            ".map((each) => each.textContent)"
        )
        assert await page.run(clients) == [f"c-{n:03}" for n in range(200)]
        await page.look(width=360)
        assert await page.run("document.documentElement.scrollWidth") <= 360
        assert await violations(page) == []
        await page.run(
            "asked = 0, touched = new Set(), fetch = ((real) => (path, options) => {"
            " asked += String(path).startsWith('api/group?');"
            " return real(path, options); })(fetch),"
            " new MutationObserver((some) => some.forEach((each) => touched.add("
            "   each.target.closest ? each.target.closest('tr, li, p, dl, div, span') : 'text')))"
            ".observe(document.getElementById('members'), {subtree: true, childList: true,"
            "  characterData: true}), null"
        )
        await page.until("asked >= 3")
        assert await page.run("touched.size") == 0
        await stage.groups.native("m7", -1, group="large")
        await page.until("document.querySelectorAll('#members tbody tr').length === 199")
        assert page.problems == []


async def test_names_of_clients_are_text(tmp_path: Path) -> None:
    """No markup of theirs becomes a part of the page."""
    async with watched_page(tmp_path) as (stage, page):
        evil = "<img src=x onerror=document.title='taken'>"
        await stage.groups.native("n", group=evil, client_id=evil)
        await page.until("document.querySelectorAll('#groups tbody tr').length === 2")
        assert await page.run("document.querySelectorAll('main img').length") == 0
        assert await page.run("document.title") == "groupferry"
        assert page.problems == []


async def test_five_hundred_groups_are_listed_and_filtered(tmp_path: Path) -> None:
    """One keystroke filters them within a tenth of a second."""
    async with watched_page(tmp_path) as (_, page):
        await page.run(
            "fetch = ((real) => async (path, options) => {"
            " if (!String(path).startsWith('api/groups')) return real(path, options);"
            " const part = await (await real('api/groups', options)).json();"
            " const groups = [...Array(500).keys()].map("
            "   (n) => ({...part.groups[0], group_id: `group-${n}`}));"
            " return new Response(JSON.stringify({...part, groups})); })(fetch)"
        )
        await page.until("document.querySelectorAll('#groups tbody tr').length === 500")
        took_ms = await page.run(
            "(() => { const began = performance.now(), find = document.getElementById('find');"
            " find.value = 'group-49'; find.dispatchEvent(new Event('input'));"
            " return performance.now() - began; })()"
        )
        shown = await page.run("document.querySelectorAll('#groups tbody tr').length")
        assert shown == len({49, *range(490, 500)})
        assert took_ms < 1_000  # a tenth on an idle machine


async def test_a_browser_starts_whatever_files_are_open(tmp_path: Path) -> None:
    """Its pipe may get any descriptors, and replaces none."""
    with ExitStack() as files:
        while (file := os.open(os.devnull, os.O_RDONLY)) < 100:
            files.callback(os.close, file)
        os.close(file)
        async with browser_page(tmp_path) as page:
            assert await page.run("1 + 1") == 2


async def test_no_process_of_a_browser_outlives_its_page(tmp_path: Path) -> None:
    """This covers the browser and the processes that it starts."""
    async with browser_page(tmp_path) as page:
        assert len(running(page.pid)) > 1
    await until(lambda: not running(page.pid))


def running(session: int) -> list[str]:
    """The processes of a session, without those that have ended and are not yet reaped."""
    gateways = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, _, of_session = file.read_text().rpartition(") ")[2].split()[:4]
            if of_session == f"{session}" and state != "Z":
                gateways.append(file.parent.name)
    return gateways
