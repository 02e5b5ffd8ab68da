"""From a complete upload to a registered task: the middle of intake."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from easeml_core import naming
from easeml_core.bucket.entries import Listing
from easeml_core.errors import OperatorError, Problem, TenantError
from easeml_core.naming import TaskName
from easeml_core.service.data_report import write_report
from easeml_core.service.offers import without_new
from easeml_core.workorder import read_json, write_atomically

if TYPE_CHECKING:
    from easeml_core.data import Version, VersionFacts
    from easeml_core.service.context import Service
    from easeml_core.spec import Spec

# Remembers which upload gave which version, so that a change of the spec alone stages nothing again.
SOURCES = "sources.json"
_REMEMBERED = 20
_TOLD_EVERY = 10_000

log = logging.getLogger(__name__)


def accept(service: Service, listing: Listing, name: TaskName) -> int:
    """Validate an upload, build its data version, register both, report on the data; returns the task's id.

    Raises `TenantError` with all problems, `TemporaryError` when the upload changes meanwhile.
    """
    from easeml_core.catalog import candidates_for
    from easeml_core.data import open_version
    from easeml_core.ledger import tasks

    spec = _load_spec(service, listing, name)
    facts = _version(service, listing, name, spec)
    candidates = candidates_for(spec, facts.model_dump(mode="json"))
    if not candidates:
        text = "leaves no candidate to try"
        raise TenantError([Problem(naming.SPEC_FILE, text, field="candidates", fix="exclude fewer")])
    default_trials = service.settings.default_trials

    def register(session: Any) -> int:
        before = tasks.find_task(session, name, lock=True)
        offered = candidates if before is None else without_new(session, before, spec, candidates)
        task = tasks.register_task(session, name, spec, default_trials=default_trials)
        tasks.add_version(session, task, spec, facts)
        tasks.offer_candidates(session, task, offered)
        return task.id

    task_id = service.ledger.repeat(register)
    folder = naming.version_dir(service.settings.versions_dir, name, facts.digest)
    left_out = [file for file in listing.ignored if file.startswith(f"{naming.DATA_DIR}/")]
    write_report(service, name, open_version(folder), left_out)
    return task_id


def _load_spec(service: Service, listing: Listing, name: TaskName) -> Spec:
    from easeml_core.spec import load_spec

    problems = list(listing.problems)
    try:
        spec = load_spec(service.bucket.read(name.key(naming.SPEC_FILE)))
    except TenantError as error:
        raise TenantError([*error.problems, *problems]) from None
    problems += _refused_changes(service, name, spec)
    if problems:
        raise TenantError(problems)
    return spec


def _refused_changes(service: Service, name: TaskName, spec: Spec) -> list[Problem]:
    """Changes that a task with data does not allow."""
    from easeml_core.ledger.tasks import find_task
    from easeml_core.spec import Spec as SpecType

    with service.ledger.transaction() as session:
        task = find_task(session, name)
        if task is None or task.data_version_id is None:
            return []
        old = SpecType.from_dict(task.spec)
    return [
        Problem(
            naming.SPEC_FILE,
            f"cannot change from {change.before} to {change.after}: {change.refused}",
            field=change.field,
            fix="change it back, or submit the changed task under another name",
        )
        for change in spec.changes(old)
        if change.refused
    ]


def _version(service: Service, listing: Listing, name: TaskName, spec: Spec) -> VersionFacts:
    from easeml_core.data import Limits, build_version, open_version
    from easeml_core.data.intact import is_intact

    versions = service.settings.versions_dir
    home = naming.version_dir(versions, name, "x" * 64).parent
    source = _source(listing, spec)
    known = _remembered(home).get(source)
    if known is not None:
        try:
            version = open_version(naming.version_dir(versions, name, known))
            if is_intact(version):
                return version.facts
        except OperatorError:
            pass  # removed by the operator, or broken: it is built again
    limits = Limits.of(service.settings)
    folder = versions / ".staging" / f"{_pid()}-{source[:12]}-upload"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        service.bucket.fetch(
            listing,
            folder,
            max_files=limits.max_files,
            max_file=limits.max_file_bytes,
            max_total=limits.max_upload_bytes,
        )
        parent = _parent(service, name)
        facts = build_version(
            folder,
            spec,
            parent=parent,
            limits=limits,
            versions_dir=versions,
            name=name,
            progress=lambda count: _tell(name, count),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _remember(home, source, facts.digest)
    return facts


def _tell(name: TaskName, examples: int) -> None:
    if examples % _TOLD_EVERY == 0:
        log.info("%s: %s examples read", name, f"{examples:,}")


def _pid() -> int:
    import os

    return os.getpid()


def _source(listing: Listing, spec: Spec) -> str:
    parts = (
        listing.data_fingerprint,
        str(spec.program.shape),
        spec.template,
        spec.validation_fraction,
        spec.validation_seed,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _remembered(home: Path) -> dict[str, str]:
    found = read_json(home / SOURCES)
    return found if isinstance(found, dict) else {}


def _remember(home: Path, source: str, digest: str) -> None:
    known = {key: value for key, value in _remembered(home).items() if key != source}
    latest = dict([*known.items(), (source, digest)][-_REMEMBERED:])
    write_atomically(home / SOURCES, json.dumps(latest, indent=1))


def _parent(service: Service, name: TaskName) -> Version | None:
    """The task's current data version, whose split and classes the new one takes over."""
    from easeml_core.data import Version, VersionFacts
    from easeml_core.ledger.tasks import find_task

    with service.ledger.transaction() as session:
        task = find_task(session, name)
        found = task.data_version.facts if task is not None and task.data_version is not None else None
    if found is None:
        return None
    facts = VersionFacts.model_validate(found)  # the ledger has them, whatever became of the folder
    return Version(naming.version_dir(service.settings.versions_dir, name, facts.digest), facts)
