"""The child process of a submission: `python -m hotline_course.child REQUESTS ANSWERS`.

Its first message says what to serve. A process outside of the PID namespace only waits for the one inside,
which gives up its rights, imports, sets its limits, and answers requests until the checker closes.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from hotline_course.channel import ChannelError, Message, receive, send
from hotline_course.isolation import become_nobody, enter_namespaces, restrict_files, set_limits

Answer = Callable[[Message], Message]
"""Answers a request; an exception becomes an answer with an `error`."""
SERVERS = {"p4": "hotline_course.serve_p4", "python": "hotline_course.serve_python"}
_DEEP_ERRORS = (Exception, SystemExit, KeyboardInterrupt)
_MAX_ERROR_CHARACTERS = 4000


def main(requests: int, answers: int) -> None:
    order = receive(requests)
    reason = enter_namespaces()
    if pid := os.fork():
        send(answers, {"pid": pid})
        os.close(answers)
        os.close(requests)
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    if not reason:
        reason = restrict_files(order["folder"], order["hidden"], order["limits"][3])
    answer = _prepare(order)
    send(answers, {"ready": True, "not_isolated": reason})
    while True:
        try:
            request = receive(requests)
        except ChannelError:
            os._exit(0)
        _answer(answers, answer, request)


def _prepare(order: Message) -> Answer:
    """Write the submission's files, give up all rights, import the server, and set the limits."""
    folder = Path(order["folder"])
    os.chdir(folder)
    os.environ.update(XDG_CACHE_HOME=str(folder / ".cache"), TMPDIR=str(folder), HOME=str(folder))
    become_nobody()
    for name, text in order["files"].items():
        (folder / name).write_bytes(bytes.fromhex(text))
    server = importlib.import_module(SERVERS[order["kind"]])
    cpu_s, _, memory_mb, file_kb, open_files = order["limits"]
    set_limits(cpu_s, memory_mb, file_kb, open_files)
    make: Callable[[Path], Answer] = server.make_answer
    return make(folder / order["main"])


def _answer(answers: int, answer: Answer, request: Message) -> None:
    try:
        reply = answer(request)
    except _DEEP_ERRORS as error:  # whatever a submission's code raises is an answer
        reply = {"error": describe(error)}
    try:
        send(answers, reply)
    except ChannelError as error:
        send(answers, {"error": str(error)})


def describe(error: BaseException) -> str:
    """Return an error's message, with its type unless the error was made for users."""
    kind = type(error)
    text = str(error)
    is_for_users = kind.__module__.startswith(("softswitch.", "hotline_course."))
    return (text if is_for_users else f"{kind.__name__}: {text}")[:_MAX_ERROR_CHARACTERS]


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
