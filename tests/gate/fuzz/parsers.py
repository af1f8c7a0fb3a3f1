"""Every parser of things from outside, with good inputs of it, and the law that what it accepts must keep.

A parser takes bytes. It either gives a result that keeps the law, or raises Refused (or FileNotFoundError, where an input names
a file) with one short line. Nothing else may happen.
"""

import atexit
import gzip
import io
import json
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.io import savemat

from fedloom.coding import CODECS, codec
from fedloom.data import files, formats, looking, reading, sources
from fedloom.data.loaders import load
from fedloom.deployment import letters
from fedloom.deployment.bundles import Bundle, parse_bundle
from fedloom.deployment.journal import Journal
from fedloom.deployment.took import Took
from fedloom.fleet.availability_trace import read_trace
from fedloom.fleet.gradients import read_gradients
from fedloom.fleet.table import read_fleet
from fedloom.gate import Refused, arrays, json_text, mat, parquet, yaml_text
from fedloom.gate import files as gate_files
from fedloom.gate.child import Child
from fedloom.methods import METHODS
from fedloom.methods.by_name import make_method
from fedloom.record.checkpoints import Unbelievable, read_checkpoint, save_checkpoint
from fedloom.record.files import Manifest, json_bytes
from fedloom.record.identity import KEYS, identity_of
from fedloom.record.verify import verify
from fedloom.simulator import Checkpoint
from fedloom.simulator.clock import Delivered, Opening
from fedloom.simulator.scenarios import Scenario, names, scenario

from . import traces

_IN_MEMORY = Path("/dev/shm")
SCRATCH = Path(tempfile.mkdtemp(prefix="fedloom-fuzz-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Parser:
    """name; seeds: good inputs; parse: bytes -> result; holds: whether a result is one that may come out; words: pieces that
    mutations put in."""

    name: str
    seeds: tuple[bytes, ...]
    parse: Callable[[bytes], Any]
    holds: Callable[[Any], bool]
    words: tuple[bytes, ...] = ()


def _text(data: bytes) -> str:
    """As arguments of a command come: any bytes."""
    return data.decode("utf-8", errors="surrogateescape")


def _file(data: bytes, name: str) -> Path:
    path = SCRATCH / name
    path.write_bytes(data)
    return path


def _finite(*numbers: Any) -> bool:
    return all(x is None or bool(np.isfinite(x).all()) for x in numbers)


def _good_scenario(made: Any) -> bool:
    if not isinstance(made, Scenario):
        return False
    again = Scenario.model_validate_json(
        made.model_dump_json()
    )  # no NaN, no infinity, nothing that is not what it says
    return again == made and "/" not in made.name and not made.name.startswith(".")


YAML_WORDS = tuple(
    word.encode()
    for word in (
        *(
            "true",
            "yes",
            "010",
            "1:30",
            "1_000",
            "0x1F",
            "1e400",
            "1e308",
            "-1",
            "0",
            ".nan",
            ".inf",
            "~",
            "null",
            '"0.1"',
        ),
        *(
            "&a ",
            "*a",
            "<<: ",
            "!!python/object:os.system ",
            "[",
            "]",
            "{",
            "}",
            ": ",
            "\n",
            "  ",
            "- ",
            "--- ",
            "? ",
            "|\n",
        ),
        *(
            "9" * 50,
            "1e-300",
            "100000000",
            "../../x",
            "\x00",
            "\x85",
            "\u2028",
            "é",
            "#",
            "'",
            '"',
            "%",
            "@",
            "`",
            "\t",
        ),
    )
)
NUMBER_WORDS = (
    b"nan",
    b"inf",
    b"-1",
    b"1e400",
    b"1_0",
    b"0x1",
    b"",
    b"9" * 50,
    b"1e308",
    b"\xef\xbc\x91",
    b",",
    b"\n",
    b'"',
    b"\x00",
)
SIZE_WORDS = (b"\x00" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x01")


def _scenario_seeds() -> tuple[bytes, ...]:
    shipped = [path.read_bytes() for path in names().values()]
    texts = [text for text in shipped if b".csv" not in text]  # tables are beside them, and have parsers of their own
    small = {
        "fleet": {
            "n_devices": 3,
            "placement": {"kind": "coordinates", "positions_m": [[0, 1], [2.5, 3], [1e2, -7]]},
            "device_device": {"kind": "given", "matrix_bit_s": [[0, 1e6, 2e6], [1e6, 0, 3e6], [2e6, 3e6, 0]]},
            "compute": {"law": {"kind": "classes", "values": [1, 2], "shares": [0.5, 0.5]}, "unit": "steps-per-second"},
        },
        "task": {"dataset": "gaussian", "model": {"kind": "mlp", "hidden": [8, 4]}},
        "training": {"total_steps": 100, "lr_decay": {"kind": "inverse-time", "delay_steps": 10.0}},
        "evaluation": {"every": {"edge_rounds": 2}},
    }
    return (*texts, json.dumps(small, indent=1).encode())


def _set(data: bytes) -> Any:
    return scenario(SMALL, _text(data).split("\x1f"))


SMALL = {"name": "small", "fleet": {"n_devices": 6}, "training": {"cloud_rounds": 2}}
SETS = (
    b"training.lr=0.05",
    b"fleet.n_devices=12",
    b"task.partition={kind: classes, classes_per_client: 2}\x1ftraining.batch_size=20",
    b"fleet.device_edge.up={kind: radio, power_w: 0.2, path_loss: {kind: free-space}}",
    b"fleet.device_edge.up={kind: radio, fading: rician, path_loss: {kind: tr38901, scenario: umi, indoor: 0.3}}",
    b"name=other",
    b"task.model={kind: mlp, hidden: [64, 32]}",
)


def _method_texts() -> tuple[bytes, ...]:
    options = ("ltc:z=inf", "ltc:solution=1.2:n_trials=80", "fedprox:mu=0.1", "hhfl:disable_links=[[18,1],[3,0]]")
    more = (
        "csahfl:alpha=1.5:p=3",
        "hhfl:stages=[[0,5,5],[100,2,5]]",
        "camu:radio=db_gap",
        "fedmds:sigma=2",
        "fedat:n_tiers=3",
    )
    return tuple(text.encode() for text in (*METHODS, *options, *more))


FLEETS = (
    b"id,x_m,y_m,steps_per_s,tx_power_dbm,capacity,candidate,indoor,label_a,label_b\n"
    b"a,0,1.5,10,20,5,yes,no,3,4\nb,10,-2,20,23,5,no,yes,0,9\nc,1e2,7,5,10,3,1,0,5,5\n",
    b"latitude,longitude,samples_per_s,tx_power_w,n_samples\n48.1,11.5,100,0.1,30\n48.2,11.6,50,0.2,20\n",
    b'"name",x,y\n"q,1",0,0\n"r",5,5\n\n"s",6,7\n',
    b"id,x_m,y_m,z_m,battery_wh,up_bit_s,down_bit_s\na,0,1,2,mains,1e6,2e6\nb,1,1,0,3.5,1e5,2e5\n",
)
TRACES = (
    b"time_s,device,on\n0,0,1\n5.5,1,0\n1e2,1,yes\n7,0,no\n",
    b'"device","time_s",plugged,"note"\n2,0,false,a\n2,3600,TRUE,"b,c"\n',
)
GRADIENTS_CSV = (b"g0,g1,g2\n1,2,3\n4,5,6.5\n-1e-3,0,2\n", b"1,2\n3,4\n5,6\n")


def _fleet(data: bytes) -> Any:
    return read_fleet(_file(data, "fleet.csv"))


def _trace(data: bytes) -> Any:
    return read_trace(_file(data, "trace.csv"), 3)


def _good_trace(trace: Any) -> bool:
    ascending = all(sorted(set(times)) == times for times in trace.changes_s)
    within = all(0 <= time_s <= 1e9 for times in trace.changes_s for time_s in times)
    return len(trace.first_on) == len(trace.changes_s) == 3 and ascending and within


class _ParquetFleets:
    """With one reader for all files."""

    def __init__(self) -> None:
        self.child = Child(parquet.__name__, seconds=20)

    def __call__(self, data: bytes) -> Any:
        return read_fleet(_file(data, "fleet.parquet"), self.child)


def _parquet_fleets() -> tuple[bytes, ...]:
    """Tables as Parquet, plain and packed."""
    table = pl.DataFrame(
        {"id": ["a", "b", "c"], "x_m": [0.0, 1.5, 9.0], "y_m": [1, 2, 3], "candidate": [True, False, True]}
    )
    out = []
    for packed in ("uncompressed", "zstd", "snappy"):
        buffer = io.BytesIO()
        table.write_parquet(buffer, compression=packed)
        out.append(buffer.getvalue())
    return tuple(out)


def _good_fleet(table: Any) -> bool:
    numbers = (table.position_m, table.steps_per_s, table.samples_per_s, table.power_w, table.capacity, table.n_samples)
    return (
        _finite(*numbers, table.label_counts)
        and len(set(table.ids)) == table.n_devices == len(table.position_m) > 0
        and (table.power_w is None or bool((table.power_w > 0).all()))
        and (table.n_samples is None or bool((table.n_samples >= 0).all()))
        and float(np.abs(table.position_m).max()) <= 3e7 * 1e3
    )


def _traces() -> Iterator[Parser]:
    def parser(name: str, seeds: tuple[bytes, ...], parse: Any, holds: Any = traces.good_trace) -> Parser:
        words = SIZE_WORDS if name.endswith("parquet") else NUMBER_WORDS
        return Parser(name=name, seeds=seeds, words=words, parse=parse(_file), holds=holds)

    yield parser("positions", traces.POSITIONS, traces.positions)
    yield parser("rates", traces.RATES, traces.rates)
    yield parser("speeds", traces.SPEEDS, traces.speeds)
    yield parser("matrix", traces.MATRICES, traces.matrix, traces.good_matrix)
    yield parser("positions-parquet", traces.parquet_seeds(), traces.parquet_positions)


def _gradients(suffix: str) -> Callable[[bytes], Any]:
    return lambda data: read_gradients(_file(data, f"gradients.{suffix}"), 3)


def _good_gradients(rows: Any) -> bool:
    return rows.shape[0] == 3 and rows.dtype.kind == "f" and _finite(rows)


def _stored(**values: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **values)
    return out.getvalue()


def _npy(value: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, value)
    return out.getvalue()


def _idx_bytes(array: Any) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


IMAGES = (np.arange(5 * 6 * 7) % 256).astype(np.uint8).reshape(5, 6, 7)


def _idx(data: bytes) -> Any:
    """As a file of its own: plain or packed, of one's own."""
    hit = {"train-images-idx3-ubyte": looking.Found(path=_file(data, "train-images-idx3-ubyte"))}
    most = {name: files._most(name, sources.Published(), own=True) for name in hit}
    ((_, read),) = reading.read_files(hit, most).values()
    return formats.idx(read, "images", 3)


def _cifar(n_label_bytes: int, n_classes: int) -> Callable[[bytes], Any]:
    return lambda data: (*formats.cifar(data, "batch", n_label_bytes, n_classes), n_classes)


def _cifar_rows(n: int, n_label_bytes: int) -> bytes:
    rows = np.random.default_rng(0).integers(0, 256, size=(n, n_label_bytes + 3072), dtype=np.uint8)
    rows[:, :n_label_bytes] = np.arange(n)[:, None]
    return rows.tobytes()


def _good_cifar(made: Any) -> bool:
    images, labels, n_classes = made
    return images.shape == (len(labels), 3, 32, 32) and int(labels.max()) < n_classes


def _tar(packed: bool) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz" if packed else "w") as tar:
        for name in ("readme.html", "cifar-100-binary/train.bin", "cifar-100-binary/test.bin"):
            entry = tarfile.TarInfo(name)
            data = _cifar_rows(1, 2)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _archive(data: bytes) -> Any:
    _file(data, "cifar-100-binary.tar.gz")
    return load("cifar100:own", SCRATCH)


def _good_dataset(made: Any) -> bool:
    x, y = made.inputs("train"), made.y_train
    return (
        _finite(x, made.inputs("test")) and len(x) == len(y) > 0 and 0 <= int(y.min()) <= int(y.max()) < made.n_classes
    )


def _mat_bytes(compress: bool, y_type: Any = np.uint8) -> bytes:
    out = io.BytesIO()
    x = np.random.default_rng(1).integers(0, 256, size=(32, 32, 3, 2), dtype=np.uint8)
    savemat(out, {"X": x, "y": np.array([[10], [3]], dtype=y_type)}, do_compression=compress)
    return out.getvalue()


class _Matlab:
    """One child for all inputs; it is started anew when an input has killed it."""

    def __init__(self) -> None:
        self.child = Child(mat.__name__, seconds=20)

    def __call__(self, data: bytes) -> Any:
        return formats.svhn(data, "train_32x32.mat", self.child)


def _good_svhn(made: Any) -> bool:
    images, digits = made
    return images.shape == (len(digits), 3, 32, 32) and images.dtype == np.uint8 and int(digits.max()) <= 9


WINDOWS = {"X": np.ones((3, 128, 6), np.float32), "y": np.array([0, 5, 1]), "user": np.array([1, 1, 2])}


def _good_windows(made: Any) -> bool:
    x, y, user = made
    same = len(x) == len(y) == len(user) > 0
    return same and _finite(x) and x.dtype == np.float32 and 0 <= int(y.min()) <= int(y.max()) <= 5


SIGNAL = b"\n".join(b"%.6e %.3f %d" % (i / 7, i / 3, -i) for i in range(300))
LABELS = b"1 7 1 1 200\n1 7 11 201 220\n1 7 6 150 280\n"


def _hapt(data: bytes) -> Any:
    """Labels and a recording in one input, so that both are changed."""
    labels, _, signal = data.partition(b"\x1f")
    return formats.hapt_signals(labels, "labels.txt", lambda asked: {name: (name, signal) for name in asked})


def _hapt_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("HAPT Data Set/RawData/labels.txt", LABELS)
        for kind in ("acc", "gyro"):
            archive.writestr(f"HAPT Data Set/RawData/{kind}_exp01_user07.txt", SIGNAL)
    return out.getvalue()


def _hapt_archive(data: bytes) -> Any:
    hit = looking.Found(path=_file(data, "HAPT Data Set.zip"), member="RawData/labels.txt")
    read = reading.read_files({"labels": hit})
    return read["labels"][1]


IDX = {
    f"{split}-{kind}-ubyte": _idx_bytes(array)
    for split in ("train", "t10k")
    for kind, array in (("images-idx3", IMAGES), ("labels-idx1", np.arange(5, dtype=np.uint8)))
}
PERSON = {"X": np.ones((10, 128, 6), np.float32), "y": np.repeat([0, 5], 5), "user": np.repeat(7, 10)}


def _loaded(dataset: str, others: Mapping[str, bytes], changed: str) -> Callable[[bytes], Any]:
    """A dataset of several files, one of which is changed, as a run loads it."""
    folder = SCRATCH / dataset

    def parse(data: bytes) -> Any:
        folder.mkdir(exist_ok=True)
        for name, content in others.items():
            (folder / name).write_bytes(content)
        (folder / changed).write_bytes(data)
        return load(dataset, folder)

    return parse


RECORD = SCRATCH / "record"
RUN_JSON = {key: key for key in KEYS} | {"scenario": {"training": {"cloud_rounds": 6}}, "seed": 1}
IDENTITY = identity_of(RUN_JSON)


def _record_files() -> dict[str, bytes]:
    """Those of a record that has just begun, by name."""
    RECORD.mkdir(exist_ok=True)
    models = np.arange(6, dtype=np.float32).reshape(2, 3)
    save_checkpoint(RECORD, Checkpoint(cloud_round=3, measures=[{"accuracy": 0.5}], models=models), IDENTITY)
    Manifest(folder=RECORD, identity=IDENTITY).write({"run.json": json_bytes(RUN_JSON | {"identity": IDENTITY})})
    return {path.name: path.read_bytes() for path in RECORD.rglob("*") if path.is_file()}


FILES = _record_files()


def _checkpoint(data: bytes) -> Any:
    """As `--resume` reads it."""
    try:
        return read_checkpoint(_file(data, "state.safetensors"), IDENTITY)
    except Unbelievable as error:
        raise Refused(str(error)) from None


def _record(name: str) -> Callable[[bytes], Any]:
    """A record one of whose files is changed, through `verify`: what does not fit is refused."""

    def parse(data: bytes) -> Any:
        for other, content in FILES.items():
            path = RECORD / "checkpoint" / other if other.endswith("safetensors") else RECORD / other
            path.write_bytes(data if other == name else content)
        verdict = verify(RECORD)
        if not verdict.sound:
            raise Refused("; ".join(map(str, verdict.misfits)))
        return data

    return parse


def _same_as(name: str) -> Callable[[Any], bool]:
    """What is accepted is what was written, though its JSON may have other spaces."""
    return lambda data: data == FILES[name] or json.loads(data) == json.loads(FILES[name])


def _letter(data: bytes) -> Any:
    """As a role takes it from the wire."""
    try:
        return letters.decode(data, 1 << 20)
    except letters.BadLetter as error:
        raise Refused(str(error)) from None


def _good_letter(made: Any) -> bool:
    again = letters.decode(letters.encode(made), 1 << 20)
    same = all(np.array_equal(again.arrays[name], array) for name, array in made.arrays.items())
    return same and again.kind == made.kind and again.fields == made.fields and _finite(*made.arrays.values())


LETTERS = (
    letters.encode(letters.Letter("put", {"name": "u-7-40", "size": 3}, {"row": np.arange(3, dtype=np.float32)})),
    letters.encode(letters.Letter("orders", {"have": ["m-1", "m-2"], "round": 4})),
)
BUNDLE = {
    "name": "edge-1", "run": "ab12", "scenario": {"name": "small"}, "method": "hhfl", "seed": 1, "roster": ["device-0", "edge-1"],
    "addresses": {"cloud": "127.0.0.1:7000"}, "listen": "127.0.0.1:7001", "patience_s": 60.0, "quorum": 0.5,
    "cloud_quorum": 0.5, "format": 1,
}  # fmt: skip


def _bundle(data: bytes) -> Any:
    return parse_bundle(gate_files.read_text(_file(data, "bundle.json"), "a bundle", 1 << 20), Path("bundle.json"))


def _journal(data: bytes) -> Any:
    """As a cloud reads it that was killed; then once more, as it must say the same again."""
    path = _file(data, "journal")
    Journal(path, "ab12").close()
    again = Journal(path, "ab12")
    again.close()
    return again.happened


def _journal_bytes() -> bytes:
    path = SCRATCH / "journal"
    path.unlink(missing_ok=True)
    journal = Journal(path, "ab12")
    journal.happens(1.5, Opening(2))
    journal.happens(2.5, Delivered((1, 2), (3, 4)))
    journal.measured(1, 3, Took(0.1, 0.2, 0.3, None, 4, 4))
    journal.confirms("m-4")
    journal.close()
    return path.read_bytes()


def _good_journal(happened: Any) -> bool:
    """A line is believed only if its sum fits, and nothing behind one that is not: what comes out is a beginning of what was
    written, or a piece of it again."""
    whole = [(1.5, Opening(2)), (2.5, Delivered((1, 2), (3, 4)))]
    return all(what in whole for what in happened)


CODED = np.random.default_rng(1).normal(size=37).astype(np.float32)
CODEC_TEXTS = (
    *("float32", "float16", "bfloat16", "qsgd:bits=1", "qsgd:bits=5:bucket=8", "qsgd:bits=12", "sign", "sign:bucket=8"),
    *("topk:share=0.1", "topk:share=0.5", "randomk:share=0.1", "randomk:k=2:unbiased=true"),
)  # fmt: skip


def _messages(text: str) -> Parser:
    """Messages of a codec."""
    made = codec(text)
    return Parser(
        name=f"codec-{text.replace(':', '-')}", seeds=(made.encode(CODED, 3), made.encode(-CODED[::-1].copy(), 3)),
        words=SIZE_WORDS, parse=lambda data: made.decode(data, len(CODED), 3),
        holds=lambda row: row.shape == CODED.shape and row.dtype == np.float32 and _finite(row),
    )  # fmt: skip


def _good_codec(made: Any) -> bool:
    """Known, and able to say what it takes."""
    return type(made) in CODECS.values() and 8 <= made.n_bits(2**31) <= 2**40


def all_parsers() -> tuple[Parser, ...]:
    """Every parser of the project."""
    return (
        Parser(
            name="scenario", seeds=_scenario_seeds(), words=YAML_WORDS, holds=_good_scenario,
            parse=lambda data: scenario(_file(data, "mine.yaml")),
        ),
        Parser(
            name="scenario-json", seeds=(_scenario_seeds()[-1],), words=YAML_WORDS, holds=_good_scenario,
            parse=lambda data: scenario(_file(data, "mine.json")),
        ),
        Parser(name="set", seeds=SETS, words=YAML_WORDS, parse=_set, holds=_good_scenario),
        Parser(
            name="yaml", seeds=(*_scenario_seeds(), SETS[3].partition(b"=")[2]), words=YAML_WORDS, holds=_plain,
            parse=lambda data: yaml_text.read(_text(data), "text"),
        ),
        Parser(
            name="json", seeds=(_scenario_seeds()[-1],), words=YAML_WORDS, holds=_plain,
            parse=lambda data: json_text.read(_text(data), "text"),
        ),
        Parser(
            name="method", seeds=_method_texts(), words=YAML_WORDS, holds=lambda method: method.name in METHODS,
            parse=lambda data: make_method(_text(data)),
        ),
        Parser(
            name="codec", seeds=tuple(text.encode() for text in CODEC_TEXTS), words=YAML_WORDS, holds=_good_codec,
            parse=lambda data: codec(_text(data)),
        ),
        *map(_messages, CODEC_TEXTS),
        Parser(name="fleet", seeds=FLEETS, words=NUMBER_WORDS, parse=_fleet, holds=_good_fleet),
        Parser(
            name="fleet-parquet", seeds=_parquet_fleets(), words=SIZE_WORDS, holds=_good_fleet,
            parse=_ParquetFleets(),
        ),
        Parser(name="trace", seeds=TRACES, words=NUMBER_WORDS, parse=_trace, holds=_good_trace),
        *_traces(),
        Parser(
            name="gradients-csv", seeds=GRADIENTS_CSV, words=NUMBER_WORDS, parse=_gradients("csv"), holds=_good_gradients
        ),
        Parser(
            name="gradients-npy", seeds=(_npy(np.ones((3, 4))), _npy(np.ones((3, 2), np.float32, order="F"))),
            words=SIZE_WORDS, parse=_gradients("npy"), holds=_good_gradients,
        ),
        Parser(
            name="gradients-npz", seeds=(_stored(gradients=np.ones((3, 4))),), words=SIZE_WORDS, parse=_gradients("npz"),
            holds=_good_gradients,
        ),
        Parser(
            name="idx", seeds=(_idx_bytes(IMAGES), gzip.compress(_idx_bytes(IMAGES))), words=SIZE_WORDS, parse=_idx,
            holds=lambda made: made.ndim == 3 and made.size > 0,
        ),
        Parser(name="cifar10", seeds=(_cifar_rows(2, 1),), words=SIZE_WORDS, parse=_cifar(1, 10), holds=_good_cifar),
        Parser(name="cifar100", seeds=(_cifar_rows(2, 2),), words=SIZE_WORDS, parse=_cifar(2, 100), holds=_good_cifar),
        Parser(
            name="cifar-tar", seeds=(_tar(True), _tar(False)), words=SIZE_WORDS, parse=_archive, holds=_good_dataset
        ),
        Parser(
            name="mat", seeds=(_mat_bytes(False), _mat_bytes(True), _mat_bytes(False, np.float64)), words=SIZE_WORDS,
            parse=_Matlab(), holds=_good_svhn,
        ),
        Parser(
            name="npz", seeds=(_stored(**WINDOWS),), words=SIZE_WORDS, holds=_good_windows,
            parse=lambda data: formats.windows(data, "hapt_windows.npz"),
        ),
        Parser(
            name="npz-arrays", seeds=(_stored(a=np.arange(6.0).reshape(2, 3)),), words=SIZE_WORDS,
            parse=lambda data: arrays.npz(data, "file.npz", ("a",))[0], holds=lambda made: made.nbytes < 1 << 20,
        ),
        Parser(
            name="hapt-text", seeds=(LABELS + b"\x1f" + SIGNAL,), words=(*NUMBER_WORDS, b" ", b"\x1f"), parse=_hapt,
            holds=_good_windows,
        ),
        Parser(
            name="hapt-zip", seeds=(_hapt_zip(),), words=SIZE_WORDS, parse=_hapt_archive,
            holds=lambda made: isinstance(made, bytes) and len(made) < 1 << 20,
        ),
        Parser(
            name="mnist", seeds=(IDX["train-labels-idx1-ubyte"],), words=SIZE_WORDS,
            parse=_loaded("mnist:own", IDX, "train-labels-idx1-ubyte"), holds=_good_dataset,
        ),
        Parser(
            name="hapt", seeds=(_stored(**PERSON),), words=SIZE_WORDS, parse=_loaded("hapt", {}, "hapt_windows.npz"),
            holds=_good_dataset,
        ),
        Parser(
            name="checkpoint", seeds=(FILES["state.safetensors"],), words=SIZE_WORDS, parse=_checkpoint,
            holds=lambda made: made.cloud_round == 3 and bool((made.models.ravel() == np.arange(6)).all()),
        ),
        Parser(
            name="manifest", seeds=(FILES["manifest.json"],), words=YAML_WORDS, parse=_record("manifest.json"),
            holds=_same_as("manifest.json"),
        ),
        Parser(
            name="run-json", seeds=(FILES["run.json"],), words=YAML_WORDS, parse=_record("run.json"),
            holds=_same_as("run.json"),
        ),
        Parser(name="letter", seeds=LETTERS, words=(*SIZE_WORDS, *YAML_WORDS), parse=_letter, holds=_good_letter),
        Parser(
            name="bundle", seeds=(json.dumps(BUNDLE, indent=1).encode(),), words=YAML_WORDS,
            parse=_bundle, holds=lambda made: Bundle.model_validate(json.loads(json.dumps(made.model_dump()))) == made,
        ),
        Parser(name="journal", seeds=(_journal_bytes(),), words=YAML_WORDS, parse=_journal, holds=_good_journal),
    )  # fmt: skip


def _plain(value: Any, depth: int = 0) -> bool:
    """Mappings with words as keys, lists, words, numbers, truth values and nothing, not too deep."""
    if isinstance(value, dict):
        return depth < 1200 and all(isinstance(key, str) and _plain(inner, depth + 1) for key, inner in value.items())
    if isinstance(value, list):
        return depth < 1200 and all(_plain(inner, depth + 1) for inner in value)
    return value is None or isinstance(value, str | int | float | bool)
