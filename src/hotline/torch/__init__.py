"""For PyTorch's models: layers whose rows are at the servers. Needs the extra `torch`."""

from foundation.optional import torch_here

torch_here()

from hotline.torch.embedding import EmbeddingBag  # noqa: E402

__all__ = ["EmbeddingBag"]
