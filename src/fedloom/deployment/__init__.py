"""The protocol between real processes: a cloud, edges and devices, over gRPC with mutual TLS.

The cloud process conducts: it runs the same driver and the same machines as the simulator, with a clock of the wall. Everybody
else carries out small orders that may be lost, doubled or repeated without harm, because what they make is named and made the
same way every time. Models go from device to station and from station to cloud; the cloud never sees an update.
"""
