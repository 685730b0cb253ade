"""The phases of a run, one module each, in the order in which `topologies.experiment` goes through them."""
