"""The controller's part of design `hotset`: choose hot keys, and move them between servers and switch."""
