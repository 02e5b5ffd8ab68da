"""`task.yaml`: what is accepted, and what each nasty file is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core import catalog
from easeml_core.errors import TenantError
from easeml_core.spec import load_spec

PROGRAM = "program: |\n  {input: {[Tensor[28, 28, 1]], []}, output: {[Tensor[10]], []}}\n"
VECTOR = "program: '{input: {[Tensor[13]], []}, output: {[Tensor[1]], []}}'\n"

FULL = (
    PROGRAM
    + """description: handwritten digits of the archive
objective: accuracy          # a comment
priority: 2
budget: {trials: 40, device_hours: 2}
deadline: 2026-12-24T18:00:00Z
stop_when: {accuracy: 0.98}
candidates: {include: ["*"], exclude: [VGG-16], accept_new: false}
validation: {fraction: 0.25, seed: 7}
"""
)


def problems_of(content: str | bytes) -> list[tuple[int | None, str | None, str]]:
    with pytest.raises(TenantError) as caught:
        load_spec(content)
    found = caught.value.problems
    assert all(problem.file == "task.yaml" for problem in found)
    return [(p.line, p.field, f"{p.message} → {p.fix}") for p in found]


def test_a_full_spec() -> None:
    spec = load_spec(FULL)
    assert str(spec.program) == "{input: {[Tensor[28, 28, 1]], []}, output: {[Tensor[10]], []}}"
    assert spec.template == "image-classification"
    assert spec.match.bindings == {"A": 28, "B": 28, "C": 1, "D": 10}
    assert (spec.input_shape, spec.outputs) == ((28, 28, 1), 10)
    assert spec.description == "handwritten digits of the archive"
    assert (spec.priority, spec.budget_trials, spec.budget_seconds) == (2.0, 40, 7200.0)
    assert spec.deadline == datetime(2026, 12, 24, 18, tzinfo=UTC)
    assert (spec.objective, spec.stop_when) == ("accuracy", 0.98)
    assert (spec.include, spec.exclude, spec.accept_new) == (("*",), ("VGG-16",), False)
    assert (spec.validation_fraction, spec.validation_seed) == (0.25, 7)


def test_only_the_program_is_required() -> None:
    spec = load_spec(PROGRAM)
    assert spec.objective == "accuracy"
    assert (spec.budget_trials, spec.budget_seconds, spec.deadline, spec.stop_when) == (None,) * 4
    assert (spec.priority, spec.include, spec.exclude, spec.accept_new) == (1.0, ("*",), (), True)
    assert (spec.validation_fraction, spec.validation_seed) == (0.2, 0)


@pytest.mark.parametrize(
    ("text", "template", "objective"),
    [
        (VECTOR, "vector-regression", "mse"),
        (VECTOR + "objective: r2\n", "vector-regression", "r2"),
        (VECTOR.replace("[1]", "[3]"), "vector-classification", "accuracy"),
        (VECTOR.replace("[1]", "[3]") + "objective: mae\n", "vector-regression", "mae"),
        (
            VECTOR.replace("[1]", "[3]").replace("], []}, o", "], [next]}, o"),
            "series-classification",
            "accuracy",
        ),
    ],
)
def test_the_template_gives_the_default_objective(text: str, template: str, objective: str) -> None:
    spec = load_spec(text)
    assert (spec.template, spec.objective) == (template, objective)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("description: NO", "description", "NO"),
        ("description: on", "description", "on"),
        ("priority: 1e-3", "priority", 0.001),
        ("budget: {trials: 1e3}", "budget_trials", 1000),
        ("budget: {trials: 0o17}", "budget_trials", 15),
        ("budget: {device_hours: 1e-1}", "budget_seconds", 360.0),
        ("validation: {fraction: 5e-1}", "validation_fraction", 0.5),
        ("deadline: 2026-12-24 18:00:00 +01:00", "deadline", datetime(2026, 12, 24, 17, tzinfo=UTC)),
        ("deadline: 2026-12-24T18:00", "deadline", datetime(2026, 12, 24, 18, tzinfo=UTC)),
        ("deadline: '2026-12-24T18:00:00-05:00'", "deadline", datetime(2026, 12, 24, 23, tzinfo=UTC)),
        ("candidates: {include: [alexnet, 'nin+f0.2']}", "include", ("alexnet", "nin+f0.2")),
        ("candidates: {accept_new: false}", "accept_new", False),
        ("stop_when: {accuracy: 1}", "stop_when", 1.0),
        ("description: &d text of\n  two lines", "description", "text of two lines"),
    ],
)
def test_yaml_1_2_values(line: str, name: str, value: object) -> None:
    assert getattr(load_spec(f"{PROGRAM}{line}\n"), name) == value


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    assert load_spec(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode()) == load_spec(FULL)


@pytest.mark.parametrize(
    ("extra", "line", "field", "words"),
    [
        ("descripton: x", 3, "descripton", "there is no such field → did you mean `description`?"),
        ("budget: {trial: 3}", 3, "budget.trial", "did you mean `trials`?"),
        ("gpu: 3", 3, "gpu", "allowed here: program, description"),
        ("<<: {priority: 2}", 3, "<<", "no such field"),
        ("description: 12", 3, "description", 'got 12 → to mean text, put it in quotes: "12"'),
        ("description: true", 3, "description", "got true → to mean text, put it in quotes"),
        ("description:", 3, "description", "got nothing"),
        ("objective: acuracy", 3, "objective", "got the text 'acuracy' → did you mean `accuracy`?"),
        ("objective: psnr", 3, "objective", "psnr does not suit image or tensor classification"),
        ("objective: r2", 3, "objective", "log_loss → r2 is for series-regression, series-translation, vec"),
        ("priority: 0", 3, "priority", "must be a number above 0, at most 1000; got 0"),
        ("priority: .nan", 3, "priority", "got nan"),
        ("priority: high", 3, "priority", "got the text 'high'"),
        ("budget: 1e3", 3, "budget", "must be a mapping with trials, device_hours or both; got 1000.0"),
        ("budget: {trials: 0}", 3, "budget.trials", "from 1 to 1000000; got 0"),
        ("budget: {trials: 2.5}", 3, "budget.trials", "got 2.5"),
        ("budget: {trials: true}", 3, "budget.trials", "got true"),
        ('budget: {trials: "40"}', 3, "budget.trials", "got the text '40' → take the quotes away"),
        ("budget: {trials: " + "9" * 5000 + "}", 3, "budget.trials", "is no number that can be used"),
        ("budget: {trials: 0x" + "f" * 5000 + "}", 3, "budget.trials", "is no number that can be used"),
        ("priority: 1e999", 3, "priority", "is no number that can be used"),
        ("priority: !!int", 3, "priority", "is no number that can be used"),
        ("priority: !!int high", 3, "priority", "is no number that can be used"),
        ("deadline: 0001-01-01T00:00:00+23:00", 3, "deadline", "must be a date and time"),
        ("budget: {device_hours: .inf}", 3, "budget.device_hours", "got inf"),
        ("budget:\n  trials: 3\n  device_hours: -1", 5, "budget.device_hours", "got -1"),
        ("deadline: tomorrow", 3, "deadline", "a date and time such as"),
        ("deadline: 2026-12-24", 3, "deadline", "got the text '2026-12-24'"),
        ("deadline: 2026-13-24T00:00:00Z", 3, "deadline", "must be a date and time"),
        ("deadline: 20261224", 3, "deadline", "got 20261224"),
        ("stop_when: 0.9", 3, "stop_when", "such as {accuracy: 0.98}; got 0.9"),
        ("stop_when: {f1_macro: 0.9}", 3, "stop_when.f1_macro", "the objective, accuracy; got f1_macro"),
        ("stop_when: {accuracy: 98}", 3, "stop_when.accuracy", "must be from 0 to 1; got 98"),
        ("stop_when: {accuracy: .inf}", 3, "stop_when.accuracy", "finite number"),
        ("stop_when: {accuracy: 0.9, log_loss: 1}", 3, "stop_when", "must name one score; got 2"),
        ("stop_when: {}", 3, "stop_when", "must name one score; got 0"),
        ("candidates: {include: ResNet-18}", 3, "candidates.include", "must be a list"),
        ("candidates: {include: []}", 3, "candidates.include", "got an empty list"),
        ("candidates: {include: [1]}", 3, "candidates.include.0", "got 1"),
        ("candidates: {include: [ResNet18]}", 3, "candidates.include.0", "did you mean `ResNet-18`?"),
        ("candidates:\n  exclude:\n    - NIN\n    - SVM", 6, "candidates.exclude.1", "means no candidate"),
        ("candidates: {exclude: ['*']}", 3, "candidates", "leaves no candidate"),
        ("candidates: {include: ['*+f0.2']}", 3, "candidates", "without a normaliser"),
        ("candidates: {accept_new: NO}", 3, "candidates.accept_new", "got the text 'NO'"),
        ("validation: {fraction: 1}", 3, "validation.fraction", "between 0 and 1, both excluded; got 1"),
        ("validation: {seed: -1}", 3, "validation.seed", "got -1"),
        ("x: !!python/object:os.system ls", 3, "x", "the tag !!python/object:os.system is not allowed"),
        ("description: !mine x", 3, "description", "the tag !mine is not allowed"),
        ("? [a, b]\n: 1", 3, None, "a field's name must be text"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(extra: str, line: int, field: str | None, words: str) -> None:
    found = problems_of(f"{PROGRAM}{extra}\n")
    assert (line, field) in [(at, name) for at, name, _ in found]
    assert any(words in message for _, name, message in found if name == field)


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("", None, "is empty"),
        ("# nothing\n", None, "is empty"),
        ("just text", 1, "must hold fields such as `program:`"),
        ("- a\n- b\n", 1, "must hold fields such as `program:`"),
        ("description: x\n---\nprogram: y\n", 2, "a second document begins here"),
        ("description: x\nbudget:\n\ttrials: 1\n", 3, "a tab stands here, and YAML is indented with spaces"),
        ("%YAML 1.1\n---\ndescription: NO\n", 1, "`%YAML 1.1` is not allowed"),
        ("description: a: b\n", 1, "a second `: ` stands in one line"),
        ("description: *x\n", 1, "`*` refers to a name that no `&` defines"),
        ("description: 'open\n", 2, "a quote is opened and never closed"),
        ("description: @x\n", 1, "no value can begin with this character"),
        ("program: {input: {[Tensor[2]], []}, output: 3}", 1, "write `program: |`"),
        ("description: a\x07b\n", 1, "the control character U+0007 is not allowed"),
        ("description: a\x00b\n", 1, "the control character U+0000 is not allowed"),
        (b"description: ok\nprogram: caf\xe9\n", 2, "byte 0xe9 ('é' if the file is Latin-1"),
        ("program: x".encode("utf-16"), None, "is UTF-16; it must be UTF-8"),
        ("[" * 5000, 1, "nested more than 20 deep"),
        ("a: &x [*x]\n", 1, "more than 20 levels"),
        ("description: " + "x" * 70_000, None, "70,013 bytes; at most 65,536 are allowed"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_why(content: str | bytes, line: int | None, words: str) -> None:
    ((at, _, message),) = problems_of(content)
    assert at == line
    assert words in message


def test_an_alias_bomb_is_refused_before_it_goes_off() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    ((_, _, message),) = problems_of("\n".join(rows))
    assert "more than 10000 values, aliases written out" in message


def test_a_key_given_twice_names_both_lines_at_any_depth() -> None:
    found = problems_of(PROGRAM + "budget:\n  trials: 3\n  trials: 4\npriority: 1\npriority: 2\n")
    assert [(line, field) for line, field, _ in found] == [(5, "budget.trials"), (7, "priority")]
    assert "in lines 4 and 5" in found[0][2]
    assert "in lines 6 and 7" in found[1][2]


def test_a_key_given_twice_in_one_line_is_named_by_columns() -> None:
    ((line, field, text),) = problems_of(f"{PROGRAM}budget: {{trials: 3, trials: 4}}\n")
    assert (line, field) == (3, "budget.trials")
    assert "is given twice, in line 3, at columns 10 and 21" in text


def test_a_wrong_objective_hides_nothing_else() -> None:
    found = problems_of(
        f"{PROGRAM}objective: acuracy\nstop_when: {{accuracy: 98}}\ncandidates: {{exclude: [XGBoost]}}\n"
    )
    assert [(line, field) for line, field, _ in found] == [
        (3, "objective"),
        (4, "stop_when.accuracy"),
        (5, "candidates.exclude.0"),
    ]
    assert "did you mean `accuracy`?" in found[0][2]


def test_every_problem_comes_at_once_in_order() -> None:
    found = problems_of(
        "description: 3\n"
        "program: |\n"
        "  {input: {[Tensor[8, 8, 0]], []},\n"
        "   output: {[Tensor[10]], []}}\n"
        "objective: mse\n"
        "budget: {trials: -1, gpus: 2}\n"
        "stop_when: {accuracy: 0.9}\n"
        "validaton: {seed: 1}\n"
        "budget: {}\n"
    )
    assert [(line, field) for line, field, _ in found] == [
        (1, "description"),
        (3, "program"),
        (6, "budget.trials"),
        (6, "budget.gpus"),
        (7, "stop_when.accuracy"),
        (8, "validaton"),
        (9, "budget"),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("program: |\n\n  {input: {[Tensor[3]], []},\n   output: {[Tensor[0]], []}}\n", 4),
        ("# c\nprogram: '{input: {[Tensor[0]], []}, output: {[Tensor[3]], []}}'\n", 2),
        ("program: >\n  {input: {[Tensor[3]], []},\n  output: {[Tensor[0]], []}}\n", 1),
        ("\nprogram:\n  |\n  {input: {[Tensor[0]], []}, output: {[Tensor[3]], []}}\n", 4),
    ],
)
def test_a_wrong_program_is_located_in_the_file(text: str, line: int) -> None:
    ((at, field, message),) = problems_of(text)
    assert (at, field) == (line, "program")
    assert "found '0', where a dimension" in message


def test_a_row_that_cannot_be_trained_gives_one_message_that_says_which_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A package may bring a row and no candidate for it."""
    models_for = catalog.models_for
    monkeypatch.setattr(catalog, "models_for", lambda row: () if "general" in row else models_for(row))
    text = PROGRAM.replace("28, 28, 1", "28, 28")
    ((line, field, message),) = problems_of(text + "objective: mse\nstop_when: {mse: 1}\n")
    assert (line, field) == (1, "program")
    assert "asks for general classification" in message
    for row in (
        "image-classification",
        "series-classification",
        "vector-classification",
        "vector-regression",
    ):
        assert row in message
    assert "the input has 2 dimensions in tensor 1 (Tensor[28, 28]), this row wants 3" in message


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("{input: {[Tensor[4], Tensor[9999, 99999]], [next]}, output: {[Tensor[2]], []}}", "is too large"),
        ("{input: {[Tensor[8, 8, 1]], []}, output: {[Tensor[1]], []}}", "write output Tensor[2]"),
        ("{input: {[Tensor[99999, 99999, 3]], []}, output: {[Tensor[2]], []}}", "is too large"),
        ("{input: {[Tensor[8]], []}, output: {[Tensor[999999999]], []}}", "outputs are too many"),
        (
            "{input: {[Tensor[8, 8, 1]], []}, output: {[Tensor[9999, 9999, 3]], []}}",
            "an output of Tensor[9999",
        ),
        (
            "{input: {[Tensor[999, 999]], []}, output: {[Tensor[2]], []}}",
            "at most 262144 numbers are allowed",
        ),
        ("{input: {[], [next]}, output: {[Tensor[2]], []}}", "has no tensor in its input"),
        ("{input: {[Tensor[2, 2]], []}, output: {[], []}}", "has no tensor in its output"),
    ],
)
def test_programs_that_match_and_still_cannot_work(program: str, words: str) -> None:
    ((_, field, message),) = problems_of(f"program: '{program}'\n")
    assert field == "program"
    assert words in message


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(max_size=200)
    | st.lists(
        st.sampled_from([*FULL.splitlines(), "a: &x [*x]", "\t", "- 1", "b: {", "---"]), max_size=14
    ).map("\n".join)
)
def test_any_bytes_give_a_spec_or_a_tenant_error(content: bytes | str) -> None:
    error = None
    try:
        spec = load_spec(content)
    except TenantError as caught:
        error = caught
    assert error is None or all(problem.message for problem in error.problems)
    assert error is not None or spec.digest


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        (r'description: "a\0b"', "description", "the character U+0000 is not allowed"),
        (r'description: "a\x1bb"', "description", "the character U+001B is not allowed"),
        (r'description: "\ud800"', "description", "the character U+D800 is not allowed"),
        (r'"a\0b": 1', None, "a field's name holds the character U+0000"),
        (r'candidates: {include: ["*", "\0"]}', "candidates.include.1", "U+0000 is not allowed"),
        (r'stop_when: {"\0": 1}', "stop_when", "a field's name holds the character U+0000"),
        ("description: !a%00b x", "description", "the tag !a\\x00b is not allowed"),
    ],
)
def test_escapes_cannot_bring_in_what_the_ledger_does_not_keep(
    text: str, field: str | None, words: str
) -> None:
    found = problems_of(PROGRAM + text + "\n")
    assert words in next(said for _, name, said in found if name == field)
    for _, name, said in found:
        assert not any(c in f"{name} {said}" for c in "\x00\x1b\ud800")
    tidy = load_spec(PROGRAM + 'description: "a\\tb\\nc"\n')
    assert tidy.description == "a\tb\nc"


@pytest.mark.parametrize(
    "line", ["validation: {seed: 1e999}", "priority: !!int high", "priority: 2026-01-01", "priority: a-b"]
)
def test_what_is_no_number_is_said_once(line: str) -> None:
    with pytest.raises(TenantError) as caught:
        load_spec(f"{PROGRAM}{line}\n")
    [problem] = caught.value.problems
    assert problem.line == 3
    assert problem.fix is None
