"""The measures of a run in words: what each column of its metrics is called, and what it says.

The global model is what a method is judged by, unless it is meant for something else: a personalised method keeps a model for
each cluster or cell, and is judged by how that model does on the labels its clients have.
"""

from __future__ import annotations

OWN_LABELS = {
    "local_by_global": "the global model",
    "local_by_cluster": "its cluster's model",
    "local_by_edge": "its aggregator's model",
    "local_by_personal": "its personal model",
}  # accuracy on a client's own labels: by what
EXISTING = {
    "edge_accuracy": "aggregators' models",
    "edge_accuracy_worst": "worst aggregator's model",
    "device_accuracy": "devices' models",
    "device_accuracy_worst": "worst device's model",
    "personal_accuracy": "personal models",
    "personal_accuracy_worst": "worst personal model",
}  # accuracy on the whole test set, of models that somebody holds
TABLES = {
    "On a client's own labels": OWN_LABELS,
    "On the whole test set": EXISTING,
}  # the tables of other measures beside the one that runs are judged by
SHARES = ("accuracy", "local_accuracy", "backdoor_success", *OWN_LABELS, *EXISTING)  # shown in percent

NAMES = {
    "local_accuracy": "local accuracy",
    "local_by_global": "own labels, global model",
    "local_by_cluster": "own labels, cluster model",
    "local_by_edge": "own labels, aggregator model",
    "local_by_personal": "own labels, personal model",
    "edge_accuracy": "accuracy of aggregators' models",
    "edge_accuracy_worst": "accuracy of the worst aggregator",
    "device_accuracy": "accuracy of devices' models",
    "device_accuracy_worst": "accuracy of the worst device",
    "personal_accuracy": "accuracy of personal models",
    "personal_accuracy_worst": "accuracy of the worst personal model",
    "loss": "test loss",
    "rmse": "RMSE",
    "mae": "mean absolute error",
    "position_mm": "position error (mm)",
    "angle_deg": "angle error (degrees)",
    "edge_drift": "distance between aggregators' models",
    "late": "late updates so far",
    "updates": "merged updates so far",
    "lost": "lost updates so far",
    "lost_away": "lost as the device left",
    "lost_battery": "lost as its battery was empty",
    "lost_dropout": "lost as it broke off",
    "lost_packets": "lost for lost packets",
    "lost_head": "lost with their heads",
    "retried": "jobs begun again so far",
    "packets_again": "packets sent again so far",
    "devices_down": "devices that are down",
    "battery_mean": "charge of the batteries",
    "battery_least": "charge of the emptiest battery",
    "rejected": "rejected updates so far",
    "found": "lying heads and edge servers found so far",
    "backdoor_success": "backdoor success",
    "mask_rounds": "rounds of messages for masks so far",
    "mask_dropouts": "clients that dropped out with their masks",
    "mask_closed": "masked sums that did not open",
    "mask_bytes": "bytes for masks so far",
    "mask_j": "joules for masks so far",
    "mask_server_s": "seconds of servers for masks so far",
    "train_loss": "training loss",
}

_OWN = "share of the test samples with a label that a client has itself which are told right, mean over clients"
MEANINGS = {
    "accuracy": "share of all test samples that the global model tells right",
    "local_accuracy": "accuracy of the global model on a few test samples drawn like each client's labels, mean over clients",
    "local_by_global": f"{_OWN}: by the global model",
    "local_by_cluster": f"{_OWN}: by the model of its cluster before it went into the global one, which personalised methods "
    "are made for",
    "local_by_edge": f"{_OWN}: by the model its aggregator reported last",
    "edge_accuracy": "share of all test samples that the aggregators' models tell right, mean over aggregators",
    "edge_accuracy_worst": "the same of the worst aggregator",
    "device_accuracy": "share of all test samples that the devices' last models tell right, mean over devices",
    "device_accuracy_worst": "the same of the worst device",
    "local_by_personal": f"{_OWN}: by the personal model that it keeps beside the shared one",
    "personal_accuracy": "share of all test samples that personal models tell right, mean over the clients that have one",
    "personal_accuracy_worst": "the same of the worst client",
    "lost": "updates of devices that failed at work, by whatever cause, and of clusters whose head did: they were never merged",
    "retried": "jobs of devices that went down at work, were back before nobody waited for them any more, and began again",
    "battery_mean": "share of its capacity that a battery holds, mean over devices that have one",
    "battery_least": "the same of the device that has least left",
    "loss": "loss of the global model on the test samples",
    "rmse": "root of the mean squared error of the global model on the test samples",
    "mae": "mean absolute error of the global model on the test samples",
    "backdoor_success": "share of the test samples of other classes that, with the trigger, the global model takes for its "
    "target",
    "mask_dropouts": "clients that had shared keys, and whose update was lost or late: the others had to open their masks",
    "mask_closed": "sums of which fewer clients were left than the threshold asks for; they are merged all the same, as only "
    "costs are counted",
    "rejected": "updates that were not finite, absurdly long, or reports of aggregators that lied, and were left out of every "
    "merge",
    "found": "edge servers and heads that were audited, and proved to have sent what they had not merged",
    "edge_drift": "mean squared distance of the aggregators' models from their mean when they were averaged",
}


def measure_name(column: str) -> str:
    """Words for a column of the metrics.

    >>> measure_name("local_by_cluster"), measure_name("step_mass")
    ('own labels, cluster model', 'step mass')
    """
    return NAMES.get(column, column.replace("_", " "))


def measure_meaning(column: str) -> str:
    """What a column of the metrics says, in a sentence without its full stop; "" where its name says it all."""
    return MEANINGS.get(column, "")
