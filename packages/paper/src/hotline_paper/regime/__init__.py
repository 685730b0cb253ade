"""The system of Pan et al.: a model of its servers, its fit to figures, and what offload does there."""
