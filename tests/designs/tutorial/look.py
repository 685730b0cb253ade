"""Four workers add 1 to each of 200 parameters, 25 times. What is in the switch, and at the servers?"""
import sys
import numpy as np
from experiment.rows import rows
from foundation.designs.registry import design
from hosts.keys import KeySpace
from simulator.config import SimulationConfig
from simulator.costs import Hosts, Network
from simulator.drive import Clock, drive, pass_time
from simulator.switchboard import Switchboard
from simulator.world import Simulated

WORKERS, SERVERS, KEYS, PUSHES = 4, 2, 200, 25

class Pushes:
    def __init__(self, client):
        self.client, self.left = client, PUSHES + 1
        self.answered = np.zeros(KEYS, np.bool_)
    @property
    def finished(self):
        return self.left == 0
    def deadline(self):
        return 0 if self.client.idle else self.client.deadline()
    def wake(self, now):
        self.client.wake(now)
        if self.client.idle:
            self.left -= 1
            if self.left:
                self.client.push(1, np.arange(KEYS), np.ones(KEYS, np.uint32), self.answered)

def look(name, **faults):
    found = design(name)
    arm = found.arms[0]
    board = Switchboard(found)
    board.install(rows(SimulationConfig(design=name, workers=WORKERS, servers=SERVERS), [arm]))
    network = Simulated(found, arm, board, KeySpace(KEYS), KEYS, WORKERS, SERVERS, Network(**faults), Hosts(), 1)
    drive(network, [Pushes(c) for c in network.clients], [Clock() for _ in network.clients], Hosts(), lambda a: network.clients[a].take_records())
    pass_time(network, network.now + 10**10)
    at_servers = sum(int(s.jobs["packets"].sum()) for s in network.servers)
    held = sum(store.held().values.sum() for store in network.stores)
    print(at_servers, held, sum(network.retransmissions()))
    for reg in board.pipeline.program.registers:
        print(reg.name, board.pipeline.read_register(reg.name,0,KEYS)[:10], sum(board.pipeline.read_register(reg.name,0,KEYS)))

look(sys.argv[1], **{k: float(v) for k, v in (a.split("=") for a in sys.argv[2:])})
