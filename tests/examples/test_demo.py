from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from easeml_core import catalog
from examples import catalogue
from examples.demo import closing
from examples.loop import Shown
from examples.scoring import HeldBackScore


def test_the_closing_table_breaks_no_name_in_a_narrow_terminal() -> None:
    names = [str(example.name) for example in catalogue.DEMONSTRATED]
    rows = {
        "image-classification",
        "series-classification",
        "vector-classification",
        "vector-regression",
    }
    # Variants, which have a plus in their names, may take two lines.
    plain = [name for name, facts in catalog.MODELS.items() if facts.templates & rows and "+" not in name]
    models = sorted(plain, key=len)[-len(names) :]
    shown: list[Any] = [
        Shown(
            catalogue.DEMONSTRATED[0],
            SimpleNamespace(name=name, folder=Path()),  # type: ignore[arg-type]
            news=True,
            status={"champion": {"candidate": model, "quality": 0.98765}},
            held_back=HeldBackScore("accuracy", 0.97531, 0.12345, 1797, 0),
        )
        for name, model in zip(names, models, strict=True)
    ]
    answer = dict.fromkeys(("airflow_url", "airflow_user", "airflow_password", "mlflow_url"), "x")
    screen = Console(width=80, file=io.StringIO())
    screen.print(closing(shown, {**answer, "seconds": 61.0}))
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    for name, model in zip(names, models, strict=True):
        (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
        assert f"{model} " in line
        assert "accuracy 0.9753" in line
