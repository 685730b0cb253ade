"""Why the kernel's datapath cannot be had."""

from __future__ import annotations

from softswitch.errors import SwitchError


class KernelError(SwitchError):
    """What this kernel, these rights or BPF itself do not allow; the text is the reason."""
