from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from driven import toy_store  # noqa: F401

os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported: a wrong name must not be looked up


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
