"""The live table of a deployed federation: who trains, sends, waits, is late, is gone."""

from rich.console import Console

from fedloom.cli.deploy_table import MOST_ROWS, rows_of, table_of


def node(*does, silent_s=0.5, late=False, lost=False, twice=False):
    return {"silent_s": silent_s, "orders": [], "does": list(does), "late": late, "lost": lost, "twice": twice}


def test_two_processes_with_one_bundle_are_seen():
    (row,) = rows_of(status(device_0=node("train", late=True, twice=True)))
    assert row[1] == "trains, is late, is there twice"


def status(**nodes):
    return {"seconds": 12.34, "over": False, "nodes": {name.replace("_", "-"): facts for name, facts in nodes.items()}}


def test_a_line_for_every_node_says_what_it_does():
    found = status(
        device_10=node("train"),
        device_2=node("send", silent_s=1.25),
        device_0=node(),
        device_3=node("train", late=True),
        device_4=node("train", silent_s=90.0),
        device_5=node("fetch"),
        device_6=node("merge", "train"),
        edge_0=node("merge"),
        edge_1=node(lost=True),
    )
    assert rows_of(found, ended=["device-5"]) == [
        ("edge-0", "merges", "0.5 s"),
        ("edge-1", "is gone", "0.5 s"),
        ("device-0", "waits", "0.5 s"),
        ("device-2", "sends", "1.2 s"),
        ("device-3", "trains, is late", "0.5 s"),
        ("device-4", "is gone", "90.0 s"),
        ("device-5", "is gone", "0.5 s"),
        ("device-6", "merges, trains", "0.5 s"),
        ("device-10", "trains", "0.5 s"),
    ]


def test_many_nodes_are_counted_by_what_they_do():
    nodes = {f"device_{k}": node("train" if k % 3 else "send", silent_s=k / 10) for k in range(MOST_ROWS + 3)}
    assert rows_of(status(edge_0=node("merge"), **nodes)) == [
        ("1 edge", "merges", "up to 0.5 s"),
        ("22 devices", "trains", "up to 3.2 s"),
        ("11 devices", "sends", "up to 3.0 s"),
    ]


def test_before_the_cloud_answers_the_table_says_so():
    console = Console(width=80)
    with console.capture() as shown:
        console.print(table_of(None))
    assert "the cloud does not answer" in " ".join(shown.get().split())
