"""Pan et al. Fig. 9: the delay of empty RPCs against connections; servers await requests in four ways."""
