"""PyTorch layers whose rows are at the parameter servers. They need the extra `torch`."""

from foundation.optional import torch_here

torch_here()

from hotline.torch.embedding import EmbeddingBag  # noqa: E402

__all__ = ["EmbeddingBag"]
