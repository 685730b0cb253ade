"""The control plane's access to the memory that it shares with the packet function (`softswitch.memory`)."""
