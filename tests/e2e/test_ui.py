"""What people see of it: Airflow's and MLflow's pages in a real browser, from signing in to a run's curves.

Screenshots go to the installation's folder, or to the folder that EASEML_SCREENSHOTS names (docs/images).
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from easeml_core.naming import MLFLOW_VIEW, TaskName, allocate_dag_id
from tests.e2e import tasks
from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

SCREENSHOTS = os.environ.get("EASEML_SCREENSHOTS")
CHROMIUM = Path("/usr/bin/chromium")
PATIENCE = 90_000.0  # milliseconds: the first page loads megabytes of scripts, on two busy cores
SHOWN = TaskName("gallery", "digits")
DAGS = ("easeml_intake", "easeml_infer", "easeml_maintain", allocate_dag_id("cpu0"), allocate_dag_id("cpu1"))


@pytest.fixture(scope="module")
def trained(installation: Installation) -> dict[str, Any]:
    """A small task that has been trained, whatever ran before."""
    settings = "candidates: {include: [SmallCNN, SqueezeNet]}\nbudget: {trials: 2}\n"
    folder = tasks.digits(installation.folder / "gallery", str(SHOWN), settings=settings)
    installation.submit(SHOWN, folder.path)
    return installation.wait_over(SHOWN, 900)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        options: dict[str, Any] = {"args": ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]}
        if CHROMIUM.exists():
            options["executable_path"] = str(CHROMIUM)
        elif not Path(playwright.chromium.executable_path).exists():
            pytest.skip("there is no browser: install chromium, or run `playwright install chromium`")
        made = playwright.chromium.launch(**options)
        yield made
        made.close()


@pytest.fixture(scope="module")
def page(browser: Browser, installation: Installation) -> Iterator[Page]:
    """A page that is signed in to Airflow with the credentials that `easeml up` printed."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    made = context.new_page()
    made.goto(installation.info.airflow_url)
    made.get_by_label("Username").fill(installation.info.airflow_user)
    made.locator("input[type=password]").fill(installation.info.airflow_password)
    made.get_by_role("button", name="Sign in").click()
    expect(made.get_by_role("link", name="Dags", exact=True).first).to_be_visible()
    yield made
    context.close()


@pytest.fixture(autouse=True)
def last_look(page: Page, tmp_path: Path) -> Iterator[None]:
    """What the browser shows when a test ends, for who has to find out why it failed."""
    yield
    page.screenshot(path=tmp_path / "last-look.png")


def screenshot(page: Page, installation: Installation, name: str) -> None:
    folder = Path(SCREENSHOTS) if SCREENSHOTS else installation.folder
    path = folder / f"{name}.png"
    picture = Image.open(io.BytesIO(page.screenshot()))
    # A page has few colours; a palette makes its picture a third as large.
    picture.convert("RGB").quantize(128).save(path, optimize=True)
    assert 10_000 < path.stat().st_size < 200_000, f"{path} has {path.stat().st_size} bytes"


def test_airflow_lists_every_kind_of_dag(
    page: Page, installation: Installation, trained: dict[str, Any]
) -> None:
    page.goto(f"{installation.info.airflow_url}/dags")
    for dag in DAGS:
        expect(page.get_by_role("link", name=dag, exact=True).first).to_be_visible()


def test_a_device_run_is_green_and_shows_the_trainers_log(
    page: Page, installation: Installation, trained: dict[str, Any]
) -> None:
    found = installation.airflow.train_run()
    assert found is not None
    dag, run = found
    page.goto(f"{installation.info.airflow_url}/dags/{dag}/runs/{run}")
    for task in ("decide", "train", "settle"):
        expect(page.get_by_role("link", name=task, exact=True).first).to_be_visible()
    page.goto(f"{installation.info.airflow_url}/dags/{dag}/runs/{run}/tasks/train")
    expect(page.get_by_text(re.compile(r"training examples, on cpu")).first).to_be_visible()
    screenshot(page, installation, "airflow")


def test_the_train_task_leads_to_its_run_in_mlflow(
    page: Page, installation: Installation, trained: dict[str, Any]
) -> None:
    found = installation.airflow.train_run()
    assert found is not None
    dag, run = found
    page.goto(f"{installation.info.airflow_url}/dags/{dag}/runs/{run}/tasks/train/details")
    link = page.get_by_role("link", name="MLflow run")
    expect(link).to_be_visible()
    with page.context.expect_page() as opened:
        link.click()
    there = opened.value
    expect(there.get_by_text(re.compile(r"· trial \d+\.\d+")).first).to_be_visible()
    expect(there.get_by_text("cost_seconds").first).to_be_visible()
    there.close()


def test_mlflow_lists_the_experiment_its_runs_and_their_curves(
    page: Page, installation: Installation, trained: dict[str, Any]
) -> None:
    page.goto(f"{installation.info.mlflow_url}/#/experiments{MLFLOW_VIEW}")
    expect(page.get_by_text(SHOWN.experiment, exact=True).first).to_be_visible()
    # The link that the tenant finds in status.md.
    page.goto(trained["links"]["experiment"])
    for trial in trained["trials"]:
        expect(page.get_by_text(f"{trial['candidate']} · trial {trial['trial_id']}.1").first).to_be_visible()
    page.goto(f"{trained['links']['experiment']}&compareRunsMode=CHART")
    expect(page.get_by_text("cost_seconds", exact=True).first).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).click()  # MLflow's assistant, beside the charts
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    screenshot(page, installation, "mlflow")
