"""Merges that a few sick or hostile models cannot carry off, at aggregators and at the cloud.

    method.with_(merge_edge=robust.at_edge(robust.trimmed_mean(share=0.1)),
                 merge_cloud=robust.at_cloud(robust.coordinate_median()))

One file for each rule: the published form as a function of arrays, and what makes a rule of it. `votes` says what a rule is
given, at either level, and how what it finds becomes the new model. Two things hold for all of them:

- A model has one vote in what decides who is left out; in the mean of what is left it counts by its weight (samples). With equal
  weights this is the published form; with nobody left out it is the mean by weights, to the bit.
- A model with a value that is not finite has no vote. If none is left, the old model stays.
"""

from fedloom.mixing.merges import Root
from fedloom.mixing.robust.bulyan import bulyan
from fedloom.mixing.robust.centred_clipping import centred_clipping
from fedloom.mixing.robust.coordinate_median import coordinate_median
from fedloom.mixing.robust.geometric_median import geometric_median
from fedloom.mixing.robust.krum import krum, multi_krum
from fedloom.mixing.robust.norm_clipping import norm_clipping
from fedloom.mixing.robust.reputation import reputation
from fedloom.mixing.robust.trimmed_mean import trimmed_mean
from fedloom.mixing.robust.trust import trust
from fedloom.mixing.robust.votes import Remembering, Rule, Votes, at_cloud, at_edge

__all__ = [
    "Remembering",
    "Root",
    "Rule",
    "Votes",
    "at_cloud",
    "at_edge",
    "bulyan",
    "centred_clipping",
    "coordinate_median",
    "geometric_median",
    "krum",
    "multi_krum",
    "norm_clipping",
    "reputation",
    "trimmed_mean",
    "trust",
]
