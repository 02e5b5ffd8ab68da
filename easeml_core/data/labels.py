"""From labels to targets: the class map, refinements, and the checks that a data version must pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from easeml_core.data.findings import NAMED, Findings, listed
from easeml_core.data.forms import Form
from easeml_core.data.refine import Refinement
from easeml_core.data.staging import Staged, finite
from easeml_core.data.text import number, plain
from easeml_core.naming import REFINE_FILE


def refine(
    staged: Staged, refinements: dict[str, Refinement], form: Form, findings: Findings, *, complete: bool
) -> list[bool]:
    """Apply `refine.csv` to `staged` and return which examples are kept.

    An id that is not there is a problem where all the data could be read (`complete`).
    """
    kept = [True] * len(staged)
    position = {ident: i for i, ident in enumerate(staged.ids)}
    unknown = []
    for ident, wish in refinements.items():
        i = position.get(ident)
        if i is None:
            unknown.append(f"{ident!r} (row {wish.row})")
            continue
        kept[i] = wish.keep
        if wish.label is None:
            continue
        if form.task_kind == "classification":
            staged.labels[i] = wish.label
        elif form.target_shape is not None:
            text = "there is no label to correct: what is to be answered lies in the data"
            findings.row(REFINE_FILE, wish.row, text, fix="correct it there")
        elif form.outputs > 1 or (value := number(wish.label)) is None:
            findings.row(REFINE_FILE, wish.row, "the label must be the one number to predict")
        elif not finite(value):
            text = f"the label is {wish.label[:40]}; a finite number is needed"
            findings.row(REFINE_FILE, wish.row, text)
        else:
            staged.targets[i] = (value,)
    if unknown and complete:
        text = f"names examples that are not in the data: {listed(unknown)}"
        findings.problem(REFINE_FILE, text, fix="take ids from examples.csv, or remove these rows")
    return kept


def make_classes(
    staged: Staged, kept: Sequence[bool], parent: Sequence[str] | None, form: Form, findings: Findings
) -> tuple[str, ...]:
    """The one class map: the parent's order first, new classes after it, numbers in order of size.

    More classes than outputs are a problem, fewer a warning; so is a class with one content only, unless
    there are other problems: then examples may be missing for those.
    """
    complete = not findings.wrong
    labels = [plain(label) if label else None for label in staged.labels]
    staged.labels = list(labels)
    contents: defaultdict[str, set[str]] = defaultdict(set)
    for label, content, use in zip(labels, staged.hashes, kept, strict=True):
        if label is not None:
            contents[label].update([content] if use else [])
    old = [name for name in parent or () if name in contents]
    classes = (*old, *sorted(set(contents) - set(old), key=_natural))
    if gone := [name for name in parent or () if name not in contents]:
        findings.warnings.append(
            f"classes of the data version before that have no example now: {listed(gone)}"
        )
    if len(classes) > form.outputs:
        text = f"the data has {len(classes)} classes, the program's output has {form.outputs}"
        wider = f"write Tensor[{len(classes)}] as the output"
        if parent is not None:
            wider = f"submit it under another name with Tensor[{len(classes)}] as the output"
        fix = f"{wider}, or remove classes: {listed(list(classes))}"
        findings.problem("data", text, fix=fix)
    elif len(classes) < form.outputs:
        text = f"the data has {len(classes)} of the {form.outputs} classes that the program allows"
        findings.warnings.append(text)
    if len(classes) == 1 and complete:
        text = f"all examples have the one class {classes[0]!r}"
        findings.problem("data", text, fix="add examples of another class")
    for name in classes if complete else ():
        if len(contents[name]) < 2:
            count = sum(label == name and use for label, use in zip(labels, kept, strict=True))
            has = {0: "no example", 1: "only one example"}.get(count, f"{count} times the same example")
            text = (
                f"the class {name!r} has {has} in use; at least 2 different ones are needed, one to train on "
                "and one to validate on"
            )
            findings.problem("data", text, fix=f"add examples of {name!r} or remove the class")
    _warn_of_conflicts(staged, labels, findings)
    by_letters: defaultdict[str, list[str]] = defaultdict(list)
    for name in classes:
        by_letters["".join(name.casefold().split())].append(name)
    twins = [" and ".join(map(repr, names)) for names in by_letters.values() if len(names) > 1]
    if twins:
        findings.warnings.append(f"classes that differ in capitals or blanks only: {listed(twins)}")
    return classes


def check_split(
    staged: Staged, split: Sequence[str], kept: Sequence[bool], classes: Sequence[str], findings: Findings
) -> None:
    """A class that is only in validation can never be learnt: a problem. The reverse is a warning."""
    counts = Counter(
        (label, part) for label, part, use in zip(staged.labels, split, kept, strict=True) if use
    )
    for name in classes:
        if not counts[name, "train"]:
            text = f"the class {name!r} is only in the validation split"
            findings.problem("data", text, fix="put examples of it into the training split too")
        elif not counts[name, "val"]:
            findings.warnings.append(f"the class {name!r} has no example in the validation split")


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isascii() and name.isdigit() and len(name) < 19 else (1, 0, name)


def _warn_of_conflicts(staged: Staged, labels: Sequence[str | None], findings: Findings) -> None:
    by_content: defaultdict[str, set[str | None]] = defaultdict(set)
    first: dict[str, str] = {}
    for ident, content, label in zip(staged.ids, staged.hashes, labels, strict=True):
        by_content[content].add(label)
        first.setdefault(content, ident)
    repeats = len(labels) - len(by_content)
    if repeats:
        findings.warnings.append(f"{repeats} examples repeat the content of another one")
    odd = [first[content] for content, names in by_content.items() if len(names) > 1]
    if odd:
        text = f"{len(odd)} contents come with different labels: {listed(odd[:NAMED])}"
        findings.warnings.append(text)
