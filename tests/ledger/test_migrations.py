from __future__ import annotations

import multiprocessing

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from easeml_core.ledger import Ledger, migrate
from easeml_core.ledger.models import Base

LATEST = "0004"


def test_migrations_make_exactly_what_the_models_say(ledger: Ledger) -> None:
    with ledger.transaction() as session:
        context = MigrationContext.configure(
            session.connection(), opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, Base.metadata) == []


def test_check_constraints_and_sequences_agree_too(ledger: Ledger) -> None:
    # compare_metadata looks at neither.
    declared = {
        constraint.name
        for table in Base.metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, sa.CheckConstraint)
    }
    with ledger.transaction() as session:
        found = set(
            session.scalars(
                sa.text(
                    "SELECT conname FROM pg_constraint "
                    "WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
                )
            )
        )
        sequences = sa.inspect(session.connection()).get_sequence_names()
    assert found == declared
    assert len(found) >= 8
    assert "trial_ends" in sequences


def test_six_processes_may_migrate_an_empty_database_at_once(empty_database_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=migrate, args=(empty_database_url,)) for _ in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 6
    with Ledger(empty_database_url).transaction() as session:
        assert list(session.scalars(sa.text("SELECT version_num FROM alembic_version"))) == [LATEST]
        assert session.scalar(sa.text("SELECT count(*) FROM tasks")) == 0


def test_migrating_again_changes_nothing(database_url: str) -> None:
    migrate(database_url)
    with Ledger(database_url).transaction() as session:
        assert list(session.scalars(sa.text("SELECT version_num FROM alembic_version"))) == [LATEST]


@pytest.mark.parametrize("table", ["decisions", "promotions"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET reason = 'x'", "TRUNCATE {}"])
def test_append_only_tables_refuse_changes(ledger: Ledger, table: str, statement: str) -> None:
    with pytest.raises(sa.exc.IntegrityError, match="append-only"), ledger.transaction() as session:
        session.execute(sa.text(statement.format(table)))
