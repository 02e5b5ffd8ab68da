from __future__ import annotations

from typing import Any

import pytest

from easeml_core.errors import OperatorError
from easeml_core.settings import Settings
from easeml_core.stack.layout import Layout
from easeml_core.stack.plan import make_plan


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"policy": "hybird"}, "no policy is called 'hybird'; there are .*round_robin.*gp_ucb_oblivious"),
        ({"policy": "hybrid+best"}, "no policy is called"),
        ({"devices": ("cpu0", "gpu99")}, "device gpu99 is not there"),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(layout: Layout, wrong: dict[str, Any], said: str):
    with pytest.raises(OperatorError, match=said):
        make_plan(Settings(home=layout.home, **wrong), layout, running=False)
    assert not layout.secrets.exists(), "nothing is prepared for a stack that is refused"
