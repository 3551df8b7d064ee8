"""axe-core in a page: what keeps people who see, hear or move differently from using it."""

import shutil
from functools import partial
from pathlib import Path

from tests.gateway.admin.browser import Page
from tests.support.client_programs import NPM_INSTALL
from tests.support.installs import install_once, run
from tests.support.requirements import missing

PACKAGE = "axe-core@4.10.3"
_RUN = """axe.run(document, {resultTypes: ['violations']}).then((found) =>
  found.violations.flatMap((each) => each.nodes.map((node) =>
    `${each.id}: ${node.target.join(' ')}: ${node.failureSummary}`)))"""


async def violations(page: Page) -> list[str]:
    """Each rule that the page breaks now, with the element. Skips the test without npm."""
    if await page.run("typeof axe") == "undefined":
        await page.run(_script())
    breaches: list[str] = await page.run(_RUN)
    return breaches


def _script() -> str:
    npm = shutil.which("npm")
    if npm is None:
        missing("axe-core needs npm")
    folder = install_once("axe-core", PACKAGE.encode(), partial(_install, npm))
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


def _install(npm: str, folder: Path) -> None:
    run([npm, *NPM_INSTALL, "--loglevel=error", f"--prefix={folder}", PACKAGE])
