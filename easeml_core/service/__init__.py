"""What the service does, one module per verb; Airflow and the command line only call these."""

from easeml_core.service.context import Service

__all__ = ["Service"]
