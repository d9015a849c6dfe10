"""The rules of the house that a machine can check: floors, file length, light imports, nothing of one machine."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("model", "lab", "apps", "studies")
NOT_OURS = {".venv", ".git", "build", "dist", "node_modules", "__pycache__"}

# From the ground up. An import points to a lower floor or stays in its own unit.
FLOORS: list[set[str]] = [
    {"model"},
    {"lab.tokenizers"},
    {"lab.runs", "lab.corpora"},
    {"lab.models"},
    {"lab.analysis"},
    {"lab.plots", "lab.training"},
    {"lab.studies"},
    {"lab.bench"},
    {"lab.commands"},
    {"lab.cli"},
    {"lab.entry"},
    {"apps", "studies"},
]
UNITS = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}

# Importing these must not load torch: lists, forms and --help wait for nothing.
TORCH_FREE = (
    "model",
    "model.config",
    "model.accounting",
    "lab",
    "lab.runs",
    "lab.tokenizers",
    "lab.corpora",
    "lab.training",
    "lab.training.config",
    "lab.training.recipe",
    "lab.cli",
    "lab.commands.train",
    "lab.commands.runs",
    "lab.commands.sample",
    "lab.commands.inspect",
    "lab.commands.explore",
    "lab.commands.heads",
    "lab.commands.patch",
    "lab.commands.probe",
    "lab.commands.dynamics",
    "lab.commands.bench",
    "lab.bench.training",
    "lab.commands.study",
    "lab.commands.worker",
    "lab.studies",
)


def sources(*folders: str) -> list[Path]:
    """Every Python file of ours below these folders."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if not NOT_OURS & set(path.relative_to(ROOT).parts))


def module_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit_of(module: str) -> str | None:
    """The named part of the house that a module belongs to; None for ``lab`` itself, which only points."""
    parts = module.split(".")
    return next((name for n in (2, 1) if (name := ".".join(parts[:n])) in UNITS), None)


@dataclass(frozen=True)
class Import:
    module: str
    target: str
    line: int
    at_import: bool
    """Whether it runs when the module is imported (not in a function, not for a type checker alone)."""


def imports_of(path: Path) -> Iterator[Import]:
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    yield from _walk(ast.parse(path.read_text(encoding="utf-8")), module, package, True)


def _walk(node: ast.AST, module: str, package: str, at_import: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        now = at_import and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for statement in child.body:
                yield from _walk(ast.Module([statement], []), module, package, False)
            for statement in child.orelse:
                yield from _walk(ast.Module([statement], []), module, package, now)
        elif isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(module, alias.name, child.lineno, now)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                above = package.split(".")[: len(package.split(".")) - child.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            for alias in child.names:
                yield Import(module, f"{base}.{alias.name}", child.lineno, now)
        else:
            yield from _walk(child, module, package, now)


def ours() -> list[Import]:
    found = [imported for path in sources(*PACKAGES) for imported in imports_of(path)]
    return [imported for imported in found if imported.target.split(".")[0] in PACKAGES]


def test_the_test_sees_the_house() -> None:
    # If a folder moved, every rule below would hold for an empty list.
    modules = {module_of(path) for path in sources(*PACKAGES)}
    assert {"model.gpt", "lab.cli", "lab.training", "lab.analysis", "apps.explorer"} <= modules
    assert len(ours()) > 100


def test_an_import_of_every_kind_is_found(tmp_path: Path) -> None:
    text = "import a.b\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import c\n"
    text += "def f():\n    from .d import e\n"
    tree = ast.parse(text)
    found = {(i.target, i.at_import) for i in _walk(tree, "lab.x.y", "lab.x", True)}
    assert found == {
        ("a.b", True),
        ("typing.TYPE_CHECKING", True),
        ("c", False),
        ("lab.x.d.e", False),
    }


def test_imports_only_point_down() -> None:
    wrong = []
    for imported in ours():
        here, there = unit_of(imported.module), unit_of(imported.target)
        if here is None:
            continue  # lab/__init__.py, which names everything and imports it when asked
        if here != there and (there is None or UNITS[there] >= UNITS[here]):
            wrong.append(f"{imported.module}:{imported.line} imports {imported.target}")
    assert not wrong, "these point up or sideways:\n" + "\n".join(wrong)


def test_every_part_of_the_lab_has_a_floor() -> None:
    homeless = {module_of(path) for path in sources(*PACKAGES) if unit_of(module_of(path)) is None}
    assert homeless <= {"lab"}, f"give these a floor in FLOORS: {sorted(homeless - {'lab'})}"


def test_no_circle_of_imports() -> None:
    modules = {module_of(path) for path in sources(*PACKAGES)}
    edges: dict[str, set[str]] = {module: set() for module in modules}
    for imported in ours():
        if imported.at_import:
            target = imported.target if imported.target in modules else imported.target.rpartition(".")[0]
            if target in modules and target != imported.module:
                edges[imported.module].add(target)
    circle = find_circle(edges)
    assert circle is None, " -> ".join(circle or [])


def find_circle(edges: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        for target in sorted(edges.get(node, ())):
            if found := visit(target, [*path, node]):
                return found
        done.add(node)
        return None

    return next((found for node in sorted(edges) if (found := visit(node, []))), None)


def test_a_circle_would_be_found() -> None:
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert find_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


@pytest.mark.parametrize(
    ("folder", "foreign"),
    [
        ("lab/plots", {"torch", "transformer_lens", "model"}),  # plots never compute
        ("lab/training", {"plotly", "streamlit", "lab.plots"}),  # training never plots
        ("lab/analysis", {"plotly", "streamlit", "lab.training", "lab.plots"}),  # analysis never trains
        ("apps", {"torch", "transformer_lens"}),  # views hold no tensor code
        ("lab/corpora", {"torch"}),
    ],
)
def test_each_part_keeps_to_its_trade(folder: str, foreign: set[str]) -> None:
    single = ROOT / f"{folder}.py"
    paths = sources(folder) or ([single] if single.is_file() else [])
    assert paths, f"no such part: {folder}"
    wrong = [
        f"{i.module}:{i.line} imports {i.target}"
        for path in paths
        for i in imports_of(path)
        if any(i.target == name or i.target.startswith(name + ".") for name in foreign)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("folders", "most"), [(PACKAGES, 400), (("tests",), 600)], ids=["sources", "tests"])
def test_files_stay_readable_in_one_sitting(folders: tuple[str, ...], most: int) -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources(*folders)}
    long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > most}
    assert not long, f"over {most} lines, find the second idea and give it a file: {long}"


# Written so that this file does not hold the words it looks for.
ONE_MACHINE = {
    "a registry's address": r"py[p]i\.org|pythonho[s]ted|npm[j]s\.(org|com)|deb\.deb[i]an\.org|regi[s]try\.",
    "a path of one machine": r"/wo[r]k/|/ro[o]t/|/ho[m]e/\w|/Us[e]rs/\w|/t[m]p/\w|[A-Z]:\\\\Us[e]rs",
}
TEXT = {".py", ".md", ".toml", ".txt", ".json", ".css", ".js", ".html", ".yml", ".yaml", ".cfg", ""}


def text_files() -> Iterator[Path]:
    for folder, inside, files in os.walk(ROOT):
        inside[:] = [n for n in inside if n not in NOT_OURS and not n.endswith(("_cache", ".egg-info"))]
        inside[:] = [n for n in inside if n != ".hypothesis" and Path(folder, n) != ROOT / "runs"]
        text = [name for name in files if Path(name).suffix in TEXT and name != ".git"]  # .git: a file in a worktree
        yield from (Path(folder, name) for name in text)


@pytest.mark.parametrize("what", ONE_MACHINE)
def test_the_tree_names_no_single_machine(what: str) -> None:
    pattern = re.compile(ONE_MACHINE[what])
    found = []
    for path in text_files():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if hit := pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {hit[0]}")
    assert not found, f"{what}:\n" + "\n".join(found)


def test_constraints_are_exact_versions_by_name() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    odd = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)]
    assert not odd, odd
    assert "torch==2.13.0" in lines
    assert len(lines) > 80


def test_light_modules_leave_torch_alone() -> None:
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    heavy = {'torch', 'transformer_lens', 'transformers', 'streamlit'} & set(sys.modules)\n"
        "    if heavy: sys.exit(f'{name} loads {sorted(heavy)}')\n"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code, *TORCH_FREE], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert asked.returncode == 0, asked.stderr


def test_importing_has_no_side_effect_on_the_folder(tmp_path: Path) -> None:
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code, *TORCH_FREE], cwd=tmp_path, env=environment, check=True, timeout=120)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["--help"], ["--version"]], ids=" ".join)
def test_help_answers_within_a_second(words: list[str]) -> None:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        answer = residlab(*words)
        best = min(best, time.perf_counter() - start)
        assert "residlab" in answer
    assert best < 1.0, f"residlab {' '.join(words)} took {best:.2f} s"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_in_a_second_of_work(command: str) -> None:
    before = os.times()
    answer = residlab(command, "--help")
    after = os.times()
    # The processor's time, not the clock's: other tests may share the machine, and these read dozens of fields.
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert f"usage: residlab {command}" in answer
    assert spent < 1.0, f"residlab {command} --help took {spent:.2f} s of processor time"


def residlab(*words: str) -> str:
    command = [sys.executable, "-m", "lab.cli", *words]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert asked.returncode == 0, asked.stderr
    return asked.stdout
