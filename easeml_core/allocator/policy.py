"""A policy put together from the two seams, which tenant and which model, and the registry of names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from easeml_core.allocator.board import Board, TaskView, Views
from easeml_core.allocator.calibration import normal_intervals
from easeml_core.allocator.default import NAME, Easeml
from easeml_core.allocator.ei import GpEi
from easeml_core.allocator.hybrid import Hybrid
from easeml_core.allocator.mmgpei import MmGpEi
from easeml_core.allocator.models import Cheapest, GpUcb, ModelRule, favourite, ranked, scored
from easeml_core.allocator.orders import MOST_CITED, MOST_RECENT, FixedOrder
from easeml_core.allocator.tenants import Fcfs, Greedy, Random, RoundRobin, TenantRule
from easeml_core.allocator.types import AllocationRequest, Decision, Nothing, OpenTask, Policy, Scored
from easeml_core.errors import OperatorError

RUNNERS_UP = 5

# Of the upper bounds that GREEDY goes by: those of the model rule, or the paper's where it has none.
TENANT_RULES: Mapping[str, Callable[[GpUcb], TenantRule]] = {
    "fcfs": lambda bounds: Fcfs(),
    "random": lambda bounds: Random(),
    "round_robin": lambda bounds: RoundRobin(),
    "greedy": lambda bounds: Greedy(bounds=bounds),
    "hybrid": lambda bounds: Hybrid(greedy=Greedy(bounds=bounds)),
}
MODEL_RULES: Mapping[str, Callable[[], ModelRule]] = {
    "gp_ucb": GpUcb,
    "gp_ucb_oblivious": lambda: GpUcb(cost_aware=False),
    "gp_ei": GpEi,
    "ei_per_second": lambda: GpEi(per_second=True),
    "most_cited": lambda: FixedOrder("most_cited", MOST_CITED),
    "most_recent": lambda: FixedOrder("most_recent", MOST_RECENT),
    "cheapest": Cheapest,
}
DEFAULT_MODEL_RULE = "gp_ucb"
# Those that pick tenant and model in one.
JOINT: Mapping[str, Callable[[], Policy]] = {NAME: Easeml, "default": Easeml, "mm_gp_ei": MmGpEi}


@dataclass(frozen=True)
class Paired:
    """First which tenant, then which of its models. Pure, as every `Policy`."""

    tenants: TenantRule
    models: ModelRule
    _views: Views = field(default_factory=Views, compare=False, repr=False)

    @property
    def name(self) -> str:
        """`hybrid`, or `hybrid+cheapest` with a model rule that is not the default."""
        rule = self.models.name
        return self.tenants.name if rule == DEFAULT_MODEL_RULE else f"{self.tenants.name}+{rule}"

    def choose(self, request: AllocationRequest) -> Decision | Nothing:
        """Decide; raises `FallbackError` where a posterior cannot be computed."""
        board = Board.of(request, self._views)
        if not board.servable:
            return Nothing(why_nothing(request.tasks))
        pick = self.tenants.pick(board)
        scores = self.models.scores(pick.view, board)
        arm = favourite(pick.view, scores)
        memory = dict(request.memory)
        if pick.memory is not None:
            memory[self.tenants.name] = dict(pick.memory)
        belief = self.models.belief(pick.view)
        choice = scored(pick.view, arm, float(scores[arm]), belief)
        return Decision(
            policy=self.name,
            choice=choice,
            reason=f"{pick.why}; {self.models.why(pick.view, arm, float(scores[arm]))}.",
            runners_up=self._runners_up(board, pick.view, pick.others),
            memory=memory,
            intervals=normal_intervals(choice.expected_quality, choice.deviation),
            basis=pick.view.basis(arm, belief),
        )

    def _runners_up(self, board: Board, served: TaskView, others: Sequence[TaskView]) -> tuple[Scored, ...]:
        """The next arm of the same task, the favourites of the next tasks, then what else there is."""
        own = self._best(served, board)[1:]
        rest = [self._best(view, board) for view in others[:RUNNERS_UP]]
        firsts, more = [best[0] for best in rest], [scored for best in rest for scored in best[1:]]
        return (*own[:1], *firsts, *own[1:], *more)[:RUNNERS_UP]

    def _best(self, view: TaskView, board: Board) -> list[Scored]:
        scores = self.models.scores(view, board)
        belief = self.models.belief(view)
        first = ranked(view, scores)[: RUNNERS_UP + 1]
        return [scored(view, arm, float(scores[arm]), belief) for arm in first]


def make_policy(name: str) -> Policy:
    """The policy called `name`: one that decides both, a tenant rule, or `<tenant rule>+<model rule>`.

    `default` is the one that decides best. A number after `*` scales the beta of GP-UCB: `hybrid+gp_ucb*0.1`.
    Raises `OperatorError` naming what there is.
    """
    if name in JOINT:
        return JOINT[name]()
    tenant_rule, _, model_rule = name.partition("+")
    try:
        models = _model_rule(model_rule or DEFAULT_MODEL_RULE)
        bounds = models if isinstance(models, GpUcb) else GpUcb()
        return Paired(TENANT_RULES[tenant_rule](bounds), models)
    except (KeyError, ValueError):
        raise OperatorError(
            f"no policy is called {name!r}; there are {', '.join(JOINT)}, and {', '.join(TENANT_RULES)}, "
            f"each of these also with a model rule after a +: {', '.join(MODEL_RULES)}; the bounds of gp_ucb "
            "may be scaled: gp_ucb*0.1"
        ) from None


def _model_rule(name: str) -> ModelRule:
    kind, times, number = name.partition("*")
    rule = MODEL_RULES[kind]()
    if not times:
        return rule
    scale = float(number)
    if not (isinstance(rule, GpUcb) and 0 < scale < math.inf):
        raise ValueError(f"{kind} cannot be scaled by {number}")
    return replace(rule, scale=scale)


def why_nothing(tasks: Sequence[OpenTask]) -> str:
    """Why none of `tasks`, none of which has an eligible arm, can use a device; counts each cause."""
    if not tasks:
        return "no task is open"
    causes: dict[str, int] = {}
    for task in tasks:
        cause = _cause(task)
        causes[cause] = causes.get(cause, 0) + 1
    parts = [f"{number} × {cause}" if len(tasks) > 1 else cause for cause, number in causes.items()]
    return f"nothing to start among {len(tasks)} open task(s): {'; '.join(parts)}"


def _cause(task: OpenTask) -> str:
    if not task.arms:
        return "no candidates"
    if task.remaining_trials is not None and task.remaining_trials < 1:
        return "budget of trials used up or reserved by running ones"
    ended, running = {trial.arm for trial in task.completed}, {trial.arm for trial in task.active}
    left = [arm for arm in task.arms if arm.name not in ended | running]
    if not left:
        return "every other candidate tried, the last ones running" if running else "every candidate tried"
    cheapest = min(arm.predicted_cost for arm in left)
    if task.remaining_seconds is not None and cheapest > task.remaining_seconds:
        return (
            f"cheapest candidate left needs {cheapest:.0f} s, the budget has {task.remaining_seconds:.0f} s"
        )
    return f"cheapest candidate left needs {cheapest:.0f} s, the deadline is in {task.deadline_in or 0:.0f} s"
