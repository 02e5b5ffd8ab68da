#!/usr/bin/env bash
# Buckets, database schemas and the first administrator: once, before anything that uses them starts.
set -euo pipefail

python - <<'PY'
from easeml_core.ledger import migrate
from easeml_core.settings import Settings
from s3fs import S3FileSystem

settings = Settings()
store = S3FileSystem(**settings.bucket_options)
for bucket in (settings.bucket, "s3://easeml-mlflow"):
    if not store.exists(bucket):
        store.mkdir(bucket)
migrate(settings.resolved_database_url())
PY
mlflow db upgrade "$MLFLOW_BACKEND_STORE_URI"
airflow db migrate
airflow users create --role Admin --username admin --password "$AIRFLOW_ADMIN_PASSWORD" \
    --firstname ease --lastname ml --email admin@localhost
