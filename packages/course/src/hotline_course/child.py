"""The processes of a submission: an inner one with its code, and an outer one that ends the inner one.

The outer process runs only this code. It ends both as soon as the checker closes the pipe of requests, and
the inner one can neither see nor signal it where namespaces are allowed. The inner process gives up its
rights, sets its limits, and answers requests.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from hotline_course.channel import Answer, ChannelError, Message, receive, send
from hotline_course.errors import describe
from hotline_course.isolation import drop_rights, enter_namespaces, restrict_files, set_limits
from hotline_course.limits import Limits

MakeAnswer = Callable[[Path], Answer]
"""Makes the function that answers requests for the code in a file."""
_POLL_MS = 20


def run_child(requests: int, answers: int, servers: Mapping[str, MakeAnswer]) -> None:
    """Be the outer process, and start the inner one, which serves what the first message asks for."""
    order = receive(requests)
    reason = enter_namespaces()
    send(answers, {"outer": os.getpid()})
    if inner := os.fork():
        _wait_for(inner, requests, answers)
        return
    limits = Limits(**order["limits"])
    if not reason:
        reason = restrict_files(order["folder"], order["hidden"], limits.file_kb)
    make = servers[order["kind"]]
    _give_up_rights(order, limits)
    answer = make(Path(order["folder"], order["main"]))
    send(answers, {"not_isolated": reason})
    while True:
        request = receive(requests)
        _answer(answers, answer, request)


def _wait_for(inner: int, requests: int, answers: int) -> None:
    """Wait for the inner process, or end it when the checker closes; say how it has ended."""
    poll = select.poll()
    poll.register(requests, 0)  # the end of its writer alone
    while os.waitid(os.P_PID, inner, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if poll.poll(_POLL_MS):
            os.kill(inner, signal.SIGKILL)
            break
    _, status = os.waitpid(inner, 0)
    send(answers, {"ended": os.waitstatus_to_exitcode(status)})


def _give_up_rights(order: Message, limits: Limits) -> None:
    """Write the submission's files, give up all rights, and set the limits."""
    folder = Path(order["folder"])
    os.chdir(folder)
    os.environ.update(XDG_CACHE_HOME=str(folder / ".cache"), TMPDIR=str(folder), HOME=str(folder))
    drop_rights()
    for needed in (os.__file__, __file__):
        if not os.access(needed, os.R_OK):
            raise PermissionError(
                f"{needed}: expected a file that user {os.getuid()} may read, who runs submissions"
            )
    for name, text in order["files"].items():
        (folder / name).write_bytes(bytes.fromhex(text))
    set_limits(limits)


def _answer(answers: int, answer: Answer, request: Message) -> None:
    try:
        reply = answer(request)
    except BaseException as error:  # whatever a submission's code raises is an answer
        reply = {"error": describe(error)}
    try:
        send(answers, reply)
    except ChannelError as error:
        send(answers, {"error": str(error)})
