"""Trace of one push through the program of step 1."""

from pathlib import Path

from hotline import request_frame
from softswitch.testing import Switch

SERVER, PORT = "02:00:00:00:03:01", 5

with Switch(Path(__file__).with_name("count.p4"), include_folders=["p4src"]) as switch:
    switch.run(f"table_add HotlineIngress.forward.forward forward_to {SERVER} => {PORT}")
    switch.process(1, request_frame("push", keys=[7, 9, 7], values=[100, 200, -1], job=50))
    print(switch.explain())
