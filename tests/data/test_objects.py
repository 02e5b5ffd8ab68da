"""Objects that no other row takes: read as their bytes, from lines of JSON or from files of any type."""

from __future__ import annotations

import json
import statistics
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easeml_core.data import Limits, read_inputs
from tests.data.test_archives import zipped
from tests.data.uploads import spec_of

Put = Callable[[str, "bytes | str"], Path]
FLAT = "[a :: Tensor[2], b :: Tensor[1]], []"
CHAIN = "[Tensor[1, 2]], [next]"
TERNARY = "[Tensor[1]], [x, y, z]"


def jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def content(version: Any, i: int) -> bytes:
    part = version.values[version.offsets[i] : version.offsets[i + 1]]
    assert part.dtype == np.uint8
    return bytes(part.tobytes())


def test_a_record_is_the_bytes_of_its_tensors(build: Any, put: Put) -> None:
    rows = [{"label": "uv"[i % 2], "input": {"b": i, "a": [0.5, -1e-3 * i]}} for i in range(10)]
    put("data/d.jsonl", jsonl(rows))
    version = build(spec_of(FLAT, "[Tensor[2]], []"))
    facts = version.facts
    assert (facts.kind, facts.task_kind, facts.shape, facts.dtype) == (
        "bytes",
        "classification",
        (1,),
        "uint8",
    )
    assert (facts.max_length, facts.classes) == (12, ("u", "v"))
    assert content(version, 3) == struct.pack("<3f", 0.5, -3e-3, 3)


def test_a_chain_is_its_records_in_order(build: Any, put: Put) -> None:
    rows = [{"label": "uv"[i % 2], "input": [[[i, 1]]] * (1 + i % 3)} for i in range(10)]
    rows[4]["input"] = {"value": [[4, 1]], "next": {"value": [[5, 2]]}}
    put("data/d.jsonl", jsonl(rows))
    version = build(spec_of(CHAIN, "[Tensor[2]], []"))
    assert content(version, 2) == struct.pack("<6f", *[2, 1] * 3)
    assert content(version, 4) == struct.pack("<4f", 4, 1, 5, 2)
    assert (version.facts.max_length, version.facts.mean_length) == (24, 15.2)


def test_several_links_are_told_apart(build: Any, put: Put) -> None:
    rows = [
        {"label": link, "input": {"value": i, link: {"value": 9}}}
        for i in range(6)
        for link in ("x", "y", "z")
    ]
    put("data/d.jsonl", jsonl(rows))
    version = build(spec_of(TERNARY, "[Tensor[3]], []"))
    assert content(version, 1) == struct.pack("<f3Bf3B", 0, 0, 1, 0, 9, 0, 0, 0)
    assert len(set(version.manifest["content"])) == 18


def test_recovering_itself_needs_no_output(build: Any, put: Put) -> None:
    rows = [{"id": i, "input": {"a": [i, i], "b": 1}} for i in range(20)]
    put("data/d.jsonl", jsonl(rows))
    version = build(spec_of(FLAT, "[Tensor[2], Tensor[1]], []"))
    facts = version.facts
    assert (facts.task_kind, facts.target_shape, facts.classes) == ("recovery", (1,), None)
    assert (facts.target_low, facts.target_high, facts.target_max_length) == (0.0, 255.0, 12)
    assert not (version.folder / "target_values.npy").exists()
    assert np.array_equal(version.target_values, version.values)
    assert np.array_equal(version.target_offsets, version.offsets)
    fit, held = (
        np.concatenate([version.values[12 * i : 12 * i + 12, 0] for i in part]) / 255
        for part in (version.train, version.val)
    )
    assert facts.reference["mse"] == pytest.approx(((held - fit.mean()) ** 2).mean())
    assert facts.reference["mae"] == pytest.approx(np.abs(held - np.median(fit)).mean())


def test_another_output_is_a_second_object(build: Any, put: Put) -> None:
    rows = [{"input": {"a": [i, 0], "b": 1}, "output": [i, 1] if i % 2 else [i]} for i in range(10)]
    put("data/d.jsonl", jsonl(rows))
    version = build(spec_of(FLAT, "[Tensor[1]], [next]"))
    assert version.facts.target_max_length == 8
    at = version.target_offsets
    assert version.target_values[at[3] : at[4]].tobytes() == struct.pack("<2f", 3, 1)
    assert version.target_values[at[4] : at[5]].tobytes() == struct.pack("<f", 4)


def files() -> dict[str, bytes]:
    """Real files of two types: source text, and the same packed."""
    source = Path(statistics.__file__).read_bytes()
    found = {}
    for i in range(8):
        part = source[i * 300 : i * 300 + 60 + i]
        found[f"text/{i}.py"] = part
        found[f"packed/{i}.zap"] = zipped({"part.py": part})
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_files_of_any_type_in_a_folder_per_class(build: Any, put: Put, packed: bool) -> None:
    for name, data in files().items():
        if not packed:
            put(f"data/{name}", data)
    if packed:
        put("data/all.tar.zip", zipped(files()))
    version = build(spec_of(CHAIN, "[Tensor[2]], []"))
    assert version.facts.classes == ("packed", "text")
    assert version.facts.class_counts == (8, 8)
    lead = "all.tar.zip/" if packed else ""
    for i, name in enumerate(version.ids):
        assert content(version, i) == files()[name.removeprefix(lead)]


def test_files_that_cannot_be_used_are_named(build: Any, put: Put) -> None:
    for i in range(20):
        for label in "ab":
            put(f"data/{label}/{i}.bin", f"{label}{i}")
    put("data/a/empty.bin", b"")
    put("data/a/huge.bin", b"x" * ((1 << 20) + 1))
    version = build(spec_of(CHAIN, "[Tensor[2]], []"))
    found = {item["file"]: item["reason"] for item in version.facts.quarantined}
    assert found == {
        "data/a/empty.bin": "the file is empty",
        "data/a/huge.bin": "it has 1,048,577 bytes; at most 1,048,576 are read",
    }


def test_objects_that_are_refused(refused: Any, put: Put) -> None:
    put("data/d.jsonl", jsonl([{"input": {"a": [1, 2]}, "label": "u"}, {"input": [1, 2, 3], "label": "v"}]))
    said = refused(spec_of(FLAT, "[Tensor[2]], []"))
    assert "data/d.jsonl:1: it has a record without b" in said
    assert "data/d.jsonl:2: it must be a mapping with a, b" in said


def test_requests_hold_files_or_lines(build: Any, put: Put, tmp_path: Path) -> None:
    for name, data in files().items():
        put(f"data/{name}", data)
    version = build(spec_of(CHAIN, "[Tensor[2]], []"))
    request = tmp_path / "request"
    request.mkdir()
    (request / "one.py").write_bytes(b"import this")
    inputs = read_inputs(request, facts=version.facts, limits=Limits(), staging=tmp_path / "staging")
    assert inputs.ids == ["one.py"]
    assert bytes(inputs.values[:, 0]) == b"import this"
