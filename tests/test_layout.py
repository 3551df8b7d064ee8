"""The layout of the repository.

`coordinator/` and `codecs/` are pure: time, randomness, IO and logging stay outside. Imports point
in one direction, and every module of the two has its own test file.
"""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODECS = ROOT / "codecs"
COORDINATOR = ROOT / "coordinator"
GATEWAY = ROOT / "gateway"
HOSTING = GATEWAY / "hosting"
SIMULATION = GATEWAY / "simulation"

IMPURE_MODULES = {
    *("asyncio", "datetime", "logging", "os", "random"),
    *("socket", "structlog", "time", "trio"),
}
IMPURE_CALLS = {"now", "uuid4"}
OF_THE_CODECS_FOR_THE_COORDINATOR = {
    "kafka_codecs.WireError",
    "kafka_codecs.consumer_protocol",
    "kafka_codecs.error_codes",
}
WITHOUT_A_TEST_OF_THEIR_OWN = {
    "data_path/errors.py": "test_connection.py raises each of them",
    "data_path/group_apis.py": "a protocol, and the answers of a data path without hosted groups",
    "pipeline": "tables and report are tested together, from events to numbers",
}
"""Modules and folders of the gateway with logic but no test file of their own, and the tests that
cover them."""
BENEATH_HOSTING = ("gateway.hosting", "gateway.events", "gateway.moves")
"""What the hosting machine imports of the gateway: itself, the types of events, and legal moves."""
BENEATH = {
    "interface": (),
    "copy_on_write": (),
    "group": ("interface", "copy_on_write"),
    "assignors": ("interface", "group"),
    "classic": ("interface", "group"),
    "consumer": ("interface", "group", "assignors"),
    "conversion": ("interface", "group", "classic", "consumer"),
    "native": ("interface", "group", "consumer", "conversion"),
    "mixed": ("interface", "group", "classic", "consumer", "conversion"),
    "handlers": ("interface", "group", "classic", "consumer", "conversion", "native", "mixed"),
    "engine": ("interface", "group", "classic", "consumer", "conversion", "native", "handlers"),
}
"""The packages of the coordinator and its front door, lowest first, and what each imports."""
# Split into name and ending, because this file is searched as well.
PACKAGE_HOSTS = [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("maven", "org")]
PACKAGE_HOSTS += [("npmjs", "com"), ("maven.apache", "org")]
PACKAGE_HOST = re.compile("|".join(re.escape(".".join(parts)) for parts in PACKAGE_HOSTS))


def imports(tree: ast.Module) -> Iterator[str]:
    """The dotted names of all imports in the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(tree: ast.Module) -> Iterator[str]:
    """The last names of all called functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute):
                yield node.func.attr


def impurities(source: str, *, allowed: frozenset[str] = frozenset()) -> list[str]:
    """The impure modules and functions that a module uses."""
    tree = ast.parse(source)
    imported = {name.partition(".")[0] for name in imports(tree)}
    return sorted(imported & IMPURE_MODULES - allowed) + sorted(set(calls(tree)) & IMPURE_CALLS)


def is_under(name: str, package: str) -> bool:
    """Whether a dotted name is a package or something in it."""
    return f"{name}.".startswith(f"{package}.")


def wrong_directions(source: str, package: str) -> list[str]:
    """The forbidden imports of a module of `package`."""
    wrong = []
    for name in imports(ast.parse(source)):
        if package == "kafka_codecs":
            allowed = not is_under(name, "coordinator") and not is_under(name, "gateway")
        elif package == "coordinator":
            allowed = not is_under(name, "gateway") and (
                not is_under(name, "kafka_codecs")
                or any(is_under(name, each) for each in OF_THE_CODECS_FOR_THE_COORDINATOR)
            )
        else:
            allowed = True
        if not allowed or is_under(name, "tests"):
            wrong.append(name)
    return wrong


def packages_imported(source: str) -> set[str]:
    """The packages of the coordinator that a module imports; its front door counts as one."""
    names = [name.split(".") for name in imports(ast.parse(source))]
    return {parts[1] for parts in names if parts[0] == "coordinator" and len(parts) > 1}


def name_of_module(path: Path) -> str:
    """The dotted name of a module or package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(package: str) -> list[Path]:
    """The modules of a package of the coordinator, or the module of its front door."""
    folder = COORDINATOR / package
    return modules(folder) if folder.is_dir() else [folder.with_suffix(".py")]


def modules(folder: Path) -> list[Path]:
    """Every module in a folder."""
    return sorted(folder.rglob("*.py"))


def has_logic(source: str) -> bool:
    """Whether a module has code in functions, and not only declarations and protocols."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, *rest = node.body
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            if rest or not is_text:
                return True
    return False


def has_twin(module: Path) -> bool:
    """Whether a module of the gateway has a test file, perhaps one with a real Kafka."""
    twin = ROOT / "tests" / "gateway" / module.relative_to(GATEWAY)
    stem = f"test_{module.stem}"
    return any(twin.with_stem(each).exists() for each in (stem, f"{stem}_with_kafka"))


def is_exempt(module: Path) -> bool:
    """Whether other tests cover a module of the gateway."""
    name = module.relative_to(GATEWAY)
    return any(f"{each}" in WITHOUT_A_TEST_OF_THEIR_OWN for each in (name, *name.parents))


def name_of(value: object) -> str:
    """The name of a test parameter."""
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


@pytest.mark.parametrize(
    "module",
    [*modules(CODECS), *modules(COORDINATOR), *modules(HOSTING), *modules(SIMULATION)],
    ids=name_of,
)
def test_codecs_coordinator_hosting_and_simulation_are_pure(module: Path) -> None:
    """They use no IO, clock, randomness or logging. The simulation may use randomness from a
    seed."""
    dice = frozenset({"random"}) if SIMULATION in module.parents else frozenset[str]()
    assert impurities(module.read_text(), allowed=dice) == []


@pytest.mark.parametrize(
    ("module", "package"),
    [
        *((module, "kafka_codecs") for module in modules(CODECS)),
        *((module, "coordinator") for module in modules(COORDINATOR)),
        *((module, "gateway") for module in modules(GATEWAY)),
    ],
    ids=name_of,
)
def test_imports_point_in_one_direction(module: Path, package: str) -> None:
    """gateway -> coordinator -> the embedded protocol of kafka_codecs."""
    assert wrong_directions(module.read_text(), package) == []


@pytest.mark.parametrize("module", modules(HOSTING), ids=name_of)
def test_the_hosting_machine_knows_nothing_of_its_drivers(module: Path) -> None:
    """So that tests and the simulator can play what ships."""
    of_gateway = {
        each for each in imports(ast.parse(module.read_text())) if is_under(each, "gateway")
    }
    assert {
        each for each in of_gateway if not any(is_under(each, may) for may in BENEATH_HOSTING)
    } == set()


@pytest.mark.parametrize("package", BENEATH)
def test_the_packages_of_the_engine_import_only_lower_ones(package: str) -> None:
    """No import leads back up, and the table permits none that is not needed."""
    above = list(BENEATH)[list(BENEATH).index(package) :]
    assert not set(above) & set(BENEATH[package])
    found = {
        other
        for module in modules_of(package)
        for other in packages_imported(module.read_text())
        if other != package
    }
    assert found == set(BENEATH[package])


def test_every_module_of_the_coordinator_lies_in_a_package() -> None:
    """Except its front door."""
    folders = {path.parent.name for path in COORDINATOR.glob("*/__init__.py")}
    loose = {path.stem for path in COORDINATOR.glob("*.py")}
    assert loose == {"__init__", "engine"}
    assert folders | {"engine"} == set(BENEATH)
    assert not packages_imported((COORDINATOR / "__init__.py").read_text())


def test_the_modules_of_a_package_import_each_other_without_cycles() -> None:
    """The sorter raises CycleError otherwise. The packages themselves have none either."""
    named = {name_of_module(path): path for path in modules(COORDINATOR)}
    order = TopologicalSorter(
        {
            module: {
                part
                for name in imports(ast.parse(path.read_text()))
                for part in (name, name.rpartition(".")[0])
                if part in named
            }
            - {module}
            for module, path in named.items()
        }
    )
    assert "coordinator.engine" in set(order.static_order())


def test_the_packages_of_the_gateway_import_each_other_without_cycles() -> None:
    """The sorter raises CycleError otherwise. The modules beside them connect them."""
    packages = {path.parent.name: path.parent for path in GATEWAY.glob("*/__init__.py")}
    order = TopologicalSorter(
        {
            name: {
                part
                for module in modules(folder)
                for each in imports(ast.parse(module.read_text()))
                if is_under(each, "gateway")
                for part in each.split(".")[1:2]
                if part in packages
            }
            - {name}
            for name, folder in packages.items()
        }
    )
    assert "data_path" in set(order.static_order())


def test_the_architecture_lists_the_packages_of_the_engine_from_the_lowest_on() -> None:
    """A reader of the page sees the order that this test file checks."""
    page = (GATEWAY / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\| `coordinator/(\w+)(?:/|\.py)` \|", page, re.MULTILINE)
    assert listed == list(BENEATH)


@pytest.mark.parametrize(
    ("module", "test"),
    [
        (
            module,
            ROOT / "tests" / tests / module.relative_to(package).with_stem(f"test_{module.stem}"),
        )
        for package, tests in ((CODECS / "kafka_codecs", "codecs"), (COORDINATOR, "coordinator"))
        for module in modules(package)
        if module.stem != "__init__"
    ],
    ids=name_of,
)
def test_every_module_has_its_test_file(module: Path, test: Path) -> None:
    """Tests mirror the code, so that each is easy to find."""
    assert test.exists(), f"{name_of(module)} has no {name_of(test)}"


@pytest.mark.parametrize("module", modules(GATEWAY), ids=name_of)
def test_every_module_of_the_gateway_with_logic_has_its_test_file(module: Path) -> None:
    """Exceptions name the tests that cover them."""
    if has_logic(module.read_text()) and not is_exempt(module):
        assert has_twin(module), f"{name_of(module)} has no test file of its name"


@pytest.mark.parametrize("name", WITHOUT_A_TEST_OF_THEIR_OWN)
def test_no_exemption_outlives_its_reason(name: str) -> None:
    """A module that is gone or has its test file needs no exemption."""
    path = GATEWAY / name
    assert any(
        has_logic(module.read_text()) and not has_twin(module)
        for module in (modules(path) if path.is_dir() else [path])
    )


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("LIMIT = 5", False),
        ("class Ask(Protocol):\n    def ask(self) -> int:\n        'What.'", False),
        ("class Ask(Protocol):\n    def ask(self) -> int: ...", False),
        ("class Limits:\n    count: int = 3", False),
        ("def double(n):\n    return 2 * n", True),
        ("class Twice:\n    async def of(self, n):\n        'What.'\n        return 2 * n", True),
    ],
)
def test_planted_logic_is_found(planted: str, *, found: bool) -> None:
    """A module with only declarations needs no test."""
    assert has_logic(planted) is found


def test_the_folder_of_the_codecs_is_not_a_package() -> None:
    """The standard library owns the name `codecs`."""
    assert not (CODECS / "__init__.py").exists()


def test_no_file_names_a_package_host() -> None:
    """The machine decides where packages come from, not the project."""
    folders = [CODECS, COORDINATOR, GATEWAY, ROOT / "tests", ROOT / ".ci"]
    inside = [path for folder in folders for path in folder.rglob("*")]
    files = [path for path in [*ROOT.iterdir(), *inside] if path.is_file()]
    texts = [path for path in files if "__pycache__" not in path.parts]
    assert len(texts) > 50
    naming = [
        name_of(path) for path in texts if PACKAGE_HOST.search(path.read_text(errors="ignore"))
    ]
    assert naming == []


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("import time", ["time"]),
        ("def f():\n    from os.path import join", ["os"]),
        ("import trio.testing as quiet", ["trio"]),
        ("import uuid\nx = uuid.uuid4()", ["uuid4"]),
        ("from uuid import uuid4\nx = uuid4()", ["uuid4"]),
        ("import datetime\nx = datetime.datetime.now()", ["datetime", "now"]),
        ("import random", ["random"]),
        ("from uuid import UUID\nx = timer.now_ms", []),
    ],
)
def test_a_planted_impurity_is_found(planted: str, found: list[str]) -> None:
    """The check can fail."""
    assert impurities(planted) == found
    assert "random" not in impurities(planted, allowed=frozenset({"random"}))


@pytest.mark.parametrize(
    ("package", "planted", "wrong"),
    [
        ("kafka_codecs", "import coordinator.engine", ["coordinator.engine"]),
        ("kafka_codecs", "from gateway import cli", ["gateway.cli"]),
        ("kafka_codecs", "from kafka_codecs.errors import WireError", []),
        ("coordinator", "from gateway.cli import main", ["gateway.cli.main"]),
        ("coordinator", "from kafka_codecs import decode", ["kafka_codecs.decode"]),
        ("coordinator", "from kafka_codecs import heartbeat", ["kafka_codecs.heartbeat"]),
        ("coordinator", "import kafka_codecs", ["kafka_codecs"]),
        ("coordinator", "from kafka_codecs import WireError, consumer_protocol", []),
        ("coordinator", "from kafka_codecs.consumer_protocol import Assignment", []),
        ("gateway", "import coordinator.engine, kafka_codecs", []),
        ("gateway", "from tests.support import codecs", ["tests.support.codecs"]),
    ],
)
def test_a_planted_import_is_found(package: str, planted: str, wrong: list[str]) -> None:
    """Each forbidden direction is found."""
    assert wrong_directions(planted, package) == wrong


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("from coordinator.handlers.offsets import commit", {"handlers"}),
        ("from coordinator.handlers import offsets", {"handlers"}),
        ("from coordinator import handlers", {"handlers"}),
        ("def f():\n    import coordinator.engine as e", {"engine"}),
        ("from kafka_codecs import WireError\nimport heapq", set[str]()),
    ],
)
def test_a_planted_import_of_a_package_is_found(planted: str, found: set[str]) -> None:
    """However it is written."""
    assert packages_imported(planted) == found


def test_a_planted_host_is_found() -> None:
    """The pattern matches each host."""
    for parts in PACKAGE_HOSTS:
        assert PACKAGE_HOST.search(f"--index-url https://{'.'.join(parts)}/simple")
    assert not PACKAGE_HOST.search("pip install -c constraints.txt .")
