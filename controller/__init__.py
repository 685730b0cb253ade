"""The controller: update logs -> hot set -> the switch, over P4Runtime and in-band calls."""

from controller.controller import Controller, Register
from controller.errors import ControllerError
from controller.tables import HotParam, Job, Route, Server, State, Worker

__all__ = [
    "Controller",
    "ControllerError",
    "HotParam",
    "Job",
    "Register",
    "Route",
    "Server",
    "State",
    "Worker",
]
