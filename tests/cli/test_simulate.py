from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from easeml_core.cli.main import app
from easeml_core.ledger import models
from easeml_core.replay.protocol import synthetic
from easeml_core.replay.recorded import tables_of


@pytest.fixture
def csv(tmp_path):
    table = synthetic(0.5, 1.0, tasks=8, models=5, seed=1)
    path = tmp_path / "results.csv"
    lines = ["task,model,accuracy,cost_seconds"]
    for i, task in enumerate(table.tasks):
        for j, model in enumerate(table.models):
            if (i, j) != (2, 3):  # a cell that nobody knows
                cost = "" if i == 1 else f"{table.cost[i, j]:.4f}"
                lines.append(f"{task},{model},{table.quality[i, j]:.4f},{cost}")
    path.write_text("\n".join(lines))
    return path


def _record(session):
    """Two tasks of one template, one of another; one trial failed."""
    results = {
        ("a", "vector"): {"KNN": [(0.8, 3.0)], "SVM": [(None, 9.0)]},
        ("b", "vector"): {"KNN": [(0.6, 2.0)], "SVM": [(0.7, 4.0)]},
        ("c", "image"): {"CNN": [(0.9, 5.0)]},
    }
    session.add(models.Tenant(id="lab"))
    session.flush()
    ended = 0
    for (name, template), candidates in results.items():
        task = models.Task(tenant_id="lab", name=name, state="open", template=template)
        session.add(task)
        session.flush()
        version = models.DataVersion(task_id=task.id, digest=f"{name}" * 64, n_train=9, n_val=9, facts={})
        session.add(version)
        session.flush()
        for candidate, trials in candidates.items():
            row = models.Candidate(task_id=task.id, name=candidate)
            session.add(row)
            session.flush()
            for quality, cost in trials:
                ended += 1
                session.add(
                    models.Trial(
                        task_id=task.id,
                        candidate_id=row.id,
                        data_version_id=version.id,
                        state="failed" if quality is None else "succeeded",
                        attempt=1,
                        predicted_seconds=1.0,
                        reserved_seconds=1.0,
                        cost_seconds=cost,
                        quality=quality,
                        score=quality,
                        ended_order=ended,
                        ended_at=datetime.now(UTC),
                    )
                )
                session.flush()


def run(*arguments):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def test_json_has_every_policy_and_the_clairvoyant(csv):
    done = run(csv, "--policy", "default", "--policy", "hybrid", "--devices", "2", "--repeats", "2", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found) == {"default", "hybrid", "clairvoyant"}
    for figures in found.values():
        assert 0 < figures["area"] <= figures["area_worst"] < 1
        assert set(figures["cost_to"]) == {"0.05", "0.02", "0.01", "0.005"}
    assert found["clairvoyant"]["area"] == min(figures["area"] for figures in found.values())


def test_people_get_a_table_and_a_plot(csv, tmp_path):
    done = run(csv, "--policy", "round_robin", "--repeats", "1", "--plot", tmp_path / "curves.svg")
    assert done.exit_code == 0, done.output
    assert "round_robin" in done.stdout
    assert "÷ limit" in done.stdout
    assert (tmp_path / "curves.svg").read_text().startswith("<?xml")
    assert run(csv, "--repeats", "1", "--plot", tmp_path / "new" / "curves.png").exit_code == 0
    with Image.open(tmp_path / "new" / "curves.png") as picture:
        colours = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)
    assert (colours == [0, 114, 178]).all(axis=1).any()  # that of the first curve


@pytest.mark.parametrize("table", ["results", "own"])
def test_what_policies_start_from_can_be_chosen(csv, table):
    """Every kernel, and the service's own belief, of candidates that its catalogue knows or not."""
    path = csv if table == "results" else OWN
    found = [
        json.loads(run(path, "--policy", "hybrid", "--repeats", "2", "--prior", prior, "--json").stdout)[
            "hybrid"
        ]
        for prior in ("rbf", "linear", "matern", "service")
    ]
    assert all(0 < figures["area"] < 1 for figures in found)
    if table == "own":  # of few past tasks no kernel is made, and here the catalogue knows something
        assert found[0] == found[1] == found[2] != found[3]
        # Not as with a kernel of one past task, which was sure of everything.
        assert found[0]["calibration"]["within"]["90"] > 0.6


def test_costs_in_units_of_their_own_can_be_made_relative(csv, tmp_path):
    """The same table with the costs of one task in milliseconds."""
    lines = csv.read_text().splitlines()
    task = lines[1].split(",")[0]
    other = tmp_path / "other.csv"
    for number, line in enumerate(lines):
        if line.startswith(f"{task},"):
            start, cost = line.rsplit(",", 1)
            lines[number] = f"{start},{float(cost) * 1024}"
    other.write_text("\n".join(lines))
    options = ("--policy", "hybrid", "--repeats", "3", "--json")
    assert run(csv, *options).stdout != run(other, *options).stdout
    first, again = (json.loads(run(path, *options, "--relative-costs").stdout) for path in (csv, other))
    assert first["hybrid"]["area"] == pytest.approx(again["hybrid"]["area"])


def test_is_the_same_again(csv):
    first, again = (run(csv, "--policy", "random", "--repeats", "2", "--json").stdout for _ in range(2))
    assert first == again


def test_an_unknown_policy_says_which_there_are(csv):
    done = run(csv, "--policy", "best")
    assert done.exit_code == 4
    assert "easeml" in done.output


OWN = Path(__file__).parents[2] / "benchmarks" / "tables" / "own.csv"
HEADER = "task,model,accuracy,cost_seconds\n"
WRONG = {
    "other columns": ("a,b\n1,2\n", ["columns must be"]),
    "one column more": ("task,model,accuracy,cost_seconds,seed\nt,m,0.5,1,3\n", ["columns must be"]),
    "every kind of cell": (
        HEADER + "t,m,good,1\nt,n,1.5,1\nu,m,nan,1\nu,n,0.5,-1\nu,n,0.6,1\nt,o,0.5,inf\n,o,0.5,1\nt,p,1\n",
        ["'good'", "'1.5'", "'nan'", "'-1'", "twice, first on line 5", "'inf'", "is empty", "has 3 fields"],
    ),
    "one task and one model": (HEADER + "t,m,0.5,1\n", ["has 1 task", "has 1 model"]),
    "one model": (HEADER + "t,m,0.5,1\nu,m,0.5,1\n", ["has 1 model"]),
    "no accuracy at all": (HEADER + "t,m,,1\nu,m,,1\n", ["no cell with an accuracy"]),
    "percent": (
        HEADER + "t,m,93.1,1\nt,n,88,1\nu,m,75,1\nu,n,abc,1\n",
        ["'93.1', and 2 more above 1", "'abc'"],
    ),
    "nothing": ("", ["an empty file"]),
}


@pytest.mark.parametrize(("text", "messages"), WRONG.values(), ids=WRONG)
def test_a_bad_table_is_refused_with_all_its_problems(tmp_path, text, messages):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    done = run(path, "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["problems"]
    assert len(found) == len(messages)
    for message in messages:
        assert any(message in problem["message"] for problem in found)
    people = run(path)
    assert people.exit_code == 1
    assert all(message in people.stderr for message in messages)


@pytest.mark.parametrize(
    "arguments", [["--devices", "0"], ["--repeats", "0"], ["--plot", "x.txt"], ["--template", "x"]]
)
def test_a_wrong_call_is_refused_before_anything_is_replayed(csv, arguments):
    assert run(csv, *arguments).exit_code == 2


def test_what_is_no_file_is_a_wrong_call(tmp_path):
    for path in (tmp_path, tmp_path / "nothing.csv"):
        done = run(path, "--json")
        assert done.exit_code == 2
        assert str(path) in json.loads(done.stdout)["error"]


def test_who_predicts_nothing_is_not_judged(csv):
    done = run(csv, "--policy", "clairvoyant", "--repeats", "1")
    assert done.exit_code == 0
    assert "Share of qualities" not in done.stdout


def test_the_services_own_results_can_be_replayed(service, monkeypatch):
    monkeypatch.setenv("EASEML_HOME", str(service.settings.home))
    monkeypatch.setenv("EASEML_DATABASE_URL", service.settings.resolved_database_url())
    assert run("--json").exit_code == 4
    with service.ledger.transaction() as session:
        _record(session)
        table = tables_of(session)["vector"]
    done = run("--repeats", "1", "--json")
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)) == {"default", "hybrid", "clairvoyant"}
    assert "2 tasks of vector" in done.stderr
    assert "there are vector" in run("--template", "image").stderr
    assert table.models == ("KNN", "SVM")
    assert len(table.tasks) == 2
    np.testing.assert_allclose(table.quality, [[0.8, np.nan], [0.6, 0.7]])
    np.testing.assert_allclose(table.cost[1], [2.0, 4.0])
