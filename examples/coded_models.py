"""Send less of every model: accuracy of HHFL against traffic, for several codings of what goes up and down."""

import sys

from matplotlib.figure import Figure

import fedloom as fl

scenario = fl.scenario("cells-overlap", ["training.cloud_rounds=5", "task.data_limit=4000"])
codings = {
    "as they are": {},
    "float16 both ways": {"up": "float16", "down": "float16"},
    "4 bits up, 8 down": {"up": "qsgd:bits=4", "down": "qsgd:bits=8"},
    "largest 5 % up, 8 bits down": {"up": "topk:share=0.05", "down": "qsgd:bits=8"},
    "the same without feedback": {"up": "topk:share=0.05", "down": "qsgd:bits=8", "feedback": False},
}
axes = Figure(figsize=(6, 3.5), layout="constrained").subplots()
for name, ways in codings.items():
    result = fl.simulate(scenario, fl.make_method("hhfl").with_(**ways), seed=1)
    sent, accuracy = result.metrics["bytes"][1:] / 1e6, result.metrics["accuracy"][1:]
    axes.plot(sent, accuracy, "o-", label=name)
    print(f"{name:28} {sent[-1]:6.0f} MB, {accuracy[-1]:.1%}")
axes.set(xscale="log", xlabel="MB sent in all", ylabel="accuracy")
axes.set_xticks([30, 100, 300], [30, 100, 300], minor=False)
axes.tick_params(axis="x", which="minor", labelbottom=False)
axes.legend(fontsize="small")
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "coded_models.png", dpi=110)
