"""PyTorch layers whose rows are at the parameter servers. They need the extra `torch`."""

from foundation.optional import import_torch

import_torch()

from hotline_scripts.torch.embedding import EmbeddingBag  # noqa: E402

__all__ = ["EmbeddingBag"]
