"""What kind of data lies in a tree of files, its shape and its labels.

Labels are read as intake reads them, so that they are counted as it will count them.
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from easeml_core.errors import Problem, TenantError
from easeml_core.language import DataType, Program, Tensor
from easeml_core.naming import DATA_DIR
from easeml_core.service.sight import Sight, is_quantity

if TYPE_CHECKING:
    from easeml_core.data.array_files import ArrayFiles
    from easeml_core.data.findings import Findings
    from easeml_core.data.forms import Example, Form, Kind
    from easeml_core.data.header import Header
    from easeml_core.data.tree import SourceFile, Tree

LARGEST_SIDE = 224  # larger images are proposed at this size: what the networks were made for
LOOKED_AT = 300  # images whose headers are read


def look_at(tree: Tree, findings: Findings) -> Sight:
    """See what `tree` holds; problems go to `findings`. Raises `TenantError` where it cannot tell."""
    from easeml_core.data.findings import listed
    from easeml_core.data.images import ENDS as IMAGE_ENDS
    from easeml_core.data.sources import (
        ARRAY_ENDS,
        EVERY_FORM,
        LINES_ENDS,
        PARQUET_ENDS,
        SERIES_ENDS,
        TABLE_ENDS,
        find_samples,
    )
    from easeml_core.service.record_sight import look_at_lines, look_at_samples

    samples = find_samples(tree.files)
    taken = {file.name for file in samples}
    kinds = {
        "images": [file for file in tree.files if file.suffix in IMAGE_ENDS],
        "arrays": [file for file in tree.files if file.suffix in ARRAY_ENDS and file.name not in taken],
        "ts": [file for file in tree.files if file.suffix in SERIES_ENDS],
        "tables": [file for file in tree.files if file.suffix in TABLE_ENDS and file.name not in taken],
        "parquet": [file for file in tree.files if file.suffix in PARQUET_ENDS],
        "lines": [file for file in tree.files if file.suffix in LINES_ENDS],
        "samples": list(samples),
    }
    if kinds["images"]:
        return _images(tree, kinds["images"], kinds["tables"], findings)
    found = {kind: files for kind, files in kinds.items() if files}
    if not found and (sight := _objects(tree)) is not None:
        return sight
    if len(found) != 1:
        names = [files[0].name for files in found.values()] or [file.name for file in tree.files]
        text = f"cannot tell what the data is; found {listed(names) if names else 'no file at all'}"
        raise TenantError([Problem(DATA_DIR, text, fix=f"put in one kind: {EVERY_FORM}")])
    look = {
        "arrays": _arrays,
        "ts": _series,
        "tables": _tables,
        "parquet": _parquet,
        "lines": look_at_lines,
        "samples": look_at_samples,
    }
    ((kind, files),) = found.items()
    return look[kind](files, findings)


def _objects(tree: Tree) -> Sight | None:
    """Files of any type, where a folder says the class of each; None where that is not so."""
    from easeml_core.data.classes import place_by_folder
    from easeml_core.data.findings import Findings
    from easeml_core.spec.rules import MAX_OBJECT_VALUES

    doubts = Findings()
    labels = [label for label, _ in place_by_folder(tree, tree.files, doubts).values() if label is not None]
    if doubts.problems or len(labels) < len(tree.files) or len(set(labels)) < 2:
        return None
    longest = max(file.path.stat().st_size for file in tree.files)
    size = min(max(1, longest), MAX_OBJECT_VALUES // 8)
    program = Program(DataType((Tensor((size, 8)),)), DataType((Tensor((len(set(labels)),)),)))
    hint = "each file is an example of its own bytes, 8 bits each, however many they are"
    return Sight(f"{len(labels)} files", (), labels, hints=(hint,), program=program)


def _images(tree: Tree, images: list[SourceFile], tables: list[SourceFile], findings: Findings) -> Sight:
    from easeml_core.data.classes import place_by_folder
    from easeml_core.data.label_tables import place_by_tables
    from easeml_core.data.pairs import side_of

    if {side_of(file) for file in images} == {"inputs", "targets"}:
        return _pairs(images, findings)
    places, named = place_by_tables(tables, images, findings)
    if not named:
        places = place_by_folder(tree, images, findings)
    labels = [label for label, _ in places.values() if label is not None]
    step = -(-len(images) // LOOKED_AT)
    sizes, has_colour = _image_headers(images[::step])
    ((height, width), count), hints = sizes.most_common(1)[0], []
    if count < sizes.total():
        hints.append("the images differ in size; all are resized to that of the program")
    largest = max(height, width)
    if largest > LARGEST_SIDE:
        height, width = (max(1, round(side * LARGEST_SIDE / largest)) for side in (height, width))
        hints.append(
            f"the images are larger than {LARGEST_SIDE} pixels; they are shrunk to the program's size"
        )
    what = f"{len(images)} {'colour' if has_colour else 'grey'} images"
    return Sight(what, (height, width, 3 if has_colour else 1), labels, hints=tuple(hints))


def _pairs(images: list[SourceFile], findings: Findings) -> Sight:
    from easeml_core.data.pairs import pair

    pairs = pair(images, findings)
    findings.check()
    tensors = []
    for side in ([given for given, _ in pairs], [wanted for _, wanted in pairs]):
        sizes, has_colour = _image_headers(side[:LOOKED_AT])
        ((height, width), _) = sizes.most_common(1)[0]
        tensors.append(Tensor((height, width, 3 if has_colour else 1)))
    program = Program(DataType((tensors[0],)), DataType((tensors[1],)))
    return Sight(f"{len(pairs)} pairs of images", tensors[0].dims, (), program=program)


def _image_headers(images: list[SourceFile]) -> tuple[Counter[tuple[int, int]], bool]:
    from PIL import Image

    from easeml_core.data.deep import FORMATS

    sizes: Counter[tuple[int, int]] = Counter()
    has_colour = False
    for file in images:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                image = Image.open(file.path, formats=FORMATS)
            with image:
                sizes[image.height, image.width] += 1
                has_colour |= image.mode not in ("1", "L", "LA", "I", "F") and not image.mode.startswith("I;")
        except Exception:  # Pillow raises many classes on broken input
            continue  # intake will name it; one broken image should not keep anyone from starting
    if not sizes:
        text = f"none of the images looked at can be opened, {images[0].name} for one"
        raise TenantError([Problem(f"{DATA_DIR}/{images[0].name}", text)])
    return sizes, has_colour


def _arrays(files: list[SourceFile], findings: Findings) -> Sight:
    import numpy as np

    # The reader's own lists, so that the proposal is about the arrays that intake will take.
    from easeml_core.data.array_files import Allowance, together
    from easeml_core.data.arrays import INPUT_NAMES, TARGET_NAMES
    from easeml_core.data.limits import Limits
    from easeml_core.service.record_sight import answers_program

    groups = together(files)
    with tempfile.TemporaryDirectory(prefix="easeml-init-") as scratch:
        arrays = groups[0].load(Allowance.of(Limits()), Path(scratch), findings)
        findings.check()
        assert arrays is not None  # else `findings` holds why
        by_name = {name.lower(): name for name in arrays}
        x_name, y_name = _pick(by_name, INPUT_NAMES), _pick(by_name, TARGET_NAMES)
        if x_name is None or y_name is None:
            wanted = ", ".join(INPUT_NAMES if x_name is None else TARGET_NAMES)
            text = f"needs an array named one of {wanted}; found {', '.join(arrays) or 'none'}"
            fix = "numpy.savez_compressed(path, x=inputs, y=labels)"
            raise TenantError([Problem(f"{DATA_DIR}/{files[0].name}", text, fix=fix)])
        shape, is_float, targets = (
            arrays[x_name].shape,
            arrays[x_name].dtype.kind == "f",
            np.array(arrays[y_name]),
        )
    if not 2 <= len(shape) <= 4 or not all(shape):
        text = f"inputs of shape {shape} are neither images, nor series, nor vectors"
        raise TenantError([Problem(f"{DATA_DIR}/{files[0].name}", text)])
    what = f"{shape[0]} examples of shape {shape[1:]}"
    is_series = "lengths" in by_name or (len(shape) == 3 and is_float)
    if targets.ndim > 2 or "target_offsets" in by_name:
        in_a_row = "input_offsets" in by_name or "offsets" in by_name
        what = f"series of {shape[1:]} numbers per step" if in_a_row else what
        return Sight(what, (), (), program=answers_program(shape, targets.shape, is_series or in_a_row))
    values = _values(targets)
    hint = f"if these are grey images, the input is {{[Tensor[{', '.join(map(str, shape[1:]))}, 1]], []}}"
    hints = (hint,) if is_series and len(shape) == 3 else ()
    one = (shape[2:] or (1,)) if is_series else (*shape[1:], 1) if len(shape) == 3 else shape[1:]
    if len(one) == 3 and one[0] in (1, 3, 4) and one[2] not in (1, 3, 4):
        one = (one[1], one[2], one[0])  # channels come first; the reader moves them
    labels = () if values is not None else _array_labels(groups, one, is_series, findings)
    return Sight(what, one, labels, values, is_series, hints)


def _array_labels(
    groups: Sequence[ArrayFiles], shape: tuple[int, ...], is_series: bool, findings: Findings
) -> list[str]:
    from easeml_core.data.array_files import Allowance
    from easeml_core.data.arrays import read_arrays
    from easeml_core.data.limits import Limits
    from easeml_core.data.units import Units

    form = _form("series" if is_series else "image" if len(shape) == 3 else "vector", shape)
    labels: list[str] = []
    for files in groups:
        with tempfile.TemporaryDirectory(prefix="easeml-init-") as scratch:
            allowance, units = Allowance.of(Limits()), Units("float32")
            read = read_arrays(files, form, units, allowance, Path(scratch), findings, labelled=True)
            labels += [example.label for example in read if example.label is not None]
    return labels


def _form(kind: Kind, shape: tuple[int, ...]) -> Form:
    """What the readers need to find the labels; how many classes there are is not known yet."""
    from easeml_core.data.forms import Form

    return Form(kind, "classification", shape, 1)


def _pick(by_name: dict[str, str], names: Sequence[str]) -> str | None:
    """The first array with one of `names`, by itself or as the training part."""
    wanted = [name + end for end in ("", "_train") for name in names]
    return next((by_name[name] for name in wanted if name in by_name), None)


def _values(targets: Any) -> int | None:
    """How many numbers are to be predicted; None for classes."""
    if targets.ndim == 2 and targets.shape[1] > 1:
        one_hot = ((targets == 0) | (targets == 1)).all() and (targets.sum(axis=1) == 1).all()
        return None if one_hot else int(targets.shape[1])
    return 1 if is_quantity([str(value) for value in targets.ravel().tolist()]) else None


def _series(files: list[SourceFile], findings: Findings) -> Sight:
    from easeml_core.data.series import read_ts

    dimensions = _dimensions(files[0])
    form = _form("series", (dimensions,))
    read = [example for file in files for example in read_ts(file, form, findings, labelled=True)]
    labels = [example.label for example in read if example.label is not None]
    _need(labels, "holds no series with a class after @data", files[0], findings)
    return Sight(f"{len(labels)} series of {dimensions} values per step", (dimensions,), labels, None, True)


def _dimensions(file: SourceFile) -> int:
    from easeml_core.data.text import open_text

    with open_text(file.path, f"{DATA_DIR}/{file.name}") as stream:
        in_data = False
        for line in filter(None, map(str.strip, stream)):
            if in_data and not line.startswith("#"):
                return max(1, line.count(":"))
            in_data |= line.lower() == "@data"
    return 1


def _tables(files: list[SourceFile], findings: Findings) -> Sight:
    from easeml_core.data.header import read_header
    from easeml_core.data.tables import read_csv
    from easeml_core.data.text import open_text

    with open_text(files[0].path, f"{DATA_DIR}/{files[0].name}") as stream:
        header = read_header(stream, files[0], None, findings, labelled=True)
    findings.check()
    assert header is not None  # else `findings` holds why
    form = _form("vector", (len(header.features),))
    read = [example for file in files for example in read_csv(file, form, findings, labelled=True)]
    return _rows(read, header, files[0], findings)


def _rows(read: list[Example], header: Header, file: SourceFile, findings: Findings) -> Sight:
    from easeml_core.data.header import DELIMIT, odd_delimiter

    features, named = len(header.features), header.names[header.labels[0]]
    if not features:
        odd = odd_delimiter(header)
        text = f"has only one column, {named!r}; a label and at least one other are needed"
        findings.problem(
            f"{DATA_DIR}/{file.name}", f"{text}; {odd}" if odd else text, fix=DELIMIT if odd else None
        )
    labels = [example.label for example in read if example.label is not None]
    _need(labels, "holds no rows with a label", file, findings)
    values = 1 if is_quantity(labels) else None
    hint = f"the column {named} is what is predicted"
    return Sight(f"{len(labels)} rows of {features} columns", (features,), labels, values, hints=(hint,))


def _parquet(files: list[SourceFile], findings: Findings) -> Sight:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from easeml_core.data.header import name_columns
    from easeml_core.data.limits import Limits
    from easeml_core.data.parquet import columns_of, read_parquet

    where = f"{DATA_DIR}/{files[0].name}"
    try:
        names = [field.name for field in columns_of(pq.read_schema(files[0].path))]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TenantError([Problem(where, f"cannot be read: {error}")]) from None
    header = name_columns(names, "", True, 0, where, None, findings, labelled=True)
    findings.check()
    assert header is not None  # else `findings` holds why
    form, rows = _form("vector", (len(header.features),)), Limits().max_rows
    read = [example for file in files for example in read_parquet(file, form, rows, findings, labelled=True)]
    return _rows(read, header, files[0], findings)


def _need(labels: list[str], text: str, file: SourceFile, findings: Findings) -> None:
    """Raise `TenantError` where there are no labels, with all that was found out why."""
    findings.check()
    if not labels:
        findings.check_share(0, 0)
        findings.check()
        raise TenantError([Problem(f"{DATA_DIR}/{file.name}", text)])
