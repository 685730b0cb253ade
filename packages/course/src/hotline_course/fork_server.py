"""A process that has imported all that children need, and forks them.

The checker starts it by `python -m hotline_course.fork_server DESCRIPTOR`.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Mapping

from hotline_course import serve_p4, serve_python
from hotline_course.channel import ChannelError, send
from hotline_course.child import MakeAnswer, run_child
from hotline_course.errors import describe

SERVERS: Mapping[str, MakeAnswer] = {"p4": serve_p4.make_answer, "python": serve_python.make_answer}


def main(control: socket.socket) -> None:
    """Fork a child for each pair of pipes that the checker sends, until the checker closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no child is waited for here
    gc.freeze()
    while True:
        word, (*pipes,), *_ = socket.recv_fds(control, 1, 2)
        if not word:
            return
        if os.fork() == 0:
            control.close()
            _be_child(*pipes)
        for pipe in pipes:
            os.close(pipe)


def _be_child(requests: int, answers: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A submission's output is not shown, and the server's standard error is a pipe that no process reads.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)
    try:
        run_child(requests, answers, SERVERS)
    except ChannelError:
        pass  # the checker has closed
    except BaseException as error:
        send(answers, {"cannot": describe(error)})
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
