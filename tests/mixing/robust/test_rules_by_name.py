"""Robust merges by name: the rule itself, with the weights of the method; what is wrong is said in one line."""

import inspect

import numpy as np
import pytest

import fedloom as fl
from fedloom.mixing import robust
from fedloom.mixing.robust.by_name import RULES
from fedloom.mixing.server import Adam
from small import for_method


def row(method):
    made, _ = for_method("hhfl", cloud_rounds=2)
    return fl.simulate(fl.scenario(made), method, seed=3).row


def test_a_rule_by_name_is_the_rule_with_the_weights_of_the_method():
    hhfl = fl.make_method("hhfl")
    wanted = hhfl.with_(
        merge_edge=robust.at_edge(robust.trimmed_mean(0.4), hhfl.merge_edge.weigh),
        merge_cloud=robust.at_cloud(robust.norm_clipping(0.05), hhfl.merge_cloud.weigh),
    )
    text = "merge_edge=trimmed_mean:merge_edge.share=0.4:merge_cloud=norm_clipping:merge_cloud.norm=0.05"
    by_text = fl.make_method(f"hhfl:{text}")
    by_part = hhfl.with_(merge_edge="trimmed_mean:share=0.4", merge_cloud="norm_clipping:norm=0.05")
    for found in (by_text, by_part):
        np.testing.assert_array_equal(row(found), row(wanted))
    assert not np.array_equal(row(wanted), row(hhfl))
    assert not np.array_equal(row(wanted), row(fl.make_method("hhfl:merge_edge=trimmed_mean:merge_edge.share=0.4")))


def test_a_server_step_stays():
    adam = Adam(lr=0.1)
    method = fl.make_method("hierfedavg").with_(merge_edge=fl.Linear(then=adam), merge_cloud=fl.CloudLinear(then=adam))
    changed = method.with_(merge_edge="krum", merge_cloud="coordinate_median")
    assert changed.merge_edge.then is adam and changed.merge_cloud.then is adam


def test_steps_are_evened_out_before_the_rule_looks_at_models():
    by_hand = fl.make_method("hhfl").with_(merge_edge="coordinate_median").with_(by_steps=True)
    made, _ = for_method("hhfl", cloud_rounds=1)
    made["task"]["partition"] = {"kind": "dirichlet", "concentration": 0.5}
    made["training"] = {
        "batch_size": 8,
        "local_epochs": 1,
        "edge_rounds": 1,
        "cloud_rounds": 1,
        "lr": 0.1,
    }  # steps by samples
    rows = [
        fl.simulate(fl.scenario(made), method, seed=3).row
        for method in (by_hand, "hhfl:by_steps=true:merge_edge=coordinate_median", "hhfl:merge_edge=coordinate_median")
    ]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])


def test_every_rule_is_known_by_its_name():
    made_by = {
        name for name in robust.__all__ if inspect.isfunction(getattr(robust, name)) and not name.startswith("at_")
    } - {"trust"}  # which goes with trusted samples, a part of its own
    assert set(RULES) == made_by and all(RULES[name] is getattr(robust, name) for name in RULES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hhfl:merge_edge=trimed_mean", "method hhfl: unknown merge 'trimed_mean'; did you mean trimmed_mean?"),
        ("hhfl:merge_edge.share=0.1", "belongs to a merge that is not named; write merge_edge=trimmed_mean before"),
        ("hhfl:merge_cloud=krum:merge_cloud.f=x", "option f of merge krum must be a whole number, got 'x'"),
        ("hhfl:merge_edge=krum:merge_edge=krum", "option 'merge_edge=krum' is given twice"),
        ("hhfl:merge_edge=norm_clipping", "merge norm_clipping needs option norm; write norm_clipping:norm=..."),
        ("hhfl:merge_edge=norm_clipping:merge_edge.n=1", "merge norm_clipping is not known; options with defaults: norm=..."),
        ("hhfl:merge_edge=trimmed_mean:merge_edge.share=0.7", "share is cut at either end and must be from 0 to below 0.5"),
        ("macfl_r:merge_edge=krum", "at aggregators there is none: models are merged by a rule already"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_merge_is_said_in_one_line(text, message):
    with pytest.raises(ValueError) as caught:
        fl.make_method(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_rule_at_the_cloud_does_not_take_the_place_of_another():
    method = fl.make_method("hhfl").with_(merge_cloud="krum")
    with pytest.raises(ValueError, match="merge bulyan takes the place of a mean, and at the cloud there is none"):
        method.with_(merge_cloud="bulyan")
