"""Networks from files on this machine: real hosts on Mininet, and a switch process for each switch."""
