"""The MLflow tracking server in one process: `python -m easeml_core.stack.mlflow_server URL`.

`mlflow server` keeps its command-line process beside the one that serves, about 150 MB more, and imports
everything twice. This brings the schema up to date first, before anything else can open the database
(several openers of a fresh one destroy it), then serves. The database's URL comes by
`MLFLOW_BACKEND_STORE_URI`, so that its password is in no process list.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any
from urllib.parse import urlsplit


def main(url: str) -> None:
    """Serve on the host and port of `url` until SIGTERM."""
    import uvicorn

    server: Any = importlib.import_module("mlflow.server")

    store = os.environ["MLFLOW_BACKEND_STORE_URI"]
    artifacts = os.environ["MLFLOW_ARTIFACTS_DESTINATION"]
    _upgrade(store)
    os.environ.update(
        {
            server.BACKEND_STORE_URI_ENV_VAR: store,
            server.REGISTRY_STORE_URI_ENV_VAR: store,
            server.ARTIFACT_ROOT_ENV_VAR: "mlflow-artifacts:/",
            server.ARTIFACTS_DESTINATION_ENV_VAR: artifacts,
            server.SERVE_ARTIFACTS_ENV_VAR: "true",
            "_MLFLOW_SGI_NAME": "uvicorn",
        }
    )
    where = urlsplit(url)
    assert where.hostname
    uvicorn.run(
        "mlflow.server.fastapi_app:app", host=where.hostname, port=where.port or 80, log_level="warning"
    )


def _upgrade(store: str) -> None:
    utils: Any = importlib.import_module("mlflow.store.db.utils")
    engine = utils.create_sqlalchemy_engine_with_retry(store)
    try:
        if utils._is_empty_database(engine):
            utils._initialize_tables(engine)
        elif utils._get_schema_version(engine) != utils._get_latest_schema_revision():
            utils._upgrade_db(engine)
    finally:
        engine.dispose()


if __name__ == "__main__":
    main(sys.argv[1])
