"""Exceptions of the controller: everything a user may be told derives from `ControllerError`."""

from __future__ import annotations

from foundation.errors import HotlineError


class ControllerError(HotlineError):
    """Base of all errors that the controller reports; its text is one clear line."""


class HotSetError(ControllerError):
    """A hot-set file that is not one, or that does not fit into the switch."""


class DeviceError(ControllerError):
    """The switch cannot be reached, or refused what it was asked."""


class PipelineError(DeviceError):
    """The switch runs no pipeline or one that is not ours."""


class NotPrimary(DeviceError):
    """Another controller has become primary, so that this one may no longer write."""


class UnknownJob(ControllerError):
    """A job that the switch has no entry for, or that lacks its parameter servers."""


class UnknownKey(ControllerError):
    """A key of a job that the switch has no entry for."""


class NoAnswer(ControllerError):
    """A parameter server or the switch did not answer in the data plane."""


class MoveRefused(ControllerError):
    """A parameter server answered a SEED or COLLECT with an error status."""


class OffloadIsOff(ControllerError):
    """A job whose hot set the switch does not serve."""
