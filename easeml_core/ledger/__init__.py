"""The ledger: all state of the service, in PostgreSQL."""

from easeml_core.ledger.migrations import migrate
from easeml_core.ledger.session import Ledger, Listener

__all__ = ["Ledger", "Listener", "migrate"]
