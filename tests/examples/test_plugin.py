"""The example of a plug-in installs without network, adds what it says, and keeps the contracts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# The trials of the contracts: 20 s on a free core, several times that on a busy one.
pytestmark = pytest.mark.timeout(1200)

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"
MATRIX = "{input: {[Tensor[8, 8]], []}, output: {[Tensor[10]], []}}"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed into it, from a copy, for building leaves files behind."""
    root = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, root / "source")
    command = [
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        "lib",
        "./source",
    ]
    subprocess.run([sys.executable, "-m", "pip", *command], cwd=root, check=True)
    return root / "lib"


def run(installed: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT)] if installed is None else [str(installed), str(ROOT)]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def matched(installed: Path | None) -> dict[str, object]:
    script = "from easeml_core.cli.main import app; app()"
    done = run(installed, "-c", script, "match", MATRIX, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_without_it_a_matrix_is_anything(installed: Path) -> None:
    assert matched(None)["template"] == "general-classification"


def test_with_it_there_is_a_row_and_a_candidate(installed: Path) -> None:
    answer = matched(installed)
    assert answer["template"] == "matrix-classification"
    assert answer["bindings"] == {"A": 8, "B": 8, "D": 10}
    assert answer["candidates"] == ["ExtraTrees"]


def test_it_keeps_the_contracts(installed: Path) -> None:
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PLUGIN / "tests"))
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
