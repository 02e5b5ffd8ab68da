"""Run by alembic: applies the versions on the connection that `migrate` opened, in its transaction."""

from alembic import context

from easeml_core.ledger.models import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
