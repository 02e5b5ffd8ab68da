"""What every function of the service works with: the settings, the ledger and the bucket."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from easeml_core.settings import Settings

if TYPE_CHECKING:
    from easeml_core.bucket import Bucket
    from easeml_core.ledger import Ledger


class Service:
    """Settings, and what they lead to, made when first used. Holds no connection: cheap, and safe to fork."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @classmethod
    def from_environment(cls) -> Service:
        """The service that `EASEML_*` and `$EASEML_HOME/easeml.toml` describe."""
        return cls(Settings())

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger; raises OperatorError where no database is configured or started."""
        from easeml_core.ledger import Ledger

        return Ledger(self.settings.resolved_database_url())

    @cached_property
    def bucket(self) -> Bucket:
        """The tenants' bucket."""
        from easeml_core.bucket import Bucket

        return Bucket(self.settings.bucket_url, self.settings.bucket_options)
