from __future__ import annotations

import pytest

from easeml_core.allocator.policy import make_policy
from easeml_core.allocator.testing import PolicyContract, all_policies
from easeml_core.allocator.types import Policy
from easeml_core.errors import OperatorError


@pytest.mark.parametrize("name", all_policies(), scope="class")
class TestEveryPolicy(PolicyContract):
    @pytest.fixture(autouse=True)
    def _named(self, name):
        self.name = name

    def policy(self) -> Policy:
        return make_policy(self.name)


def test_there_are_all_policies_of_the_paper():
    for name in ("fcfs", "random", "round_robin", "greedy", "hybrid"):
        assert make_policy(name).name == name
        assert isinstance(make_policy(name), Policy)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "best",
        "hybrid+best",
        "+",
        "hybrid+gp_ucb+cheapest",
        "hybrid+gp_ucb*x",
        "greedy+gp_ei*2",
        "fcfs+gp_ucb*0",
    ],
)
def test_an_unknown_policy_says_which_there_are(name):
    with pytest.raises(OperatorError, match=r"round_robin.*gp_ucb_oblivious"):
        make_policy(name)
