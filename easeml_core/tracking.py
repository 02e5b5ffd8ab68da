"""The MLflow gateway: experiments, runs, logged models, the registry and the champion.

Only explicit run ids, never MLflow's fluent API: its "active run" is process-wide and leaks from one trial
into the next. MLflow is imported on first use, so importing this module costs nothing.

What MLflow does not do, and this module does: treat "already exists" as success, refuse values that are
not finite (it stores inf as ±1.8e308, which ranks first), say explicitly how a run ended (it reports
FINISHED for a process that just vanished), and compare what arrived in the store with what was sent.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import math
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from easeml_core.errors import TemporaryError
from easeml_core.naming import CHAMPION_ALIAS

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

TRIAL_TAG = "easeml.trial"
ATTEMPT_TAG = "easeml.attempt"
CONFIG_TAG = "easeml.config_sha256"
CONFIG_FILE = "config.json"
_PARENT_TAG = "mlflow.parentRunId"
_NOTE_TAG = "mlflow.note.content"
_PARAM_LENGTH = 500  # a parameter is for reading; the whole configuration is an artifact
_PAGE = 1000
_SIGN_OF_LIFE_SECONDS = 5.0
# MLflow's own default is to try a request eight times over some four minutes. Our callers come again anyway.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version in the registry and the run it came from."""

    name: str
    version: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Tracking:
    """The MLflow server at `url`. Holds no connection and no state of its own beyond the client."""

    url: str

    @property
    def client(self) -> MlflowClient:
        """MLflow's client, for what this gateway does not wrap."""
        return _client(self.url)

    # Experiments and runs

    def get_or_create_experiment(self, name: str) -> str:
        """Id of the experiment `name`; several callers at once get the same one.

        Raises TemporaryError where MLflow does not answer.
        """
        from mlflow.exceptions import MlflowException

        with away():
            found = self.client.get_experiment_by_name(name)
            if found is not None:
                return str(found.experiment_id)
            try:
                return str(self.client.create_experiment(name))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            found = self.client.get_experiment_by_name(name)
            if found is None:
                raise TemporaryError(f"experiment {name} exists but cannot be read")
            return str(found.experiment_id)

    def create_run(
        self,
        experiment_id: str,
        name: str,
        *,
        trial: int,
        attempt: int,
        tags: Mapping[str, str] | None = None,
        note: str = "",
        parent: str | None = None,
    ) -> str:
        """Id of the run of this attempt; made once, however often it is asked for.

        With `parent`, a new child run. Without, runs that earlier attempts of the trial left open are
        closed as KILLED: their trainers are fenced. Raises TemporaryError where MLflow does not answer.
        """
        wanted = {TRIAL_TAG: str(trial), ATTEMPT_TAG: str(attempt), **(tags or {})}
        if note:
            wanted[_NOTE_TAG] = note
        with away():
            if parent is not None:
                wanted[_PARENT_TAG] = parent
            else:
                for run in self._runs([experiment_id], f"tags.`{TRIAL_TAG}` = '{trial}'"):
                    number = int(run.data.tags.get(ATTEMPT_TAG, "0"))
                    if number == attempt and _PARENT_TAG not in run.data.tags:
                        return str(run.info.run_id)
                    if number < attempt and run.info.status == "RUNNING":
                        self.client.set_terminated(run.info.run_id, status="KILLED")
            created = self.client.create_run(experiment_id, tags=wanted, run_name=name)
            return str(created.info.run_id)

    def log(
        self,
        run_id: str,
        *,
        metrics: Iterable[tuple[str, float, int]] = (),
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Log metrics `(name, value, step)`, parameters and tags in one request.

        Long parameters are shortened. Raises ValueError on a metric that is not finite (nothing is logged
        then), TemporaryError where MLflow does not answer.
        """
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        rows = []
        for name, value, step in metrics:
            if not math.isfinite(value):
                raise ValueError(f"metric {name} is {value}: only finite values can be ranked")
            rows.append(Metric(name, float(value), now, step))
        with away():
            self.client.log_batch(
                run_id,
                metrics=rows,
                params=[Param(key, _shorten(value)) for key, value in (params or {}).items()],
                tags=[RunTag(key, value) for key, value in (tags or {}).items()],
            )

    def log_config(self, run_id: str, config: Mapping[str, Any]) -> None:
        """Keep the whole configuration as an artifact, and its SHA-256 as a tag (parameters get cut)."""
        text = json.dumps(config, indent=2, sort_keys=True)
        with away():
            self.client.log_text(run_id, text, CONFIG_FILE)
            self.client.set_tag(run_id, CONFIG_TAG, hashlib.sha256(text.encode()).hexdigest())

    def finish(self, run_id: str, status: str) -> None:
        """Say how a run ended: FINISHED, FAILED or KILLED. Nothing else ever closes a run."""
        with away():
            self.client.set_terminated(run_id, status=status)

    def check(self) -> None:
        """Ask the server for a sign of life, once; raises TemporaryError where none comes in 5 s."""
        if not self.url.startswith(("http://", "https://")):
            return  # a database, without a server
        try:
            with urllib.request.urlopen(f"{self.url.rstrip('/')}/health", timeout=_SIGN_OF_LIFE_SECONDS):
                return
        except urllib.error.HTTPError:
            return  # a proxy may hide this page, but something answers
        except (OSError, http.client.HTTPException) as error:
            raise TemporaryError(f"MLflow does not answer: {error}") from error

    def close_orphans(self, live: Collection[tuple[int, int]]) -> list[str]:
        """Close every open run of ours whose `(trial, attempt)` is not in `live`; gives their ids.

        Raises TemporaryError within seconds where MLflow is away or hangs.
        """
        self.check()
        closed = []
        with away():
            experiments = [e.experiment_id for e in self._experiments()]
            for run in self._runs(experiments, "attributes.status = 'RUNNING'"):
                tags = run.data.tags
                if TRIAL_TAG not in tags or (int(tags[TRIAL_TAG]), int(tags.get(ATTEMPT_TAG, "0"))) in live:
                    continue
                self.client.set_terminated(run.info.run_id, status="KILLED")
                closed.append(str(run.info.run_id))
        return closed

    def _experiments(self) -> Iterable[Any]:
        token: str | None = None
        while True:
            page = self.client.search_experiments(max_results=_PAGE, page_token=token)
            yield from page
            if not (token := page.token):
                return

    def _runs(self, experiments: list[str], condition: str) -> Iterable[Run]:
        found: list[Run] = []
        for start in range(0, len(experiments), 100):
            token: str | None = None
            while True:
                page = self.client.search_runs(
                    experiments[start : start + 100], condition, max_results=_PAGE, page_token=token
                )
                found.extend(page)
                if not (token := page.token):
                    break
        return found

    # Logged models

    def create_model(self, experiment_id: str, run_id: str, tags: Mapping[str, str]) -> str:
        """Id (`m-…`) of a new, still empty logged model of a run."""
        from mlflow.entities import LoggedModelOutput

        with away():
            model = self.client.create_logged_model(
                experiment_id, name="model", source_run_id=run_id, tags=dict(tags)
            )
            self.client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
            return str(model.model_id)

    def upload_model(self, model_id: str, folder: Path) -> dict[str, str]:
        """Upload a saved model's folder; gives relative path → SHA-256 of every file.

        The model counts as READY only once the store lists every file; otherwise TemporaryError.
        """
        files = hash_files(folder)
        with away():
            self.client.log_model_artifacts(model_id, str(folder))
            missing = files.keys() - self._listed(model_id)
            if missing:
                raise TemporaryError(
                    f"the artifact store lacks {', '.join(sorted(missing))} after the upload"
                )
            self.client.finalize_logged_model(model_id, "READY")
        return files

    def verify_files(self, model_uri: str, files: Mapping[str, str]) -> list[str]:
        """What is wrong with a logged model in the store, by name of file; empty when nothing is.

        Lists, downloads and hashes every file: a store that took half an upload says it has it all.
        """
        model_id = model_uri.removeprefix("models:/")
        with away():
            listed = self._listed(model_id)
            problems = [f"{path} is missing in the artifact store" for path in sorted(files.keys() - listed)]
            if problems or not files:
                return problems or ["the result names no files"]
            from mlflow.artifacts import download_artifacts

            # By location: of a `models:/m-…` URI MLflow asks the process-wide server, not this one.
            location = self.client.get_logged_model(model_id).artifact_location
            with tempfile.TemporaryDirectory(prefix="easeml-verify-") as folder:
                local = download_artifacts(artifact_uri=location, dst_path=folder, tracking_uri=self.url)
                found = hash_files(Path(local))
        return [
            f"{path} in the artifact store is not the file that was sent"
            for path, digest in sorted(files.items())
            if found.get(path) != digest
        ]

    def _listed(self, model_id: str) -> set[str]:
        paths, folders = set(), [""]
        while folders:
            for entry in self.client.list_logged_model_artifacts(model_id, folders.pop() or None):
                if entry.is_dir:
                    folders.append(entry.path)
                else:
                    paths.add(str(entry.path))
        return paths

    # Registry

    def register(self, name: str, model_uri: str, run_id: str, tags: Mapping[str, str]) -> ModelVersion:
        """The version of the registered model `name` made from a run; made once per run."""
        from mlflow.exceptions import MlflowException

        with away():
            try:
                self.client.create_registered_model(name)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            known = self.client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'")
            if known:
                return ModelVersion(name, str(min(int(v.version) for v in known)), run_id)
            made = self.client.create_model_version(
                name,
                source=model_uri,
                run_id=run_id,
                tags=dict(tags),
                model_id=model_uri.removeprefix("models:/"),
            )
            return ModelVersion(name, str(made.version), run_id)

    def set_champion(self, version: ModelVersion) -> None:
        """Point the alias `champion` at a version."""
        with away():
            self.client.set_registered_model_alias(version.name, CHAMPION_ALIAS, version.version)

    def tag_version(self, name: str, version: str, tags: Mapping[str, str]) -> None:
        """Set tags of a version, each in a request of its own."""
        with away():
            for key, value in tags.items():
                self.client.set_model_version_tag(name, version, key, value)

    def champion(self, name: str) -> ModelVersion | None:
        """The version that carries the alias `champion`, or None where none does."""
        from mlflow.exceptions import MlflowException

        with away():
            try:
                found = self.client.get_model_version_by_alias(name, CHAMPION_ALIAS)
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    return None
                raise
            return ModelVersion(name, str(found.version), str(found.run_id))


def hash_files(folder: Path) -> dict[str, str]:
    """Relative path (with `/`) → hexadecimal SHA-256 of every file below `folder`."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as stream:
                digests[path.relative_to(folder).as_posix()] = hashlib.file_digest(
                    stream, "sha256"
                ).hexdigest()
    return digests


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _PARAM_LENGTH else text[: _PARAM_LENGTH - 1] + "…"


@cache  # making a client reads entry points, which takes longer than a request
def _client(url: str) -> MlflowClient:
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=url, registry_uri=url)


@contextmanager
def away() -> Iterator[None]:
    """Turn MLflow's "the server does not answer" into TemporaryError and let real refusals through."""
    try:
        yield
    except TemporaryError:
        raise
    except Exception as error:
        from mlflow.exceptions import MlflowException
        from requests.exceptions import RequestException

        temporary = ("TEMPORARILY_UNAVAILABLE", "INTERNAL_ERROR", "REQUEST_LIMIT_EXCEEDED")
        if isinstance(error, RequestException | ConnectionError) or (
            isinstance(error, MlflowException)
            and (error.error_code in temporary or "Max retries exceeded" in str(error))
        ):
            raise TemporaryError(f"MLflow does not answer: {error}") from error
        raise
