from __future__ import annotations

from foundation.errors import HotlineError


class ControllerError(HotlineError):
    """Base of all errors that the controller reports; the message is one line for users."""


class HotSetError(ControllerError):
    """A file is not a hot set, or the hot set does not fit into the switch."""


class RuleError(ControllerError):
    """A rule of hot sets cannot be found or used, or has chosen wrong keys."""


class QuotaError(ControllerError):
    """The quotas of all jobs together do not fit into the switch."""


class DeviceError(ControllerError):
    """The switch cannot be reached, or refused a request."""


class SetupFailed(DeviceError):
    """The P4Runtime client could not set up a connection, for example because it refuses the P4Info."""


class PipelineError(DeviceError):
    """The switch runs no pipeline, or not the expected pipeline."""


class OtherPipeline(PipelineError):
    """The switch runs the program of another design than the expected one."""


class NotPrimary(DeviceError):
    """Another controller is primary, so this controller may not write."""


class UnknownJob(ControllerError):
    """The switch has no entry for a job, or lacks some of its parameter servers."""


class RegisterError(ControllerError):
    """The program has no such register array, or the array no such cells."""


class DigestError(ControllerError):
    """The program has no such digest."""


class UnknownKey(ControllerError):
    """The switch has no entry for a key of a job."""


class NoAnswer(ControllerError):
    """A parameter server or the switch did not answer in the data plane."""


class MoveRefused(ControllerError):
    """A parameter server answered a SEED or COLLECT with an error status."""


class OffloadIsOff(ControllerError):
    """The offload of a job is off, so the switch does not serve its hot set."""
