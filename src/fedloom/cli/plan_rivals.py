"""`fedloom plan`: the plan beside others, and what a reader should know of it."""

from collections.abc import Callable
from typing import Any

K_MEANS = "k-means"
BUDGETS = {"camu": "camu_ungated"}  # methods that get the energy of another as their budget
PUBLISHED = {"ddc": 3000, "ltc": 400, "camu": 400}  # methods whose clusters are compared, up to so many devices


def compared(
    title: str,
    fleet: Any,
    made: Any,
    work: Any,
    seed: int,
    said: list[str],
    exact: bool,
    rotate: bool,
    watch: Callable[[str], None],
) -> Any:
    """The plan beside others, with what a reader should know. said: what was assumed."""
    from fedloom._random import stream
    from fedloom.planning import make_plan, missing_columns
    from fedloom.record import plan_words
    from fedloom.record.plan_tables import Planned
    from fedloom.simulator import make_method

    table, devices, plan = fleet.table, fleet.devices, made.plan
    others = _simple_plans(devices, made, work, seed)
    simple = tuple(others)
    if made.objective is not None:
        published, left_out = _published(devices, work, seed, watch)
        others |= published
        said = said + left_out
    if made.method.name in BUDGETS:
        comparable = make_plan(devices, make_method(BUDGETS[made.method.name]), work, stream(seed, "plan"))
        others[comparable.name] = comparable
    turns = _turns(devices, plan, work, rotate)
    proof = [plan_words.proof_words(plan, int(devices.candidate.sum()))] if exact else []
    return Planned(
        title=title,
        table=table,
        devices=devices,
        work=work,
        seed=seed,
        plan=plan,
        others=others,
        missing=missing_columns(table, made.method.needs, fleet.with_gradients),
        notes=[
            *proof,
            *said,
            *_remarks(table, devices, made, others),
            *_turns_words(table, plan, turns, rotate, devices.compute_w > 0),
        ],
        simple=simple,
        warnings=(
            *fleet.without,
            *_slow_links(table.ids, devices, plan, others, 8.0 * max(work.up_bytes, work.down_bytes)),
        ),
        objective=made.objective,
        by_number=made.by_number,
        by_k_means=made.by_k_means,
        run_as=made.run_as,
        turns=turns,
    )


def _turns(devices: Any, plan: Any, work: Any, rotate: bool) -> tuple[Any, ...]:
    """Stand-ins, and turns if asked for; of a plan with heads that all run the same rounds."""
    from fedloom.planning import Prices, turns_of

    plain = plan.topology.kind == "head" and (plan.edge_rounds == work.edge_rounds).all()
    if rotate and not plain:
        raise ValueError(f"--rotate is for heads that run the same edge rounds, and {plan.name} has others")
    return tuple(turns_of(Prices(devices=devices, work=work), plan.head, rotate)) if plain else ()


def _turns_words(table: Any, plan: Any, turns: tuple[Any, ...], rotate: bool, computes: bool) -> list[str]:
    """What turns bring, and what batteries last. computes: computing takes energy."""
    from fedloom.planning import most_drain

    if table.battery_j is None and not rotate:
        return []
    said, battery = [], table.battery_j
    drain = plan.joules if battery is None else plan.joules / battery
    what = "batteries alike" if battery is None else "their batteries"
    if rotate and not drain.max() > 0:
        said.append("heads do not take turns: no battery is drained")
    elif turns and rotate:
        many = sum(len(one.leaders) > 1 for one in turns)
        said.append(
            f"heads take turns in {many} of {len(turns)} clusters: with {what} the first is empty "
            f"{drain.max() / most_drain(list(turns)):.2f} times as late"
        )
    if battery is not None and drain.max() > 0:
        first = int(drain.argmax())
        rounds = 1 / (most_drain(list(turns)) if turns else drain.max())
        said.append(
            f"the first battery is empty after {rounds:,.0f} cloud rounds of {'computing and ' if computes else ''}sending"
            + ("" if rotate else f", that of {table.ids[first]}")
        )
    return said


def _simple_plans(devices: Any, made: Any, work: Any, seed: int) -> dict[str, Any]:
    """What anybody would try first: everybody to the server, the nearest heads, k-means at its best k."""
    from fedloom._random import stream
    from fedloom.planning import heads_in_the_middle, make_plan
    from fedloom.simulator import make_method

    others, plan = {}, made.plan
    near = make_method("geographic")
    if plan.topology.kind == "head":
        others["flat"] = make_plan(devices, make_method("fedavg").with_(name="flat"), work, stream(seed, "plan"))
        if made.method.name != near.name:
            group = heads_in_the_middle(devices, plan.n_clusters)
            others[near.name] = make_plan(devices, near.with_(group=group), work, stream(seed, "plan"))
    return others | _best_of_k_means(devices, made, work)


def _best_of_k_means(devices: Any, made: Any, work: Any) -> dict[str, Any]:
    """By what is asked for; for a method the fastest, and the one of least energy if that is another."""
    from fedloom.planning import predict, topology_of
    from fedloom.simulator import make_method

    def best(name: str, key: Callable[[Any], Any]) -> Any:
        found = min(made.sweep, key=lambda g: key(g.figures))
        return predict(devices, make_method("geographic").with_(name=name), topology_of(found.head, devices), work)

    if made.objective is not None:
        return {K_MEANS: best(K_MEANS, made.objective.key)}
    fast = best(K_MEANS, lambda figures: (figures.seconds, figures.joules))
    frugal = best(f"{K_MEANS} by J", lambda figures: (figures.joules, figures.seconds))
    found = {K_MEANS: fast}
    if frugal.ledger.total_j < fast.ledger.total_j:
        found[frugal.name] = frugal
    return {name: one for name, one in found.items() if name != made.method.name}


def _published(devices: Any, work: Any, seed: int, watch: Callable[[str], None]) -> tuple[dict[str, Any], list[str]]:
    """Plans with the clusters of published methods, and the work of all others; and why some are not there."""
    from fedloom._random import stream
    from fedloom.planning import heads_by_data_and_distance, make_plan
    from fedloom.simulator import make_method

    found, said = {}, []
    for name, most in PUBLISHED.items():
        if devices.n > most:
            said.append(f"{name} is not compared: it is tried with up to {most:,} devices (--method {name})")
            continue
        watch(name)
        method = make_method(name)
        group = method.group.rule
        if name == "ddc":
            group = heads_by_data_and_distance(devices, alpha=None, n_candidates=None, exact=False)
        alike = make_method("geographic").with_(name=name, needs=method.needs, group=group)
        try:
            found[name] = make_plan(devices, alike, work, stream(seed, "plan"))
        except ValueError as error:
            said.append(f"{name} is not compared: {error}")
    return found, said


def _remarks(table: Any, devices: Any, made: Any, others: dict[str, Any]) -> list[str]:
    """What a reader of the plan should know of it."""
    from fedloom.record import plan_words

    plan = made.plan
    said = [_tried(devices, made)]
    if made.method.cloud.uplink is not None:
        said.append(plan_words.in_turn_words(plan))
    said += _warnings_of_heads(table, devices, plan, others.get(BUDGETS.get(made.method.name, "")))
    for one in (plan, *others.values()):
        if over := int((one.size > devices.capacity[one.topology.host]).sum()) if one.topology.kind == "head" else 0:
            said.append(
                f"{one.name}: {over} of {one.n_clusters} heads get more devices than their capacity"
                + (
                    "; all candidates together have no room for everybody"
                    if devices.capacity[devices.candidate].sum() < devices.n
                    else ", of which it takes no account"
                )
            )
    if plan.topology.notes.get("candidates") == plan.n_clusters < devices.candidate.sum():
        said.append(f"all {plan.n_clusters} devices considered became heads; --candidates lets it look at more")
    if table.label_counts is not None and not devices.labels_tell and devices.gradients is None:
        said.append("the labels are alike for all classes everywhere, or there are none, so they play no part")
    return said


def _tried(devices: Any, made: Any) -> str:
    """Which numbers of clusters k-means was tried with."""
    from fedloom.planning.simple_plans import MANY, STARTS

    tried = sorted({g.figures.clusters for g in made.sweep})
    all_k = len(tried) == tried[-1] - tried[0] + 1
    text = f"{tried[0]} to {tried[-1]}" if all_k else ", ".join(map(str, tried))
    starts = f"{STARTS} starts each" if devices.n <= MANY else "one start each"
    what = (
        "the best of them for what is asked for is" if made.objective else "the fastest and the one of least energy are"
    )
    return (
        f"k-means was tried with k = {text} clusters, {starts}; {what} compared. No plan has more clusters than half of the "
        "devices unless capacities need them: devices by themselves average nothing between cloud rounds"
    )


def _warnings_of_heads(table: Any, devices: Any, plan: Any, comparable: Any) -> list[str]:
    """What a method asks of heads beyond what they have, and of its own budget."""
    from fedloom.record.plan_words import budget_words, power_words

    found = [power_words(table.ids, plan, devices), None if comparable is None else budget_words(plan, comparable)]
    return [line for line in found if line is not None]


def _slow_links(ids: Any, devices: Any, plan: Any, others: dict[str, Any], bits: float) -> tuple[str, ...]:
    """Links of the plan that take long, and of those it is compared with that never end."""
    from fedloom.planning import weak_links
    from fedloom.planning.link_budget import DAY_S, SLOW_S
    from fedloom.record.plan_words import slow_words

    found = [(plan, SLOW_S), *((other, DAY_S) for other in others.values())]
    return tuple(
        slow_words(ids, weak, one, bits, within_s)
        for one, within_s in found
        if (weak := weak_links(devices, one, bits, within_s))
    )
