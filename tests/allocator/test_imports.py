from __future__ import annotations

import subprocess
import sys

HEAVY = ("scipy", "sklearn", "pandas", "pyarrow", "torch", "mlflow", "airflow", "sqlalchemy", "numpy.random")


def test_deciding_imports_nothing_but_numpy():
    """Every decision is made in a fresh process, so each import is paid for each time."""
    code = f"""
import sys
from easeml_core.allocator import choose_with_ladder, cost, priors, types
cost.CostModel.fit([cost.CostObservation("a", "cpu", 1e9, 2.0)]).predict("a", "cpu", 1e9)
prior = priors.build("x", ["a", "b"], [priors.TaskHistory("past", {{"a": 0.5}})], {{"a": (0.0,)}})
task = types.OpenTask("t/1", "t", "x", (types.Arm("a", 1.0), types.Arm("b", 2.0)))
decision = choose_with_ladder("hybrid", types.AllocationRequest("cpu0", (task,), {{"x": prior}}, seed=0))
assert not decision.fallbacks, decision
print(*(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
