"""Pipelines whose packet function runs in the kernel; the control plane is that of `CompiledPipeline`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

import numpy as np

from softswitch import ir
from softswitch.kernel import bpf, control, front
from softswitch.kernel.arena import CONSTANTS, Arena
from softswitch.kernel.assembler import insert_map_descriptors
from softswitch.kernel.generation import Generation
from softswitch.kernel.hooks import Hook
from softswitch.kernel.notices import NoticeRing
from softswitch.kernel.program import Code
from softswitch.kernel.target import ARENA_MAP, BUFFER_MAP, RING_MAP
from softswitch.memory.layout import Layout, make_layout
from softswitch.pipeline import Notice
from softswitch.state.pipeline import StatePipeline

Build = Callable[[ir.Program, Layout, int], Code]  # the integer is the number of priority queues


class KernelPipeline(StatePipeline):
    def __init__(
        self,
        program: ir.Program,
        build: Build,
        program_type: int,
        extra_mailbox_bytes: int = 0,
        priority_queues: int = 1,
        generation: Generation | None = None,
    ) -> None:
        with ExitStack() as resources:
            if generation is not None:
                resources.callback(_remove_unless_current, generation)
            layout = make_layout(program)
            code = build(program, layout, priority_queues)
            mailbox_bytes = control.MAILBOX_BYTES + extra_mailbox_bytes
            self.arena = resources.enter_context(
                closing(Arena(code.state_bytes, mailbox_bytes, code.cpu_area_bytes, generation))
            )
            constants = np.frombuffer(code.constants, dtype=np.uint64)
            self.arena.view(CONSTANTS, len(code.constants))[:] = constants
            self._kernel_memory = resources.enter_context(
                closing(control.ArenaMemory(self.arena, code.state_bytes))
            )
            self.notices = resources.enter_context(closing(NoticeRing(generation)))
            maps = {
                ARENA_MAP: self.arena.descriptor,
                RING_MAP: self.notices.descriptor,
                BUFFER_MAP: self.notices.buffers,
            }
            instructions = insert_map_descriptors(code.instructions, maps)
            self.descriptor = bpf.load(program_type, instructions, "softswitch")
            resources.callback(bpf.close, self.descriptor)
            super().__init__(program, layout, self._kernel_memory)
            self._resources = resources.pop_all()

    def close(self) -> None:
        """Close memory and programs; an attached program continues to process packets."""
        self._resources.close()


def _remove_unless_current(generation: Generation) -> None:
    if not generation.is_current:
        generation.remove()


class AttachedPipeline(KernelPipeline):
    """A program that processes the frames of interfaces (`ports`).

    Without `reads_clock`, times are read from `arena.CLOCK`, for tests. With a `generation`, the program
    outlives this process. If the generation is restored, replay all earlier requests first, which changes
    nothing in the kernel, and then call `finish_replay`.
    """

    def __init__(
        self,
        program: ir.Program,
        priority_queues: int = 1,
        hook: Hook = Hook.TCX,
        reads_clock: bool = True,
        generation: Generation | None = None,
    ) -> None:
        self.generation = generation
        build = partial(front.build_front, frame=hook.frame_type, reads_clock=reads_clock)
        super().__init__(
            program,
            build,
            hook.frame_type.program_type,
            priority_queues=priority_queues,
            generation=generation,
        )

    def finish_replay(self) -> None:
        self._kernel_memory.finish_replay()

    def take_notices(self) -> list[Notice]:
        return [self.decode_notice(record) for record in self.notices.take()]
