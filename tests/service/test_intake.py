"""Intake takes what has settled, once, and tells each tenant what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from easeml_core.data import open_version
from easeml_core.errors import TemporaryError
from easeml_core.ledger.models import Candidate, DataVersion, Task, Upload
from easeml_core.naming import TaskName, version_dir
from easeml_core.service import Service
from easeml_core.service.intake import run_intake, scan_uploads
from easeml_core.service.status import Status, write_status
from easeml_core.settings import Settings

ROWS = "a,b,label\n" + "".join(f"{i},{i * i},{'yn'[i % 2]}\n" for i in range(40))


def spec(width: int = 2, more: str = "") -> str:
    return f"program: '{{input: {{[Tensor[{width}]], []}}, output: {{[Tensor[2]], []}}}}'\n{more}"


def submit(service: Service, name: str = "lab/rows", text: str | None = None, rows: str = ROWS) -> None:
    service.bucket.write(f"{name}/data/rows.csv", rows)
    service.bucket.write(f"{name}/task.yaml", text or spec())


def status(service: Service, name: str = "lab/rows") -> dict[str, Any]:
    content = service.bucket.read(f"{name}/status.json")
    Status.model_validate_json(content)
    found: dict[str, Any] = json.loads(content)
    return found


def counts(service: Service) -> tuple[int, int, int]:
    with service.ledger.transaction() as session:
        found = [
            session.scalar(select(func.count()).select_from(t)) or 0 for t in (Task, DataVersion, Candidate)
        ]
    return found[0], found[1], found[2]


def test_an_upload_is_accepted_once(service: Service) -> None:
    submit(service)
    assert [(r.prefix, r.kind) for r in scan_uploads(service)] == [("lab/rows", "task")]
    assert run_intake(service).accepted == ["lab/rows"]
    found = status(service)
    assert (found["state"], found["accepted"], found["problems"]) == ("open", True, [])
    assert found["data"]["n_train"] + found["data"]["n_val"] == 40
    assert {c["state"] for c in found["candidates"]} == {"untried"}
    assert found["upload"] == service.bucket.scan().listings["lab/rows"].fingerprint
    assert "accepted" in service.bucket.read("lab/rows/status.md").decode()
    assert scan_uploads(service) == []
    before = counts(service)
    assert run_intake(service).as_dict() == {key: [] for key in run_intake(service).as_dict()}
    assert counts(service) == before


def test_the_same_bytes_again_are_nothing_new(service: Service) -> None:
    submit(service)
    run_intake(service)
    before, shown = counts(service), status(service)
    submit(service)
    assert run_intake(service).accepted == ["lab/rows"]
    assert counts(service) == before
    assert status(service)["data"] == shown["data"]


def test_leftovers_and_requests_never_answered_are_told(service: Service) -> None:
    submit(service)
    service.bucket.write("lab/rows/data/.DS_Store", b"x")
    run_intake(service)
    before = counts(service)
    assert status(service)["ignored"] == ["data/.DS_Store"]
    service.bucket.write("lab/rows/infer/old.bak/q.csv", "a,b\n1,2\n")
    assert run_intake(service).accepted == ["lab/rows"]
    assert status(service)["ignored"] == ["data/.DS_Store", "infer/old.bak"]
    assert "never answered; rename" in service.bucket.read("lab/rows/status.md").decode()
    assert counts(service) == before
    assert scan_uploads(service) == []


def test_a_damaged_version_is_built_again(service: Service) -> None:
    submit(service)
    run_intake(service)
    (inputs,) = service.settings.versions_dir.rglob("inputs.npy")
    os.truncate(inputs, 100)
    service.bucket.write("lab/rows/task.yaml", spec(more="priority: 2\n"))
    assert run_intake(service).accepted == ["lab/rows"]
    assert np.load(inputs).shape == (40, 2)


@pytest.mark.parametrize(
    ("harmed", "kept"),
    [(("version.json", "inputs.npy"), True), (("manifest.parquet", "version.json"), False)],
)
def test_of_a_damaged_version_a_feed_keeps_the_split_or_says_so(
    service: Service, harmed: tuple[str, ...], kept: bool
) -> None:
    submit(service)
    run_intake(service)
    first = status(service)["data"]["digest"]
    folder = version_dir(service.settings.versions_dir, TaskName("lab", "rows"), first)
    before = open_version(folder).manifest
    for name in harmed:
        (folder / name).unlink()
    # As many new rows as old ones: what is drawn anew is drawn otherwise.
    submit(service, rows=ROWS + "".join(f"{i},{i * i + 1},{'yn'[i % 2]}\n" for i in range(100, 140)))
    assert run_intake(service).accepted == ["lab/rows"]
    found = status(service)["data"]
    assert found["facts"]["parent"] == first
    after = open_version(version_dir(service.settings.versions_dir, TaskName("lab", "rows"), found["digest"]))
    split = dict(zip(after.manifest["id"], after.manifest["split"], strict=True))
    assert ([split[ident] for ident in before["id"]] == before["split"]) == kept
    said = [text for text in found["facts"]["warnings"] if "is damaged, so that the split was drawn" in text]
    assert bool(said) != kept


def test_one_changed_byte_of_the_same_size_is_a_new_version(service: Service) -> None:
    submit(service)
    run_intake(service)
    first = status(service)["data"]["digest"]
    submit(service, rows=ROWS.replace("5,25,n", "5,25,y"))
    run_intake(service)
    found = status(service)
    assert found["data"]["digest"] != first
    assert found["data"]["facts"]["parent"] == first
    assert counts(service)[1] == 2


def test_a_changed_budget_does_not_stage_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(service)
    run_intake(service)

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the data was fetched again")

    monkeypatch.setattr(type(service.bucket), "fetch", fail)
    service.bucket.write("lab/rows/task.yaml", spec(more="budget: {trials: 3}\n"))
    assert run_intake(service).accepted == ["lab/rows"]
    assert status(service)["budget"]["trials"] == 3


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"task.yaml": spec()}, "waiting for files under data/"),
        ({"data/rows.csv": ROWS}, "waiting for task.yaml"),
        (
            {"task.yaml": spec(), "data/rows.csv": ROWS, "data/more.csv.part": "1"},
            "more.csv.part to be uploaded",
        ),
    ],
)
def test_half_an_upload_waits_and_says_for_what(service: Service, files: dict[str, str], words: str) -> None:
    for key, content in files.items():
        service.bucket.write(f"lab/rows/{key}", content)
    assert run_intake(service).waiting == ["lab/rows"]
    found = status(service)
    assert found["state"] == "waiting"
    assert words in found["state_reason"]
    assert found["problems"] == []
    assert counts(service) == (0, 0, 0)
    service.bucket.delete("lab/rows/data/more.csv.part")
    submit(service)
    assert run_intake(service).accepted == ["lab/rows"]
    assert status(service)["state"] == "open"


def test_nothing_is_taken_before_it_has_settled(settings: Settings) -> None:
    service = Service(settings.model_copy(update={"settle_seconds": 3600.0}))
    submit(service)
    assert scan_uploads(service) == []
    assert run_intake(service).accepted == []
    service.bucket.write("lab/rows/_READY", b"")
    assert run_intake(service).accepted == ["lab/rows"]


def test_a_rejected_task_is_told_everything_and_how_to_mend_it(service: Service) -> None:
    submit(service, text=spec(width=3, more="priority: -1\nbudget: {trials: 0}\n"))
    assert run_intake(service).rejected == ["lab/rows"]
    found = status(service)
    assert found["state"] == "rejected"
    assert {p.get("field") for p in found["problems"]} == {"priority", "budget.trials"}
    assert all("line" in p for p in found["problems"])
    submit(service, text=spec(width=3))
    run_intake(service)
    (problem,) = status(service)["problems"]
    assert problem["file"] == "data/rows.csv"
    text = service.bucket.read("lab/rows/status.md").decode()
    assert "**data/rows.csv**" in text
    assert "What to do: " in text
    submit(service)
    assert run_intake(service).accepted == ["lab/rows"]
    assert status(service)["problems"] == []


def test_a_bad_upload_leaves_the_accepted_version_running(service: Service) -> None:
    submit(service)
    run_intake(service)
    before = status(service)
    submit(service, rows="a,b,label\n1,2,\n")
    assert run_intake(service).rejected == ["lab/rows"]
    found = status(service)
    assert (found["state"], found["data"]) == ("open", before["data"])
    assert found["problems"]
    assert "The earlier version goes on" in service.bucket.read("lab/rows/status.md").decode()
    service.bucket.delete("lab/rows/data/rows.csv")
    run_intake(service)
    assert "files under data/" in status(service)["problems"][0]["file"]
    submit(service)
    run_intake(service)
    assert status(service)["problems"] == []


def test_a_change_that_data_forbids_is_refused(service: Service) -> None:
    submit(service)
    run_intake(service)
    submit(service, text=spec(more="objective: f1_macro\nvalidation: {seed: 99}\n"))
    assert run_intake(service).rejected == ["lab/rows"]
    assert {p["field"] for p in status(service)["problems"]} == {"objective", "validation_seed"}


def test_one_tenants_failure_leaves_the_others_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from easeml_core.ledger import uploads
    from easeml_core.service import register

    real, rest = register.accept, uploads.postpone

    def rest_long(session: Session, prefix: str, fingerprint: str, **seconds: float) -> None:
        rest(session, prefix, fingerprint, **{**seconds, "took_seconds": 60.0})

    def fail_for_bad(service: Service, listing: Any, name: TaskName) -> int:
        if name.tenant == "bad":
            raise RuntimeError("a bug of ours")
        if name.tenant == "later":
            raise TemporaryError("not now")
        return real(service, listing, name)

    for tenant in ("bad", "later", "good", "zoo"):
        submit(service, f"{tenant}/rows")
    monkeypatch.setattr(register, "accept", fail_for_bad)
    monkeypatch.setattr(uploads, "postpone", rest_long)
    report = run_intake(service)
    assert report.accepted == ["good/rows", "zoo/rows"]
    assert (report.failed, report.deferred) == (["bad/rows"], ["later/rows"])
    assert "no fault of yours" in status(service, "bad/rows")["problems"][0]["message"]
    monkeypatch.undo()
    assert scan_uploads(service) == []  # both rest
    wake(service)
    assert [r.prefix for r in scan_uploads(service)] == ["bad/rows", "later/rows"]
    assert run_intake(service).accepted == ["bad/rows", "later/rows"]
    assert status(service, "bad/rows")["problems"] == []


def wake(service: Service) -> None:
    """Let every rest be over."""
    with service.ledger.transaction() as session:
        session.execute(update(Upload).values(retry_at=func.clock_timestamp()))


def test_an_upload_we_always_fail_on_wakes_nobody_until_it_is_mended(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from easeml_core.data import build

    submit(service)
    run_intake(service)
    tries = []

    def fail(*_: Any, **__: Any) -> Any:
        tries.append(1)
        raise RuntimeError("a bug of ours")

    with monkeypatch.context() as patch:
        patch.setattr(build, "read_examples", fail)
        submit(service, rows=ROWS + "1,2,y\n")
        assert run_intake(service).failed == ["lab/rows"]
        for _ in range(5):
            assert scan_uploads(service) == []
            run_intake(service)
        assert len(tries) == 1
        wake(service)
        assert run_intake(service).failed == ["lab/rows"]
        assert len(tries) == 2
        # Whoever writes the status meanwhile leaves in what the tenant was told.
        write_status(service, status(service)["task_id"])
        assert "no fault of yours" in status(service)["problems"][0]["message"]
    submit(service, rows=ROWS + "3,9,n\n")
    assert run_intake(service).accepted == ["lab/rows"]
    assert status(service)["problems"] == []


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


STEPS = [
    "easeml_core.bucket.bucket.Bucket.fetch",
    "easeml_core.data.build._write",
    "easeml_core.service.register._remember",
    "easeml_core.ledger.tasks.add_version",
    "easeml_core.ledger.tasks.offer_candidates",
    "easeml_core.service.intake.write_status",
    "easeml_core.bucket.bucket.Bucket.write_if_changed",
    "easeml_core.ledger.uploads.finish",
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_step_it_goes_on(service: Service, step: str, when: str) -> None:
    import importlib

    submit(service)
    parts = step.split(".")
    owner: Any = importlib.import_module(".".join(parts[:-1] if parts[-2][0].islower() else parts[:-2]))
    if not parts[-2][0].islower():
        owner = getattr(owner, parts[-2])
    real = getattr(owner, parts[-1])
    reached = []

    def kill(*args: Any, **options: Any) -> Any:
        reached.append(step)
        if when == "after":
            real(*args, **options)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, parts[-1], kill)
        with contextlib.suppress(Killed):
            run_intake(service)
    assert reached == [step]
    run_intake(service)
    found = status(service)
    assert (found["state"], found["problems"]) == ("open", [])
    assert counts(service)[:2] == (1, 1)
    assert scan_uploads(service) == []


def test_runs_at_the_same_time_make_one_of_each(service: Service) -> None:
    for i in range(3):
        submit(service, f"lab/rows{i}")
    errors: list[BaseException] = []

    def run() -> None:
        try:
            run_intake(Service(service.settings))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert counts(service)[:2] == (3, 3)


@pytest.mark.parametrize(
    ("content", "state", "words"),
    [
        ('{"state": "paused"}', "paused", None),
        ('{"state": "cancelled"}', "cancelled", None),
        ('{"state": "sleeping"}', "open", "state must be one of"),
        ("[1]", "open", "cannot be read"),
        ("not json", "open", "cannot be read"),
        ("[" * 60_000, "open", "nested too deep"),
        ("\ufeff" + '{"state": "paused"}', "paused", None),
        ('{"state": "paused", "state": "open"}', "open", "the key 'state' is there twice"),
        ('{"state": "a\\u0000b"}', "open", "state must be one of"),
        ('{"a\\u0000": 1, "a\\u0000": 1}', "open", "is there twice"),
    ],
)
def test_control_files_are_applied(service: Service, content: str, state: str, words: str | None) -> None:
    submit(service)
    service.bucket.write("lab/rows/control.json", content)
    assert run_intake(service).controlled == ["lab/rows/control.json"]
    found = status(service)
    assert found["state"] == state
    assert bool(found["problems"]) == (words is not None)
    if words:
        assert words in found["problems"][0]["message"]
    assert run_intake(service).controlled == []
    write_status(service, found["task_id"])  # as every settled trial does
    assert status(service)["problems"] == found["problems"]


@pytest.mark.parametrize("mend", ["replace", "delete"])
def test_a_control_files_problem_goes_with_it(service: Service, mend: str) -> None:
    submit(service)
    service.bucket.write("lab/rows/control.json", "not json")
    run_intake(service)
    submit(service, rows=ROWS + "1,2,y\n")
    assert run_intake(service).accepted == ["lab/rows"]
    assert [problem["file"] for problem in status(service)["problems"]] == ["control.json"]
    if mend == "replace":
        service.bucket.write("lab/rows/control.json", '{"state": "open"}')
    else:
        service.bucket.delete("lab/rows/control.json")
    assert [r.prefix for r in scan_uploads(service)] == ["lab/rows/control.json"]
    report = run_intake(service)
    assert [*report.controlled, *report.cleared] == ["lab/rows/control.json"]
    assert status(service)["problems"] == []
    assert scan_uploads(service) == []


def test_a_known_task_is_told_of_a_half_upload_until_it_is_whole(service: Service) -> None:
    submit(service)
    run_intake(service)
    service.bucket.write("lab/rows/data/more.csv.part", "1,")
    assert run_intake(service).waiting == ["lab/rows"]
    write_status(service, status(service)["task_id"])
    assert [p["file"] for p in status(service)["problems"]] == ["data/more.csv.part"]
    service.bucket.delete("lab/rows/data/more.csv.part")
    assert run_intake(service).accepted == ["lab/rows"]
    assert status(service)["problems"] == []


def test_files_in_wrong_places_are_reported_where_they_lie(service: Service) -> None:
    submit(service)
    for key in ("lost.txt", "Lab/rows/task.yaml", "lab/My Rows/task.yaml", "lab/rows/notes.txt"):
        service.bucket.write(key, b"x")
    report = run_intake(service)
    assert report.strays == ["/", "Lab/", "lab/My Rows/"]
    for folder in ("", "Lab/", "lab/My Rows/"):
        assert json.loads(service.bucket.read(f"{folder}status.json"))["state"] == "misplaced"
        assert "What to do" in service.bucket.read(f"{folder}status.md").decode()
    assert status(service)["ignored"] == ["notes.txt"]
    assert run_intake(service).strays == []
    service.bucket.delete("Lab/rows/task.yaml")
    assert [(r.prefix, r.kind) for r in scan_uploads(service)] == [("Lab/", "task")]
    assert run_intake(service).cleared == ["Lab/"]
    assert scan_uploads(service) == []
    assert service.bucket.read_if_there("Lab/status.json") is None
    assert service.bucket.read_if_there("status.json") is not None


def test_an_unchanged_status_is_not_written_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(service)
    run_intake(service)
    assert not write_status(service, status(service)["task_id"])


def test_whatever_a_tenant_writes_into_status_json(service: Service) -> None:
    submit(service)
    for content in (b"\xff", b"[]", b'{"ignored": 3}', b"{", b'{"links": {"experiment": "javascript:x"}}'):
        service.bucket.write("lab/rows/status.json", content)
        service.bucket.write("lab/rows/task.yaml", spec(more=f"description: at {len(content)}\n"))
        assert run_intake(service).accepted == ["lab/rows"]
        assert status(service)["links"] == {}


def test_tenants_words_are_no_markup(service: Service) -> None:
    submit(service, rows="a,b,<script>\n1,2,[x](http://evil)\n" * 2)
    run_intake(service)
    text = service.bucket.read("lab/rows/status.md").decode()
    assert "<script>" not in text
    assert "[x](http" not in text
