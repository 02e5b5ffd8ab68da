"""How long a decision takes from the ledger, in a process that starts afresh, with many open tasks.

    python benchmarks/ledger.py                      # 1,000 open tasks × 100 candidates × 20 trials each
    python benchmarks/ledger.py --tasks 10000 --json

Fills a PostgreSQL of its own, then has one new process decide once (imports excluded) and once more, as the
service does: read the ledger, believe, choose. `resident_mb` is what the process grew by.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.own_ledger import own_ledger

PAST = 100
TEMPLATE = "image-classification"
# Tasks number 1..open are open, those above are past; trial numbers follow from task and candidate.
FILL = """
INSERT INTO tenants (id) SELECT 'tenant-' || n FROM generate_series(0, 39) n;
INSERT INTO tasks (tenant_id, name, state, template, objective)
SELECT 'tenant-' || (n % 40), 'task-' || n, CASE WHEN n <= {tasks} THEN 'open' ELSE 'done' END,
       '{template}', 'accuracy'
FROM generate_series(1, {tasks} + {past}) n;
INSERT INTO data_versions (task_id, digest, n_train, n_val, facts)
SELECT id, md5(id::text), 1000 + id, 200,
       jsonb_build_object('shape', jsonb_build_array(28 + id % 5, 28 + id % 5, 1), 'outputs', 2 + id % 9)
FROM tasks;
UPDATE tasks SET data_version_id = v.id FROM data_versions v WHERE v.task_id = tasks.id;
INSERT INTO candidates (task_id, name) SELECT t.id, c FROM tasks t, unnest(:names) c;
INSERT INTO trials (task_id, candidate_id, data_version_id, state, attempt, predicted_seconds,
                    reserved_seconds, cost_seconds, quality, score, ended_order, ended_at)
SELECT task_id, id, version, 'succeeded', 1, 10, 100, 5 + 10 * random(), q, q,
       nextval('trial_ends'), clock_timestamp()
FROM (
    SELECT c.id, c.task_id, t.data_version_id AS version,
           least(1, greatest(0, 0.6 + 0.2 * sin(t.id) + 0.1 * sin(c.id % {arms}) + 0.05 * random())) AS q,
           row_number() OVER (PARTITION BY t.id ORDER BY md5(c.id::text)) AS place, t.state
    FROM candidates c JOIN tasks t ON t.id = c.task_id
) cell
WHERE place <= {seen} OR state = 'done';
INSERT INTO attempts (trial_id, number, device, state, seconds, ended_at)
SELECT id, 1, 'cpu0', 'succeeded', cost_seconds, clock_timestamp() FROM trials;
INSERT INTO decisions (trial_id, device, policy, reason, expected_quality, deviation, predicted_seconds,
                       score, runners_up, fallbacks, memory)
SELECT id, 'cpu0', 'easeml', '', 0.7, 0.1, 10, 0.01, '[]', '[]', '{{}}' FROM trials ORDER BY id;
ANALYZE;
"""


def fill(url: str, tasks: int, arms: int, seen: int) -> None:
    """PAST tasks that tried every candidate, and `tasks` open ones with `seen` trials each."""
    from sqlalchemy import create_engine, text

    from easeml_core.catalog import MODELS

    models = [name for name, model in MODELS.items() if TEMPLATE in model.expected]
    names = [model + extra for extra in ("", *(f"+f0.{k}" for k in range(1, 10))) for model in models][:arms]
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in FILL.format(tasks=tasks, past=PAST, template=TEMPLATE, arms=arms, seen=seen).split(
            ";\n"
        ):
            if statement.strip():
                query = text(statement)
                connection.execute(query, {"names": names} if ":names" in statement else {})
    engine.dispose()


def decide(url: str) -> dict[str, float]:
    """Two decisions in this process, which has made none."""
    from easeml_core import catalog, language
    from easeml_core.allocator import choose_with_ladder, make_policy
    from easeml_core.allocator.types import AllocationRequest, Arm, Decision, OpenTask
    from easeml_core.ledger.session import Ledger
    from easeml_core.service.decide import propose
    from easeml_core.settings import Settings

    # Imports, those of plug-ins too, and first calls into the linear algebra.
    assert catalog.MODELS
    assert language.TEMPLATES
    small = OpenTask("a/b", "a", "t", (Arm("x", 1.0), Arm("y", 2.0)))
    choose_with_ladder(make_policy("easeml"), AllocationRequest("cpu0", (small,), {}, seed=0))
    settings, found = Settings(database_url=url), dict[str, float]()
    with Ledger(url).transaction() as session:
        session.connection()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for which in ("fresh", "next"):
            started = time.perf_counter()
            _, answer = propose(session, settings, "cpu0")
            found[f"{which}_seconds"] = time.perf_counter() - started
            assert isinstance(answer, Decision)
            assert not answer.fallbacks, answer.fallbacks
            session.expunge_all()
        found["resident_mb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    return found


def measure(tasks: int, arms: int, seen: int) -> dict[str, Any]:
    """Fill a ledger that is gone afterwards, and decide from it."""
    with own_ledger() as url:
        fill(url, tasks, arms, seen)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return {"tasks": tasks, "arms": arms, "seen": seen} | pool.apply(decide, (url,))


def main(
    tasks: Annotated[int, typer.Option(min=1, help="Open tasks.")] = 1000,
    arms: Annotated[int, typer.Option(min=2, max=100, help="Candidates of each.")] = 100,
    seen: Annotated[int, typer.Option(min=0, help="Trials of each open task.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON value.")] = False,
) -> None:
    """Fill a ledger and decide from it."""
    found = measure(tasks, arms, seen)
    if as_json:
        print(json.dumps(found))
        return
    table = Table("what", "measured")
    for name, value in found.items():
        table.add_row(name, f"{value:.4g}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
