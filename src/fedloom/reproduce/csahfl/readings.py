"""What CSAHFL leaves open, and the ways to read it that were tried."""

from fedloom.reproduce.csahfl.setups import READ_AS
from fedloom.reproduce.paper import Reading

READINGS = (
    *(
        Reading(of="which accuracy is tabulated", tried=what, outcome="judged on this page for every method")
        for what in (
            "G: the global model on all test images",
            "L_glob: the global model on the classes of a client",
            "L_cluster: the cluster's model on the classes of a client",
            "L_edge: the model of the client's edge and cluster on its classes",
        )
    ),
    *(
        Reading(of="eq. (10), late updates", tried=what, outcome="on this page, in the item on stale updates")
        for what in (
            "changes are added (`delta`)",
            "weights are made to add up to one (`renorm`)",
            "as printed (`literal`)",
        )
    ),
    Reading(of="beta on CIFAR-10 and SVHN", tried="20 degrees", outcome="one cluster: HierFedAVG with deadlines"),
    Reading(of="beta on CIFAR-10 and SVHN", tried="4 and 2 degrees", outcome="6 and 7 clusters; kept"),
    Reading(
        of="what edges go on with after a cloud round",
        tried="the cluster's model (`after_cloud=cluster`), laptop scale, one seed",
        outcome="L_cluster and L_edge within a point of going back to the global model: not kept",
    ),
    Reading(
        of="clients of a round",
        tried="3 of 10 instead of all, laptop scale, ENIID50%, one seed",
        outcome="L_edge 12 points lower, G 2: the largest unknown",
    ),
    *(
        Reading(of="several", tried=f"{name}, paper scale", outcome="as distances in the item about readings")
        for name in READ_AS
        if name != "as kept"
    ),
)
