"""Dense training: is the network the bottleneck [BOTTLENECK], and what is to be sent when [ASC]?"""
