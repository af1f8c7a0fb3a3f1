"""A robust merge by its name, with options as text: "trimmed_mean:share=0.1" (fedloom.gate.options)."""

from collections.abc import Callable
from dataclasses import replace

from fedloom.gate import Refused, options
from fedloom.mixing.merges import ByRows, CloudByRows, CloudLinear, Linear, MergeCloud, MergeEdge
from fedloom.mixing.robust.bulyan import bulyan
from fedloom.mixing.robust.centred_clipping import centred_clipping
from fedloom.mixing.robust.coordinate_median import coordinate_median
from fedloom.mixing.robust.geometric_median import geometric_median
from fedloom.mixing.robust.krum import krum, multi_krum
from fedloom.mixing.robust.norm_clipping import norm_clipping
from fedloom.mixing.robust.reputation import reputation
from fedloom.mixing.robust.trimmed_mean import trimmed_mean
from fedloom.mixing.robust.votes import Remembering, Rule, at_cloud, at_edge

RULES: dict[str, Callable[..., Rule | Remembering]] = {
    "coordinate_median": coordinate_median,
    "trimmed_mean": trimmed_mean,
    "geometric_median": geometric_median,
    "krum": krum,
    "multi_krum": multi_krum,
    "bulyan": bulyan,
    "norm_clipping": norm_clipping,
    "centred_clipping": centred_clipping,
    "reputation": reputation,
}


def edge_by_name(text: str, merge: MergeEdge) -> ByRows:
    """The named rule at aggregators, in the place of the mean of a linear merge, whose weights and server step stay."""
    if not isinstance(merge, Linear):
        raise Refused(_not_linear(text, "aggregators"))
    return replace(at_edge(_rule(text), merge.weigh), then=merge.then)


def cloud_by_name(text: str, merge: MergeCloud) -> CloudByRows:
    """The same at the cloud."""
    if not isinstance(merge, CloudLinear):
        raise Refused(_not_linear(text, "the cloud"))
    return replace(at_cloud(_rule(text), merge.weigh), then=merge.then)


def _rule(text: str) -> Rule | Remembering:
    return options.make(text, RULES, "merge")


def _not_linear(text: str, where: str) -> str:
    return f"merge {text} takes the place of a mean, and at {where} there is none: models are merged by a rule already"
