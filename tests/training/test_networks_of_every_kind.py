"""Networks of every kind of data learn, export, and take no notice of padding: on random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.export import Dim, export

from easeml_core.naming import CandidateName
from training.models import assemble, recovery, seq2seq, series, trees
from training.models.network import Geometry, Network, tree_levels
from training.models.preprocess import FixedLength

torch.set_num_threads(1)

HIDDEN, NAN = 8, float("nan")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def made(name: str, geometry: Geometry, task_kind: str, x: Tensor, y: Tensor) -> Network:
    """A network that knows the statistics of `x` and `y`."""
    network = assemble(CandidateName.parse(name), geometry, task_kind, HIDDEN)
    assert network is not None
    network.before.fit(x)
    network.fit_targets(y)
    return network


def learns(network: Network, x: Tensor, y: Tensor) -> None:
    """One step has a finite gradient for every weight, and some steps lower the loss."""
    optimiser = torch.optim.AdamW(network.parameters(), 0.01)
    losses = []
    for _ in range(12):
        optimiser.zero_grad()
        loss = network.training_loss(x, y, network.raw)
        loss.backward()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters())
        optimiser.step()
        losses.append(float(loss))
    assert min(losses[6:]) < losses[0]


def exported(network: Network, x: Tensor, length: int | None) -> Any:
    """As it is packaged: traced with two examples; `length` of what may be longer or shorter."""
    network.eval()
    network.forget_training()
    module = network if length is None else FixedLength(network, length)
    free = {0: Dim.AUTO} if length is None else {0: Dim.AUTO, 1: Dim.AUTO}
    return export(module, (x[:2].contiguous(),), dynamic_shapes=[free]).module()


def ragged(count: int, steps: int, features: int) -> Tensor:
    """Random series, each but the first of its own length."""
    x = torch.randn(count, steps, features)
    for row in range(1, count):
        x[row, 1 + int(torch.randint(steps - 1, ())) :] = NAN
    return x


def check_padding(network: Network, program: Any, x: Tensor, short: Tensor) -> None:
    """The program answers as the network does, to any number of examples, padded or not."""
    with torch.no_grad():
        whole = network(x)
        torch.testing.assert_close(program(x), whole, equal_nan=True)
        torch.testing.assert_close(program(x[:1]), whole[:1], equal_nan=True)
        torch.testing.assert_close(program(short), whole[1:2], equal_nan=True)


@pytest.mark.parametrize(
    ("name", "task_kind"),
    [*((name, "classification") for name in (*series.BUILDERS, "ROCKET")), ("GRU", "regression")],
)
def test_series_to_classes_and_numbers(name: str, task_kind: str) -> None:
    x = ragged(6, 12, 3)
    x[1, 5:] = NAN
    x[1, :5] = torch.randn(5, 3)
    y = torch.randint(4, (6,)) if task_kind == "classification" else torch.randn(6, 4) * 5 + 100
    network = made(name, Geometry("series", (3,), 4, 12), task_kind, x, y)
    learns(network, x, y)
    check_padding(network, exported(network, x[:, :7], 12), x, x[1:2, :5])


@pytest.mark.parametrize("name", seq2seq.BUILDERS)
@pytest.mark.parametrize("length", [5, 70])
def test_series_to_series(name: str, length: int) -> None:
    x, y = ragged(6, 9, 3), ragged(6, length, 2) * 5 + 10
    x[1, 4:] = NAN
    geometry = Geometry("series", (3,), 2, 9, target_shape=(2,), target_length=length)
    network = made(name, geometry, "translation", x, y)
    learns(network, x, y)
    with torch.no_grad():
        answers = network.eval()(x)
    assert answers.shape == (6, length, 2)
    assert not torch.isnan(answers[:, 0]).any()
    ended = torch.isnan(answers).any(-1)
    assert (ended.int().diff(dim=1) >= 0).all()  # after an end there is nothing more
    if length == 5:
        check_padding(network, exported(network, x, 9), x, x[1:2, :4])


@pytest.mark.parametrize("name", seq2seq.BUILDERS)
def test_a_translator_learns_where_answers_end(name: str) -> None:
    """Answers are as long as the input says, and repeat its number."""
    lengths = torch.arange(1, 5).repeat(12)
    x = torch.stack([lengths.float(), torch.randn(48)], 1).unsqueeze(1).repeat(1, 3, 1)
    y = x[:, :1, 1:].repeat(1, 4, 1)
    y[torch.arange(4) >= lengths[:, None]] = NAN
    network = made(
        name, Geometry("series", (2,), 1, 3, target_shape=(1,), target_length=4), "translation", x, y
    )
    optimiser = torch.optim.AdamW(network.parameters(), 0.02)
    for _ in range(150):
        optimiser.zero_grad()
        network.training_loss(x, y, network.raw).backward()
        optimiser.step()
    with torch.no_grad():
        answers = network.eval()(x)
    right = torch.isnan(answers) == torch.isnan(y)
    assert right.float().mean() > 0.95
    assert (answers - y).nan_to_num(0.0).abs().mean() < 0.3


@pytest.mark.parametrize("name", recovery.BUILDERS)
@pytest.mark.parametrize(
    ("shape", "target"),
    [((9, 30, 4), (9, 30, 4)), ((8, 8, 3), (16, 18, 3)), ((16, 16, 1), (10, 12, 2))],
)
def test_images_to_images(name: str, shape: tuple[int, int, int], target: tuple[int, int, int]) -> None:
    x, y = torch.rand(4, *shape) * 255, torch.rand(4, *target) * 4 - 2
    geometry = Geometry(
        "image", shape, int(np.prod(target)), low=0.0, high=255.0,
        target_shape=target, target_low=-2.0, target_high=2.0,
    )  # fmt: skip
    network = made(name, geometry, "recovery", x, y)
    learns(network, x, y)
    program = exported(network, x, None)
    with torch.no_grad():
        answers = network(x)
        torch.testing.assert_close(program(x), answers, atol=1e-4, rtol=1e-3)
    assert answers.shape == y.shape
    assert answers.min() >= -2.0
    assert answers.max() <= 2.0
    assert not any("critic" in key for key in program.state_dict())


def random_trees(count: int, nodes: int, features: int, places: int) -> tuple[Tensor, int]:
    """`(N, M, A + R)` of random trees, and the height of the highest; the first has `nodes` nodes."""
    rng = np.random.default_rng(0)
    x = np.full((count, nodes, features + places), np.nan, np.float32)
    parts, offsets = [], [0]
    for row in range(count):
        size = nodes if row == 0 else int(rng.integers(2, nodes))
        children = np.full((size, places), -1)
        for node in range(1, size):
            free = np.argwhere(children[:node] < 0)
            children[tuple(free[rng.integers(len(free))])] = node
        x[row, :size] = np.concatenate([rng.integers(0, 2, (size, features)), children], 1)
        parts.append(children)
        offsets.append(offsets[-1] + size)
    return torch.from_numpy(x), tree_levels(np.concatenate(parts), np.array(offsets))


@pytest.mark.parametrize("name", [*trees.BUILDERS, "tree-kernel-SVM"])
def test_trees_to_classes(name: str) -> None:
    x, levels = random_trees(6, 12, 3, 2)
    y = torch.randint(4, (6,))
    network = made(name, Geometry("tree", (3,), 4, 12, children=2, levels=levels), "classification", x, y)
    learns(network, x, y)
    size = int((~torch.isnan(x[1, :, 0])).sum())
    check_padding(network, exported(network, x, 12), x, x[1:2, :size])


def test_levels_are_those_of_the_highest_tree() -> None:
    children = np.array([[1, 2], [-1, -1], [-1, 3], [-1, -1], [-1, -1]])  # four nodes, then one
    assert tree_levels(children, np.array([0, 4, 5])) == 3
    assert tree_levels(children[4:], np.array([0, 1])) == 1


@pytest.mark.parametrize("name", trees.BUILDERS)
def test_a_root_hears_of_its_deepest_leaf(name: str) -> None:
    """A chain of six nodes: what the last one says changes the answer, with six levels and not with three."""
    x = torch.zeros(2, 6, 1 + 2)
    x[:, :, 1], x[:, :, 2] = torch.tensor([1.0, 2, 3, 4, 5, -1]), -1.0
    x[1, 5, 0] = 9.0
    for levels, hears in ((6, True), (3, False)):
        body = trees.BUILDERS[name](1, 2, HIDDEN, 2, levels).eval()
        body.head = torch.nn.Identity()
        with torch.no_grad():
            roots = body(x)[:, :HIDDEN]
        assert bool((roots[0] != roots[1]).any()) is hears


@pytest.mark.parametrize("length", [20, 700])
def test_bytes_to_classes(length: int) -> None:
    x = random_bytes(6, length)
    y = torch.randint(4, (6,))
    network = made("bit-level-RNN", Geometry("bytes", (1,), 4, length), "classification", x, y)
    learns(network, x, y)
    size = int((~torch.isnan(x[1, :, 0])).sum())
    if length == 20:
        check_padding(network, exported(network, x, length), x, x[1:2, :size])


@pytest.mark.parametrize(("length", "target"), [(20, None), (700, None), (20, 9)])
def test_bytes_to_bytes(length: int, target: int | None) -> None:
    x = random_bytes(6, length)
    y = x if target is None else random_bytes(6, target)
    geometry = Geometry(
        "bytes", (1,), 1, length, target_length=target or length, recovers_itself=target is None
    )
    network = made("bit-level-auto-encoder", geometry, "recovery", x, y)
    learns(network, x, y)
    size = int((~torch.isnan(x[1, :, 0])).sum())
    check_padding(network, exported(network, x, length), x, x[1:2, :size])
    with torch.no_grad():
        answers = network(x)
    if target is None:
        assert (torch.isnan(answers) == torch.isnan(x[..., 0])).all()
    assert answers.nan_to_num(0.0).min() >= 0
    assert answers.nan_to_num(0.0).max() <= 255


def random_bytes(count: int, length: int) -> Tensor:
    x = ragged(count, length, 1)
    return torch.where(torch.isnan(x), x, torch.randint(0, 256, x.shape).float())
