"""Brings a database to the ledger's current schema. Needs no alembic.ini: it also works when installed."""

from __future__ import annotations


def migrate(url: str) -> None:
    """Upgrade the ledger at `url` to the newest schema; several processes may call it at once.

    One transaction under an advisory lock: who comes second finds nothing left to do, and a kill in the
    middle leaves the old schema.
    """
    from alembic import command
    from alembic.config import Config

    from easeml_core.ledger.session import Ledger, lock

    config = Config()
    config.set_main_option("script_location", "easeml_core.ledger:migrations")
    with Ledger(url).transaction() as session:
        lock(session, "easeml.migrate")
        config.attributes["connection"] = session.connection()
        command.upgrade(config, "head")
