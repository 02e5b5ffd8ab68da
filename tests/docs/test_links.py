"""The documentation says what the code does: links, commands, and tables that repeat what code defines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML

from easeml_core import catalog
from easeml_core.cli.main import app
from easeml_core.language import TEMPLATES, parse
from easeml_core.service.status import Status
from easeml_core.settings import Settings
from easeml_core.spec import load_spec
from easeml_core.spec.fields import TaskFile

ROOT = Path(__file__).parents[2]
TENANT, OPERATOR = ROOT / "docs/tenant.md", ROOT / "docs/operator.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = click.Context(typer.main.get_command(app), info_name="easeml")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(page: Path) -> str:
    """The page without fenced blocks and comments, in which nothing is a link or a heading."""
    return re.sub(r"<!--.*?-->", "", _FENCE.sub("", page.read_text()), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.add(plain.replace(" ", "-"))
    return found


def table(page: Path, first_column: str) -> list[list[str]]:
    """The cells below the one table whose first column has this title."""
    (start,) = re.finditer(rf"^\| {re.escape(first_column)} \|.*\n\|[-|]+\|\n", prose(page), re.MULTILINE)
    lines = prose(page)[start.end() :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def coded(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_and_anchor_leads_somewhere(page: Path):
    broken = []
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        where = (page.parent / path).resolve() if path else page
        if not where.exists() or (anchor and anchor not in anchors(where)):
            broken.append(target)
    assert broken == []


def test_the_pages_link_to_each_other():
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in _LINK.findall(prose(page))
        if not re.match(r"[a-z]+:", target)
    }
    assert [name(page) for page in PAGES if page not in linked and page.name != "README.md"] == []


def commands(page: Path) -> Iterator[list[str]]:
    """Words of every `easeml …` on a page: in fenced blocks of shell, and between backticks."""
    text = page.read_text()
    blocks = [body for language, body in _FENCE.findall(text) if language in ("", "sh", "bash", "console")]
    lines = [
        line.removeprefix("$ ")
        for body in blocks
        for line in body.splitlines()
        # With a prompt in the block, all other lines are output.
        if line.startswith("$ ") or not re.search(r"^\$ ", body, re.MULTILINE)
    ]
    for line in [*lines, *coded(_FENCE.sub("", text).replace("\n", " "))]:
        for part in re.split(r"&&|\||;", line):
            words = shlex.split(part, comments=True) if part.count("'") % 2 == 0 else []
            words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
            if words and words[0].rpartition("/")[2] == "easeml" and len(words) > 1:
                yield words[1:]


def refused(words: list[str]) -> str | None:
    """Why the command line would be called wrong, as far as names of commands and options go."""
    root = _COMMAND.command
    assert isinstance(root, click.Group) or hasattr(root, "get_command")
    if words[0] == "…" or (words[0].startswith("-") and words[0] in options(root)):
        return None
    command = root.get_command(_COMMAND, words[0])  # type: ignore[union-attr]
    if command is None:
        return f"no command {words[0]}"
    known = options(command) | {"--help"}
    wrong = [word for word in words[1:] if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known]
    return f"{words[0]} has no {', '.join(wrong)}" if wrong else None


def options(command: Any) -> set[str]:
    return {opt for parameter in command.params for opt in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_exists_with_its_options(page: Path):
    assert [problem for words in commands(page) if (problem := refused(words))] == []


def test_commands_are_found_where_they_stand():
    named = {words[0] for page in PAGES for words in commands(page)}
    every = set(_COMMAND.command.list_commands(_COMMAND))  # type: ignore[attr-defined]
    assert every - named == set(), "commands that no page mentions"
    assert refused(["decisions", "--nothing"]) == "decisions has no --nothing"
    assert refused(["conjure"]) == "no command conjure"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_make_target_exists(page: Path):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(), re.MULTILINE))
    assert named - targets == set()


def test_the_settings_table_is_that_of_the_code():
    def shown(field: str, info: FieldInfo) -> str:
        default = "" if field == "home" else info.get_default(call_default_factory=True)
        default = ",".join(default) if isinstance(default, tuple) else default
        return "empty" if default in ("", None, {}) else f"`{default}`"

    wanted = {f"`{field}`": shown(field, info) for field, info in Settings.model_fields.items()}
    assert {row[0]: row[1] for row in table(OPERATOR, "setting")} == wanted


def leaves(model: type[BaseModel], lead: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for field, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, f"{lead}{field}.")
        else:
            yield f"{lead}{field}", info


def test_the_reference_of_task_yaml_has_exactly_its_fields():
    rows = {coded(row[0])[0]: row[2] for row in table(TENANT, "field") if "." in row[0] or len(row) == 4}
    assert set(rows) == {field for field, _ in leaves(TaskFile)}
    for field, info in leaves(TaskFile):
        if isinstance(info.default, float | int) and not isinstance(info.default, bool):
            assert rows[field] == str(info.default), field


def test_the_table_of_status_has_exactly_its_fields():
    named = [field for row in table(TENANT, "field of `status.json`") for field in coded(row[0])]
    assert sorted(named) == sorted(Status.model_fields)


def test_the_template_table_says_what_can_be_trained_now():
    rows = table(TENANT, "row")
    assert [coded(row[0])[0] for row in rows] == [template.id for template in TEMPLATES]
    for template, row in zip(TEMPLATES, rows, strict=True):
        assert coded(row[1]) == [template.input, template.output]
        models = [model.name for model in catalog.models_for(template.id)]
        assert row[2] == (", ".join(models) or "none yet")


def test_programs_in_the_guide_can_be_read():
    programs = [text for text in coded(prose(TENANT)) if text.startswith("{input: {[")]
    assert len(programs) >= 5
    for program in programs:
        assert str(parse(program)) == program


@pytest.mark.parametrize("page", [ROOT / "README.md", TENANT], ids=name)
def test_every_task_yaml_that_is_shown_is_accepted(page: Path):
    specs = [body for language, body in _FENCE.findall(page.read_text()) if language == "yaml"]
    assert specs
    for spec in specs:
        load_spec(spec)


def test_the_settings_file_that_is_shown_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (shown,) = [body for language, body in _FENCE.findall(OPERATOR.read_text()) if language == "toml"]
    (tmp_path / "easeml.toml").write_text(shown)
    for field in Settings.model_fields:
        monkeypatch.delenv(f"EASEML_{field.upper()}", raising=False)
    assert Settings(home=tmp_path).trial_limit_seconds == 7200


def test_the_compose_services_are_all_described():
    services = YAML(typ="safe").load(ROOT / "docker/compose.yaml")["services"]
    named = {service for row in table(OPERATOR, "service") for service in coded(row[0])}
    assert named == set(services)
