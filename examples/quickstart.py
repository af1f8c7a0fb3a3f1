"""Three methods on three overlapping cells: what accuracy costs in seconds, joules and bytes."""

import fedloom as fl

scenario = fl.scenario("cells-overlap", ["training.cloud_rounds=5"])
for name in ("fedavg", "hierfedavg", "hhfl"):
    last = fl.simulate(scenario, method=name, seed=1).metrics.row(-1, named=True)
    cost = f"{last['time_s']:.1f} s, {last['energy_j']:.0f} J, {last['bytes'] / 1e6:.0f} MB"
    print(f"{name:14} accuracy {last['accuracy']:.1%} after {cost}")

# Any part can be exchanged: here HHFL waits only until a deadline, and slow clients get less work.
method = fl.make_method("hhfl").with_(edge=fl.Rounds(pace=fl.pacing.median_iqr(alpha=0.5)))
last = fl.simulate(scenario, method, seed=1).metrics.row(-1, named=True)
print(f"my own mixture accuracy {last['accuracy']:.1%} after {last['time_s']:.1f} s, {last['late']} late updates")
