"""A switch that dies under a run: it is started again, its callers are told, its hot sets loaded again."""

from __future__ import annotations

import logging

from common.concurrency import in_thread
from controller.controller import Controller
from controller.errors import ControllerError
from topologies.config import EPOCH
from topologies.errors import SwitchFailed
from topologies.phases.provision import provision
from topologies.session import Session

log = logging.getLogger(__name__)


async def keep_switch(session: Session) -> None:
    """Wait for the switch's end; where workers keep replay logs start it again, and again, else raise it."""
    switch = session.network.switch
    while True:
        try:
            await switch.until_it_dies()
        except SwitchFailed as error:
            if not session.config.recovery.replay_log:
                raise
            log.warning("%s; it is started again", error)
        switch.restarts += 1
        await in_thread(switch.start_again)
        try:
            await restore(session, switch.restarts)
        except ControllerError:
            if switch.running is not None and switch.running.ended() is None:
                raise
            # It has died again meanwhile.


async def restore(session: Session, restarts: int) -> None:
    """Set a switch up that has come back with nothing.

    Servers take home what the last one had; workers come back with other epochs, ask what has become of what
    was not answered, and push again what it had acknowledged. None of it has to wait for another.
    """
    epoch = EPOCH + restarts
    await provision(session.network.address, session.config, epoch)
    async with Controller(session.network.address, undisturbed=True) as controller:
        for arm in session.config.every_arm:
            await controller.renew(arm.job)
        epochs = {str(arm.job): epoch for arm in session.config.every_arm}
        for worker in session.workers:
            await worker.tell({"cmd": "renew", "epochs": epochs, "switch": restarts})
        for job, keys in list(session.loaded.items()):
            await controller.load(job, keys)
    log.info("the switch is there again, with %d hot sets", len(session.loaded))
