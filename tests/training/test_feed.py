"""How batches reach the network, whichever way they go, and what they are computed in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from easeml_core.data import open_version
from easeml_core.naming import CandidateName
from training.device import seed_torch
from training.examples import Examples
from training.feed import AHEAD, Feed
from training.models import build_network
from training.speed import Speed

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", ["image", "vector", "series"])
def test_every_way_gives_the_same_batches(versions: Callable[..., Path], kind: str) -> None:
    examples = Examples(open_version(versions(kind)))
    plan = np.array_split(np.random.default_rng(0).permutation(examples.version.train), 7)
    wanted = [(examples.inputs(part), examples.targets(part)) for part in plan]
    feed, gathering = Feed(examples, CPU), Feed(examples, CPU, resident=False)
    for ways in (feed.batches(plan), gathering.batches(plan), gathering.gather_ahead(plan)):
        for (x, y), (inputs, targets) in zip(ways, wanted, strict=True):
            assert x.dtype == torch.float32
            np.testing.assert_array_equal(x.numpy(), inputs)
            np.testing.assert_array_equal(y.numpy(), targets)


def test_gathering_ahead_stops_with_the_training_and_passes_errors_on(
    versions: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = Examples(open_version(versions("vector")))
    plan = np.array_split(examples.version.train, 20)
    asked: list[int] = []
    inputs = Examples.inputs

    def counting(self: Examples, indices: np.ndarray) -> np.ndarray:
        asked.append(len(asked))
        if len(asked) == 12:
            raise MemoryError("gathering")
        return inputs(self, indices)

    monkeypatch.setattr(Examples, "inputs", counting)
    feed = Feed(examples, CPU, resident=False)
    batches = feed.gather_ahead(plan)
    next(batches)
    batches.close()
    assert len(asked) <= AHEAD + 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("feed")]
    with pytest.raises(MemoryError, match="gathering"):
        list(feed.gather_ahead(plan))


def test_half_precision_is_used_where_it_is_asked_for(versions: Callable[..., Path]) -> None:
    examples = Examples(open_version(versions("image")))
    network = build_network(CandidateName("SmallCNN"), examples, {})
    seen: list[torch.dtype] = []
    network.body.register_forward_hook(lambda module, args, answer: seen.append(answer.dtype))
    x = torch.from_numpy(examples.inputs(examples.version.train[:4]))
    for precision, dtype in (("auto", torch.float32), ("bfloat16", torch.bfloat16)):
        speed = Speed(CPU, precision)
        assert speed.forward(network)(x).dtype == torch.float32
        assert seen.pop() == dtype
    assert Speed(CPU, "float16").scaler.is_enabled()
    assert not Speed(CPU, "bfloat16").scaler.is_enabled()


def test_a_compiled_network_answers_as_it_does_uncompiled(
    versions: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the compiler's own front end only: its C++ takes a minute."""
    compile_ = torch.compile
    asked = []

    def eagerly(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        asked.append(function)
        return compile_(function, backend="eager")

    monkeypatch.setattr(torch, "compile", eagerly)
    examples = Examples(open_version(versions("vector")))
    network = build_network(CandidateName("MLP"), examples, {}).eval()
    x = torch.from_numpy(examples.inputs(examples.version.train[:4]))
    torch.testing.assert_close(Speed(CPU, "float32", compiled=True).forward(network)(x), network.raw(x))
    assert asked == [network.raw]


def test_a_network_that_the_compiler_fails_at_is_computed_as_it_is(
    versions: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_ = torch.compile
    asked = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., torch.Tensor]:
        asked.append(graph)
        raise TypeError("cannot determine truth value of Relational")  # as on images of sizes not fixed

    monkeypatch.setattr(torch._dynamo.config, "suppress_errors", False)
    monkeypatch.setattr(torch, "compile", lambda function: compile_(function, backend=backend))
    examples = Examples(open_version(versions("vector")))
    network = build_network(CandidateName("MLP"), examples, {}).eval()
    x = torch.from_numpy(examples.inputs(examples.version.train[:4]))
    torch.testing.assert_close(Speed(CPU, "float32", compiled=True).forward(network)(x), network.raw(x))
    assert asked


def test_a_seed_makes_the_same_numbers_and_leaves_cuda_alone() -> None:
    drawn = []
    for seed in (3, 4, 3):
        seed_torch(seed, CPU)
        drawn.append(torch.rand(4).tolist())
    assert drawn[0] == drawn[2] != drawn[1]
    assert not torch.cuda.is_initialized()
