"""The layout of the repository.

`coordinator/` and `codecs/` are pure: time, randomness, IO and logging stay outside. Imports point
in one direction, and every module of the two has its own test file.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TypeVar

import pytest

Found = TypeVar("Found")

ROOT = Path(__file__).parent.parent
CODECS = ROOT / "codecs"
COORDINATOR = ROOT / "coordinator"
GATEWAY = ROOT / "gateway"
HOSTING = GATEWAY / "hosting"
FOLD = GATEWAY / "pipeline" / "fold"
SIMULATION = ROOT / "tests" / "simulation"

AROUND_THE_SIMULATION = {
    "__main__",
    "broker_side",
    "broker_trial",
    "conftest",
    "fresh_seeds",
    "reporting",
    "sweep",
    "trial_stage",
}
"""Modules that play many runs, and show what came of them."""

IMPURE_MODULES = {
    *("asyncio", "datetime", "logging", "os", "random"),
    *("socket", "structlog", "time", "trio"),
    *("pyarrow", "pyspark"),
}
IMPURE_CALLS = {"now", "uuid4"}
OF_THE_CODECS_FOR_THE_COORDINATOR = {
    "kafka_codecs.WireError",
    "kafka_codecs.consumer_protocol",
    "kafka_codecs.error_codes",
}
WITHOUT_A_TEST_OF_THEIR_OWN = {
    "check/finding.py": "a value that every test of a trial reads",
    "check/permissions.py": "test_cluster_check.py, at a broker with ACLs",
    "data_path/errors.py": "test_connection.py raises each of them",
    "data_path/group_apis.py": "a protocol, and the answers of a data path without hosted groups",
    "fleet/process.py": "a value that every test of several processes uses",
    "open_log.py": "test_serve.py and test_fleet.py start on each kind of log",
    "pipeline": "tables and report are tested together, from events to numbers",
}
"""Modules and folders of the gateway with logic but no test file of their own, and the tests that
cover them."""
BENEATH_HOSTING = ("gateway.hosting", "gateway.events", "gateway.moves", "gateway.quotas")
"""What the hosting machine imports of the gateway: itself, the types of events, legal moves, and
whose share a call counts towards."""
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


@cache
def parse(module: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(module.read_text())


@cache
def imports_of(module: Path) -> tuple[str, ...]:
    """The dotted names of all imports in a module."""
    return tuple(imports(parse(module)))


def imports(tree: ast.Module) -> Iterator[str]:
    """The dotted names of all imports in a tree."""
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


def impurities(tree: ast.Module, *, allowed: frozenset[str] = frozenset()) -> list[str]:
    """The impure modules and functions that a module uses."""
    imported = {name.partition(".")[0] for name in imports(tree)}
    return sorted(imported & IMPURE_MODULES - allowed) + sorted(set(calls(tree)) & IMPURE_CALLS)


def is_under(name: str, package: str) -> bool:
    """Whether a dotted name is a package or something in it."""
    return f"{name}.".startswith(f"{package}.")


def wrong_directions(names: Iterable[str], package: str) -> list[str]:
    """The forbidden imports among those of a module of `package`."""
    wrong = []
    for name in names:
        if package == "kafka_codecs":
            allowed = not is_under(name, "coordinator") and not is_under(name, "gateway")
        elif package == "coordinator":
            allowed = not is_under(name, "gateway") and (
                not is_under(name, "kafka_codecs")
                or any(is_under(name, package) for package in OF_THE_CODECS_FOR_THE_COORDINATOR)
            )
        else:
            allowed = True
        if not allowed or is_under(name, "tests"):
            wrong.append(name)
    return wrong


def packages_imported(names: Iterable[str]) -> set[str]:
    """The packages of the coordinator among imports; its front door counts as one."""
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "coordinator" and len(part) > 1}


def name_of_module(path: Path) -> str:
    """The dotted name of a module or package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(package: str) -> list[Path]:
    """The modules of a package of the coordinator, or the module of its front door."""
    folder = COORDINATOR / package
    return modules(folder) if folder.is_dir() else [folder.with_suffix(".py")]


def modules(folder: Path) -> list[Path]:
    """Every module in a folder. Of the simulator, those that play a run."""
    files = sorted(folder.rglob("*.py"))
    return [path for path in files if plays(path)] if folder == SIMULATION else files


def plays(module: Path) -> bool:
    """Whether a module of the simulator is part of a run, and no test, command or report."""
    folders = {"planted_bugs", "spark"}
    return (
        not module.stem.startswith("test_")
        and module.stem not in AROUND_THE_SIMULATION
        and not folders & set(module.parts)
    )


def in_modules(folder: Path, check: Callable[[Path], Found]) -> dict[str, Found]:
    """What a check finds in the modules of a folder, by module; without those it accepts."""
    problems = {name_of(module): check(module) for module in modules(folder)}
    return {name: findings for name, findings in problems.items() if findings}


def has_logic(tree: ast.Module) -> bool:
    """Whether a module has code in functions, and not only declarations and protocols."""
    for node in ast.walk(tree):
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
    return any(twin.with_stem(twin_stem).exists() for twin_stem in (stem, f"{stem}_with_kafka"))


def is_exempt(module: Path) -> bool:
    """Whether other tests cover a module of the gateway."""
    name = module.relative_to(GATEWAY)
    return any(f"{path}" in WITHOUT_A_TEST_OF_THEIR_OWN for path in (name, *name.parents))


def name_of(value: object) -> str:
    """The name of a test parameter."""
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        (CODECS, frozenset[str]()),
        (COORDINATOR, frozenset[str]()),
        (HOSTING, frozenset[str]()),
        (FOLD, frozenset[str]()),
        (SIMULATION, frozenset({"random"})),
    ],
    ids=name_of,
)
def test_codecs_coordinator_hosting_fold_and_simulation_are_pure(
    folder: Path, allowed: frozenset[str]
) -> None:
    """The packages use no IO, clock, randomness, logging or Spark. The simulation may use
    randomness from a seed."""
    assert in_modules(folder, lambda module: impurities(parse(module), allowed=allowed)) == {}


@pytest.mark.parametrize(
    ("folder", "package"),
    [(CODECS, "kafka_codecs"), (COORDINATOR, "coordinator"), (GATEWAY, "gateway")],
    ids=name_of,
)
def test_imports_point_in_one_direction(folder: Path, package: str) -> None:
    """gateway -> coordinator -> the embedded protocol of kafka_codecs."""
    assert in_modules(folder, lambda module: wrong_directions(imports_of(module), package)) == {}


def test_the_hosting_machine_knows_nothing_of_its_drivers() -> None:
    """Tests and the simulator can play what ships."""

    def above(module: Path) -> list[str]:
        of_gateway = [imported for imported in imports_of(module) if is_under(imported, "gateway")]
        return [
            imported
            for imported in of_gateway
            if not any(is_under(imported, m) for m in BENEATH_HOSTING)
        ]

    assert in_modules(HOSTING, above) == {}


@pytest.mark.parametrize("package", BENEATH)
def test_the_packages_of_the_engine_import_only_lower_ones(package: str) -> None:
    """No import leads back up, and the table permits none that is not needed."""
    above = list(BENEATH)[list(BENEATH).index(package) :]
    assert not set(above) & set(BENEATH[package])
    packages = {
        other
        for module in modules_of(package)
        for other in packages_imported(imports_of(module))
        if other != package
    }
    assert packages == set(BENEATH[package])


def test_every_module_of_the_coordinator_lies_in_a_package() -> None:
    """Except its front door."""
    folders = {path.parent.name for path in COORDINATOR.glob("*/__init__.py")}
    loose = {path.stem for path in COORDINATOR.glob("*.py")}
    assert loose == {"__init__", "engine"}
    assert folders | {"engine"} == set(BENEATH)
    assert not packages_imported(imports_of(COORDINATOR / "__init__.py"))


def test_the_modules_of_a_package_import_each_other_without_cycles() -> None:
    """The sorter raises CycleError otherwise. The packages themselves have none either."""
    named = {name_of_module(path): path for path in modules(COORDINATOR)}
    order = TopologicalSorter(
        {
            module: {
                part
                for name in imports_of(path)
                for part in (name, name.rpartition(".")[0])
                if part in named
            }
            - {module}
            for module, path in named.items()
        }
    )
    assert "coordinator.engine" in set(order.static_order())


def test_the_packages_of_the_gateway_import_each_other_without_cycles() -> None:
    """The sorter raises CycleError otherwise. The modules next to them connect them."""
    packages = {path.parent.name: path.parent for path in GATEWAY.glob("*/__init__.py")}
    order = TopologicalSorter(
        {
            name: {
                part
                for module in modules(folder)
                for imported in imports_of(module)
                if is_under(imported, "gateway")
                for part in imported.split(".")[1:2]
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
    ("folder", "tests"),
    [(CODECS / "kafka_codecs", "codecs"), (COORDINATOR, "coordinator")],
    ids=name_of,
)
def test_every_module_with_logic_has_its_test_file(folder: Path, tests: str) -> None:
    """Tests mirror the code, so that each is easy to find. Tests of every message cover the modules
    that only declare some."""

    def missing(module: Path) -> str:
        twin = module.relative_to(folder).with_stem(f"test_{module.stem}")
        is_covered = not has_logic(parse(module)) or (ROOT / "tests" / tests / twin).exists()
        return "" if is_covered else f"has no tests/{tests}/{twin}"

    assert in_modules(folder, missing) == {}


def test_every_module_of_the_gateway_with_logic_has_its_test_file() -> None:
    """Exceptions name the tests that cover them."""

    def lacks_a_test(module: Path) -> bool:
        return has_logic(parse(module)) and not is_exempt(module) and not has_twin(module)

    assert in_modules(GATEWAY, lacks_a_test) == {}


@pytest.mark.parametrize("name", WITHOUT_A_TEST_OF_THEIR_OWN)
def test_no_exemption_outlives_its_reason(name: str) -> None:
    """A module that is gone or has its test file needs no exemption."""
    path = GATEWAY / name
    assert any(
        has_logic(parse(module)) and not has_twin(module)
        for module in (modules(path) if path.is_dir() else [path])
    )


@pytest.mark.parametrize(
    ("planted", "is_logic"),
    [
        ("LIMIT = 5", False),
        ("class Ask(Protocol):\n    def ask(self) -> int:\n        'What.'", False),
        ("class Ask(Protocol):\n    def ask(self) -> int: ...", False),
        ("class Limits:\n    count: int = 3", False),
        ("def double(n):\n    return 2 * n", True),
        ("class Twice:\n    async def of(self, n):\n        'What.'\n        return 2 * n", True),
    ],
)
def test_planted_logic_is_found(planted: str, *, is_logic: bool) -> None:
    """A module with only declarations needs no test."""
    assert has_logic(ast.parse(planted)) is is_logic


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
    ("planted", "expected"),
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
def test_a_planted_impurity_is_found(planted: str, expected: list[str]) -> None:
    """The check can fail."""
    tree = ast.parse(planted)
    assert impurities(tree) == expected
    assert "random" not in impurities(tree, allowed=frozenset({"random"}))


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
    assert wrong_directions(imports(ast.parse(planted)), package) == wrong


@pytest.mark.parametrize(
    ("planted", "packages"),
    [
        ("from coordinator.handlers.offsets import commit", {"handlers"}),
        ("from coordinator.handlers import offsets", {"handlers"}),
        ("from coordinator import handlers", {"handlers"}),
        ("def f():\n    import coordinator.engine as e", {"engine"}),
        ("from kafka_codecs import WireError\nimport heapq", set[str]()),
    ],
)
def test_a_planted_import_of_a_package_is_found(planted: str, packages: set[str]) -> None:
    """The import may be written in any form."""
    assert packages_imported(imports(ast.parse(planted))) == packages


def test_a_planted_host_is_found() -> None:
    """The pattern matches each host."""
    for parts in PACKAGE_HOSTS:
        assert PACKAGE_HOST.search(f"--index-url https://{'.'.join(parts)}/simple")
    assert not PACKAGE_HOST.search("pip install -c constraints.txt .")
