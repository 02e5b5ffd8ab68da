"""Networks that start from a file of weights: offered where it is, and built on what it holds.

No package ships torchvision's weights, so the files here are its networks' own starting weights: same names,
same shapes, same way through the code.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torchvision

from easeml_core.catalog import models_for
from easeml_core.catalog.pretrained import FILES, PRETRAINED_MODELS, weights_file
from easeml_core.errors import OperatorError
from easeml_core.naming import CandidateName
from training.models import Geometry, assemble
from training.models.pretrained import _FUNCTIONS, pretrained


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder where weights are looked for."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


def offered() -> set[str]:
    return {model.name for model in models_for("image-classification")} & set(FILES)


def save_weights(name: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    state = getattr(torchvision.models, _FUNCTIONS[name])(weights=None).state_dict()
    torch.save(state, weights_file(name))
    return dict(state)


def test_offered_are_those_whose_file_is_there(cache: Path) -> None:
    assert offered() == set()
    (cache / FILES["ResNet-50+pretrained"]).touch()
    assert offered() == {"ResNet-50+pretrained"}
    assert {model.name for model in PRETRAINED_MODELS} == set(FILES) == set(_FUNCTIONS)


@pytest.mark.parametrize(
    "name", [f"{model}+pretrained" for model in ("ResNet-18", "MobileNetV3", "ConvNeXt-Tiny")]
)
def test_a_network_starts_from_the_file(cache: Path, name: str) -> None:
    state = save_weights(name)
    network = assemble(
        CandidateName.parse(name), Geometry("image", (9, 12, 1), 4, high=255.0), "classification", 8
    )
    assert network is not None
    built = network.body[1].state_dict()  # after the enlarging
    same = [key for key, value in state.items() if torch.equal(built.get(key, torch.empty(0)), value)]
    first, *last = [key for key in state if key not in same]
    assert last == [key for key in last if key.endswith(("weight", "bias"))]
    assert len(last) == 2  # weight and bias of the new head
    three = state[first].mean(1, keepdim=True) * 3
    torch.testing.assert_close(built[first], three)  # a grey image sums to what three equal channels do
    x, y = torch.rand(2, 9, 12, 1) * 255, torch.tensor([0, 3])
    loss = network.training_loss(x, y, network.raw)
    loss.backward()
    assert torch.isfinite(loss)
    assert network.eval()(x).shape == (2, 4)


@pytest.mark.parametrize("content", [None, b"<html>not found</html>"])
def test_a_file_that_is_no_weights_is_the_operators_to_mend(cache: Path, content: bytes | None) -> None:
    if content is not None:
        weights_file("ResNet-18+pretrained").write_bytes(content)
    with pytest.raises(OperatorError, match=r"the weights of ResNet-18\+pretrained cannot be read from"):
        pretrained("ResNet-18+pretrained", 32, 32, 3, 2)


def test_weights_of_another_network_and_code_are_refused(cache: Path) -> None:
    torch.save({"fc.weight": torch.zeros(3)}, weights_file("ResNet-18+pretrained"))
    with pytest.raises(OperatorError, match="cannot be read"):
        pretrained("ResNet-18+pretrained", 32, 32, 3, 2)
    torch.save({"model": Path("/")}, weights_file("ResNet-18+pretrained"))  # a pickle that would run code
    with pytest.raises(OperatorError, match="cannot be read"):
        pretrained("ResNet-18+pretrained", 32, 32, 3, 2)
