"""What a standby imports and tries once, so that the trainers it forks find it done."""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
import tempfile

from training.pages import release_file_pages


def rehearse() -> None:
    """Import what every trainer uses, and save a tiny model: most modules are loaded on first use, and
    MLflow looks through all installed packages with its first model (1.5 s).
    """
    import mlflow.pyfunc
    import mlflow.pytorch
    import mlflow.sklearn
    import numpy as np
    import skops.io
    import torch
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import training.jobs
    import training.predict

    torch.set_num_threads(1)
    example = np.zeros((2, 2), np.float32)
    with tempfile.TemporaryDirectory(prefix="easeml-rehearsal-") as folder:
        pipeline = make_pipeline(StandardScaler()).fit(example)
        mlflow.sklearn.save_model(
            pipeline,
            f"{folder}/model",
            serialization_format="skops",
            input_example=example,
            signature=False,
            pyfunc_predict_fn="transform",
            pip_requirements=["numpy"],
        )
    del skops, training


def rehearse_network() -> None:
    """Import what a network's trainer uses besides: torch's compiler, behind optimisers and the export.

    No backward pass: where there is a GPU, the autograd engine would start threads and touch CUDA.
    """
    import torch
    import torchvision.models
    from torch.export import Dim

    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Softmax(1)).eval()
    torch.optim.AdamW(network.parameters())
    torch.export.export(network, (torch.zeros(2, 2),), dynamic_shapes=[{0: Dim.AUTO}])
    del torchvision


def settle_memory() -> None:
    """Give back what the imports left over, and keep what forked children share from being copied."""
    linecache.clearcache()
    gc.collect()
    gc.freeze()  # the collector of a child must not touch, and so copy, what it shares with us
    ctypes.CDLL(None).malloc_trim(0)
    release_file_pages()


def thread_count() -> int:
    """Threads of this process, native ones included."""
    return len(os.listdir("/proc/self/task"))
