"""A communication hook for PyTorch's DistributedDataParallel that adds up gradients by `exact`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed import GradBucket
from torch.futures import Future

from hotline_allreduce.exact.group import ExactGroup


def exact_hook(group: ExactGroup, bucket: GradBucket) -> Future[Tensor]:
    """Return a bucket's mean gradients: correctly rounded sums, divided by the number of workers.

        model = DistributedDataParallel(model)
        model.register_comm_hook(group, exact_hook)

    Gradients are float32; those of a GPU are copied to the CPU and back. The hook returns when the sums are
    there, so communication does not overlap with the backward pass.
    """
    gradients = bucket.buffer()
    if gradients.dtype != torch.float32:
        raise ValueError(f"exact_hook: expected gradients of float32, got {gradients.dtype}")
    sums = group.all_reduce(gradients.detach().cpu().numpy())
    mean: Future[Tensor] = Future()
    mean.set_result(torch.from_numpy(sums).to(gradients.device) / group.workers)
    return mean
