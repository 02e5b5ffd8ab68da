"""Asks the service and waits for its answers, all through the bucket: `status.json`, `predictions/`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from easeml_core import naming
from easeml_core.errors import Problem, TemporaryError, TenantError
from easeml_core.naming import TaskName

if TYPE_CHECKING:
    from easeml_core.bucket import Bucket

T = TypeVar("T")

# Slow enough to cost a bucket nothing, fast enough that nobody notices.
POLL_SECONDS = 0.25


def read_status(bucket: Bucket, name: TaskName) -> dict[str, Any] | None:
    """What `status.json` of the task says; None before the service has written any.

    Raises `TenantError` where it is not what the service writes: whoever has the bucket can write to it.
    """
    from easeml_core.service.status import Status

    key = name.key(naming.STATUS_JSON)
    content = bucket.read_if_there(key)
    if content is None:
        return None
    try:
        found: dict[str, Any] = dict(json.loads(content, parse_constant=_refuse_constant))
        # A service of another version may write more fields, or fewer.
        known = {field: value for field, value in found.items() if field in Status.model_fields}
        return found | Status.model_validate(known).model_dump(mode="json")
    except (ValueError, TypeError, RecursionError):  # JSON, UTF-8 and pydantic errors are of the first class
        text = "is not as the service writes it: it is broken, or something else wrote there"
        fix = "delete it; the service writes it anew with the next change of the task"
        raise TenantError([Problem(key, text, fix=fix)]) from None


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _latest(bucket: Bucket, name: TaskName) -> dict[str, Any] | None:
    """Like `read_status`, and None for a broken one too: whoever waits is waiting for the next."""
    try:
        return read_status(bucket, name)
    except TenantError:
        return None


def need_status(bucket: Bucket, name: TaskName) -> dict[str, Any]:
    """Like `read_status`; raises `TenantError` also where the service has said nothing of the task."""
    status = read_status(bucket, name)
    if status is None:
        need_task(bucket, name)
        text = f"the service has not looked at it yet in the bucket {bucket.url}"
        fix = "wait a little; does the service run, and on that bucket?"
        raise TenantError([Problem(name.key(naming.STATUS_JSON), text, fix=fix)])
    return status


def send_inputs(bucket: Bucket, name: TaskName, paths: list[Path], request: str = "") -> str:
    """Upload inputs under `infer/<request>/` and return the request's name; sends nothing twice.

    Raises `TenantError` for inputs that cannot be sent, and where there is no such task.
    """
    from easeml_core.cli import upload

    need_status(bucket, name)
    files = upload.gather(paths)
    request = request or f"r-{upload.content_id(files)}"
    upload.push(bucket, name.key(naming.INFER_DIR, request), files, replace=True)
    return request


def need_task(bucket: Bucket, name: TaskName) -> None:
    """Raise `TenantError` where the bucket has no such task."""
    if bucket.read_if_there(name.key(naming.SPEC_FILE)) is None:
        text = f"there is no such task in the bucket {bucket.url}"
        fix = f"submit it first: easeml submit {name} FOLDER"
        raise TenantError([Problem(name.key(naming.SPEC_FILE), text, fix=fix)])


def for_answer(bucket: Bucket, name: TaskName, timeout: float) -> dict[str, Any]:
    """Status of the task once it is about what the bucket holds now.

    Raises `TemporaryError` after `timeout` seconds: the upload is complete, so asking again later is all.
    """

    def answered() -> dict[str, Any] | None:
        status, listing = _latest(bucket, name), bucket.listing(name.prefix)
        current = status is not None and listing is not None and status["upload"] == listing.fingerprint
        return status if current else None

    return poll(answered, timeout, f"the service has not answered on {name}: does it run (easeml ps)?")


def predictions_key(bucket: Bucket, name: TaskName, request: str) -> str:
    """Where the predictions of a request will be, as far as the task's status tells."""
    from easeml_core.service.predictions import extension

    status = _latest(bucket, name)
    return name.predictions_key(request, extension(status["template"] if status else ""))


def for_predictions(bucket: Bucket, name: TaskName, request: str, timeout: float) -> tuple[str, bytes]:
    """Key and content of a request's predictions, once they are about what `infer/<request>/` holds now.

    Raises `TenantError` with the problems where the service refuses the request, and where the task is over
    without a model; `TemporaryError` after `timeout` seconds.
    """
    prefix = name.key(naming.INFER_DIR, request)

    def answered() -> tuple[str, bytes] | None:
        status, listing = _latest(bucket, name), bucket.listing(prefix)
        inferences = status["inferences"] if status else []
        mine = next((i for i in inferences if i["request"] == request), None)
        if mine is not None and listing is not None and mine["fingerprint"] == listing.fingerprint:
            if mine["state"] == "rejected":
                raise TenantError(Problem(**problem) for problem in mine["problems"])
            key = mine["predictions"] or ""
            content = bucket.read_if_there(key) if mine["state"] == "done" else None
            if content is not None:
                return key, content
        if status is not None:
            _refuse_without_model(bucket, name, status)
        return None

    return poll(answered, timeout, f"no predictions for {name} yet: see easeml status {name}")


def _refuse_without_model(bucket: Bucket, name: TaskName, status: dict[str, Any]) -> None:
    """Raise `TenantError` where the task is over without a model, and no news of it waits for a look."""
    over = status["state"] in ("rejected", "done", "failed", "cancelled")
    if not over or status["champion"] or status["leaderboard"] or status["running"]:
        return
    listing = bucket.listing(name.prefix)
    if listing is not None and status["upload"] == listing.fingerprint:
        reason = f" ({status['state_reason']})" if status["state_reason"] else ""
        text = f"has no model to predict with, and none is to come: it is {status['state']}{reason}"
        raise TenantError([Problem(str(name), text, fix=f"see why: easeml status {name}")])


def poll(answered: Callable[[], T | None], timeout: float, otherwise: str) -> T:
    """Ask until the answer is not None; `TemporaryError(otherwise)` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while (answer := answered()) is None:
        if time.monotonic() >= deadline:
            raise TemporaryError(f"{otherwise} (waited {timeout:g} s)")
        time.sleep(POLL_SECONDS)
    return answer
