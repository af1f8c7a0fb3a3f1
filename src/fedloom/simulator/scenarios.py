"""Scenarios: a fleet, a task and training settings, in YAML or in Python, checked strictly.

An unknown key names the nearest known one; every message says where (file, line and column), what was expected and what came.
Files pass the gate: fedloom.gate.yaml_text and json_text say what is refused as a text, the settings what is refused as a value.
"""

import difflib
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from fedloom._settings import Pair, Row, Settings
from fedloom.attacks import HostileSettings
from fedloom.data import GaussianSettings, MagnetSettings, PartitionSettings, TextSettings
from fedloom.data.settings import IidPartition
from fedloom.fleet import FleetSettings
from fedloom.gate import Refused, files, json_text, shown, yaml_text
from fedloom.gate.names import name as checked_name
from fedloom.gate.names import name_of
from fedloom.gate.words import one_line
from fedloom.privacy.secure_aggregation import Pairwise
from fedloom.simulator.library import names
from fedloom.training.rule import Optimiser

Positive = Annotated[float, Field(gt=0, le=1e9)]
NotNegative = Annotated[float, Field(ge=0, le=1e9)]
Count = Annotated[
    int, Field(ge=1, le=10**18)
]  # of rounds, steps, samples, widths; what would never end, the estimate refuses
LOCAL_STEPS = 5  # of an edge round, unless the scenario says
_OF_UNION = re.compile(r"tuple\[|constrained-|(float|int|str|one|each)$")  # how pydantic names the parts of a union
MOST_PROBLEMS = 20  # listed at once
MOST_KEY_PARTS = 16  # of a change such as training.lr=0.05


class ScenarioError(Refused):
    """A scenario that cannot be used, with one line for everything that is wrong with it."""


class ModelSettings(Settings):
    """A network by name. For mlp: `hidden`, the widths of its layers, and `pool`, the side of squares over which images are
    averaged first. For vgg: `width`, a factor of all widths. For cnn-small: `kernel`, the side of its convolutions, and
    `channels`, their two widths. For cnn-bn: `conv_relu`, a ReLU after each convolution too, and `bn_var`, what
    averaging makes of running variances. For lstm and transformer: `units`, the width of their states, `depth`, how many layers
    or blocks; for lstm `embedding`, the values that stand for a token; for transformer `heads` of attention."""

    kind: Literal[
        "softmax",
        "mlp",
        "lenet5",
        "cnn",
        "cnn-small",
        "cnn-bn",
        "vgg",
        "squeezenet",
        "resnet18",
        "resnet20",
        "lstm",
        "transformer",
    ] = "lenet5"
    hidden: Row[Count] | None = Field(default=None, max_length=100)
    pool: Count | None = None
    width: Annotated[float, Field(gt=0, le=100)] | None = None
    kernel: Count | None = None
    channels: Pair[Count] | None = None
    conv_relu: bool | None = None
    bn_var: Literal["mean", "pooled"] | None = None
    units: Count | None = None
    depth: Annotated[int, Field(ge=1, le=1000)] | None = None
    embedding: Count | None = None
    heads: Count | None = None

    @model_validator(mode="after")
    def _options_of_the_kind(self) -> "ModelSettings":
        of_kind = {"hidden": "mlp", "pool": "mlp", "width": "vgg", "kernel": "cnn-small", "channels": "cnn-small"}
        of_kind |= {"conv_relu": "cnn-bn", "bn_var": "cnn-bn", "embedding": "lstm", "heads": "transformer"}
        of_kind |= {"units": "lstm or transformer", "depth": "lstm or transformer"}
        for name, kind in of_kind.items():
            if getattr(self, name) is not None and self.kind not in kind.split(" or "):
                raise ValueError(f"{name} is for kind {kind}, not for {self.kind}; leave it out")
        return self


class TaskSettings(Settings):
    """Data and model. `dataset` is a name, or name:own for files that are not the published ones; `data_limit`
    keeps at most that many samples of each split, class-balanced; `gaussian`, `magnet` and `text` describe the generated
    datasets of those names."""

    dataset: str = "fashion-mini"
    data_limit: Count | None = None
    gaussian: GaussianSettings | None = None
    magnet: MagnetSettings | None = None
    text: TextSettings | None = None
    standardise: bool = False
    partition: PartitionSettings = IidPartition()
    model: ModelSettings = ModelSettings()


class ExponentialDecay(Settings):
    """Times `ratio` every `every_steps` local steps; by default every pass over the mean client's data."""

    kind: Literal["exponential"] = "exponential"
    ratio: Positive = 0.992
    every_steps: Count | None = None


class InverseTimeDecay(Settings):
    """lr / (1 + t / delay_steps)."""

    kind: Literal["inverse-time"] = "inverse-time"
    delay_steps: Positive


Decay = Annotated[ExponentialDecay | InverseTimeDecay, Field(discriminator="kind")]


class OptimiserSettings(Settings):
    """An optimiser of torch instead of SGD: `kind`, its class in torch.optim, and `options` of it but lr."""

    kind: str
    options: dict[str, bool | float | Row[float]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _exists(self) -> "OptimiserSettings":
        self.rule()
        return self

    def rule(self) -> Optimiser:
        """As a part of the local rule."""
        return Optimiser(self.kind, self.options)


class TrainingSettings(Settings):
    """Local work, rounds and the local rule. Work is `local_epochs` passes if given, else `local_steps` batches. In every
    edge round a share of the clients takes part (`participation`), or so many of each edge server (`clients_per_round`; of
    all that report to the cloud directly: as many as all edge servers together would sample). The run has `cloud_rounds`, or as
    many as make `total_steps` local steps of a client, which decides if both are given: then the last rounds are shorter if
    they must be. `optimiser`: one of torch instead of SGD, whose state is fresh in every edge round."""

    batch_size: Count = 20
    drop_last: bool = False
    local_steps: Count | None = None
    local_epochs: Count | None = None
    edge_rounds: Count = 5
    cloud_rounds: Count = 20
    total_steps: Count | None = None
    participation: float = Field(default=1.0, gt=0, le=1)
    clients_per_round: Count | None = None
    lr: float = Field(default=0.1, gt=0)
    lr_decay: Decay | None = None
    momentum: float = Field(default=0.0, ge=0, lt=1)
    weight_decay: NotNegative = 0.0
    clip_norm: Positive | None = None
    optimiser: OptimiserSettings | None = None

    @model_validator(mode="after")
    def _one_kind_of_work(self) -> "TrainingSettings":
        if self.local_steps is not None and self.local_epochs is not None:
            raise ValueError(
                f"give local_steps or local_epochs, not both (got {self.local_steps} and {self.local_epochs})"
            )
        if self.total_steps is not None:
            if self.local_epochs is not None:
                raise ValueError("total_steps counts local steps; give local_steps, not local_epochs")
            needed = -(-self.total_steps // ((self.local_steps or LOCAL_STEPS) * self.edge_rounds))
            object.__setattr__(self, "cloud_rounds", needed)  # whatever it was: total_steps decides
        if self.clients_per_round is not None and self.participation != 1:
            raise ValueError(
                f"give participation or clients_per_round, not both (got {self.participation:g} and "
                f"{self.clients_per_round})"
            )
        return self


class EveryEdgeRounds(Settings):
    """Evaluate every so many edge rounds, and after every cloud round."""

    edge_rounds: Count


class EvaluationSettings(Settings):
    """When to evaluate, and which models.

    every: a number of cloud rounds, or {edge_rounds: n}: also between cloud rounds, what the cloud would make of the
    aggregators' models then. models: `global` alone; `edges` (the default): the models of aggregators and clusters too, on the
    whole test set and on the labels of their clients; `devices`: the last model of every device as well. local_samples: test
    samples per client for local accuracy, 0 for none. theory adds what convergence bounds are made of: training loss, step
    mass, smoothness, and the noise and mismatch of gradients, which takes a pass of every client over its data. delta:
    for which epsilon is told, where noise protects clients; well below one over the number of clients."""

    every: Count | EveryEdgeRounds = 1
    local_samples: int = Field(default=100, ge=0, le=1_000_000)
    models: Literal["global", "edges", "devices"] = "edges"
    theory: bool = False
    delta: float = Field(default=1e-5, gt=0, lt=1)

    @model_validator(mode="after")
    def _theory_needs_every_round(self) -> "EvaluationSettings":
        if self.theory and self.every != 1:
            raise ValueError(f"theory measures every cloud round; it needs every: 1, got {self.every}")
        return self


def _a_name(text: str) -> str:
    return checked_name(text, "a name")


class ScreenSettings(Settings):
    """Changes longer than `times_median` times the median, or than `norm`, are left out (fedloom.mixing.screen)."""

    times_median: Annotated[float, Field(gt=1, le=1e30)] | None = 1e3
    norm: Positive | None = None


class SecureSettings(Settings):
    """What it would cost to add up updates so that nobody sees a single one (fedloom.privacy.secure_aggregation); bytes and bytes
    per second."""

    kind: Literal["pairwise"] = "pairwise"
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.6
    key_bytes: Count = 32
    share_bytes: Count = 32
    seal_bytes: Annotated[int, Field(ge=0, le=10**6)] = 28
    expand_bytes_s: Positive = 1e9

    def part(self) -> Pairwise:
        """As the simulator takes it."""
        return Pairwise(**self.model_dump(exclude={"kind"}))


class Scenario(Settings):
    """Everything about an experiment but the method and the seed. `name` names folders too, so it is letters, digits, dots,
    dashes and underscores. `model_bits`: size of a model on air, by default 32 bits for each of its values. `on_sick`: updates
    that are not finite are left out and counted (drop), or end the run (stop). `screen`: so are those that are absurdly long.
    `hostile`: who is, and what they do (fedloom.attacks). `secure_aggregation`: its costs are booked."""

    name: Annotated[str, AfterValidator(_a_name)] = "unnamed"
    description: str = ""
    fleet: FleetSettings
    task: TaskSettings = TaskSettings()
    training: TrainingSettings = TrainingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    model_bits: float | None = Field(default=None, ge=8, le=1e15)
    on_sick: Literal["drop", "stop"] = "drop"
    screen: ScreenSettings | None = None
    hostile: HostileSettings | None = None
    secure_aggregation: SecureSettings | None = None


def scenario(source: "str | Path | Mapping[str, Any] | Scenario", changes: Sequence[str] = ()) -> Scenario:
    """A scenario by name, from a YAML file, or from a mapping; `changes` such as "training.lr=0.05" on top. Paths of tables and
    traces in a file are from its folder, others from the current one."""
    if isinstance(source, Scenario):
        return source if not changes else _validated(_changed(source.model_dump(), changes), source.name)
    if isinstance(source, Mapping):
        return _validated(_changed(dict(source), changes), "scenario")
    path = find(str(source))
    try:
        text = files.read_text(path, "a scenario, a YAML file", yaml_text.MOST_BYTES)
        content = (json_text if path.suffix == ".json" else yaml_text).read(text, str(path))
    except Refused as error:
        raise ScenarioError(str(error)) from None
    if not isinstance(content, dict):
        raise ScenarioError(f"{path} must hold keys and values such as 'fleet: ...', got {type(content).__name__}")
    content.setdefault("name", name_of(path.stem))
    if "fleet" in content:
        content["fleet"] = _beside(content["fleet"], path.parent)
    changed = [change.partition("=")[0].strip() for change in changes]

    def places(paths: list[list[str]]) -> list[str]:
        if path.suffix == ".json":
            return [""] * len(paths)
        found = [None if _touched(keys, changed) else at for keys, at in zip(paths, yaml_text.places(text, paths))]
        return ["" if at is None else f", line {at[0]}, column {at[1]}" for at in found]

    return _validated(_changed(content, changes), str(path), places)


def _beside(part: Any, folder: Path) -> Any:
    """Settings of a file in a folder, in which paths are from there."""
    if not isinstance(part, dict):
        return part
    paths = {key: str(folder / part[key]) for key in ("table", "file") if isinstance(part.get(key), str)}
    return {key: _beside(value, folder) for key, value in part.items()} | paths


def _touched(path: Sequence[str], changed: Sequence[str]) -> bool:
    """Whether a change from outside of the file has to do with a key in it."""
    at = ".".join(path)
    return any(f"{at}.".startswith(f"{key}.") or key.startswith(f"{at}.") for key in changed)


def find(source: str) -> Path:
    """The file of a scenario given by name or by path."""
    known = names()
    if source in known and not Path(source).exists():
        return known[source]
    try:
        files.opened(source, f"a scenario, a YAML file or one of {', '.join(known)}").close()
        return Path(source)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except Refused as error:
        raise ScenarioError(str(error).replace("give the path of a scenario,", "a scenario is")) from None
    close = difflib.get_close_matches(source[:100], known, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; scenarios by name: {', '.join(known)}"
    raise ScenarioError(f"there is no scenario file {_short(source)}{hint}")


def _changed(content: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    for change in changes:
        key, equals, text = change.partition("=")
        *above, last = key.strip().split(".")
        if not equals or not all([*above, last]) or len(above) >= MOST_KEY_PARTS:
            raise ScenarioError(f"a change must look like training.lr=0.05, got {shown(change)}")
        content = dict(content)
        at = content
        for name in above:
            inner = at.get(name)
            if inner is not None and not isinstance(inner, Mapping):
                raise ScenarioError(
                    f"cannot set {_short(key)}: {_short(name)} is {shown(inner)}, which has nothing inside"
                )
            at[name] = dict(inner or {})
            at = at[name]
        try:
            at[last] = yaml_text.read(text, f"the value of {_short(key)}")
        except Refused as error:
            raise ScenarioError(str(error)) from None
    return content


def _nowhere(paths: list[list[str]]) -> list[str]:
    return [""] * len(paths)


def _validated(
    content: dict[str, Any], where: str, places: Callable[[list[list[str]]], list[str]] = _nowhere
) -> Scenario:
    """The scenario, or one line for each thing that is wrong with it; `places` says where in the file keys are."""
    try:
        return Scenario.model_validate(content)
    except ValidationError as error:
        found = [
            p for p in error.errors(include_url=False) if p["type"] != "too_short" or not p["input"]
        ]  # else: an item's fault
        problems = [_problem(problem) for problem in found[:MOST_PROBLEMS]]
        at = places([path for path, _ in problems])
        lines = list(dict.fromkeys(f"{where}{place}: {line}" for place, (_, line) in zip(at, problems)))
        if len(found) > MOST_PROBLEMS:
            lines.append(f"{where}: and {len(found) - MOST_PROBLEMS:,} more")
        raise ScenarioError("\n".join(lines)) from None
    except RecursionError:
        raise ScenarioError(f"{where}: nested too deeply") from None


def _problem(problem: Any) -> tuple[list[str], str]:
    """One problem: the path of the key as written in the file, and what to do."""
    location, kind = problem["loc"], problem["type"]
    path, known = _path_and_keys(location)
    key = _short(".".join(path)) or "the scenario"
    came = problem.get("input")
    got = "" if isinstance(came, Mapping) else f", got {shown(came)}"
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(path[-1])[:100], known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        return path, f"unknown key {key}; {hint}"
    if kind == "missing":
        return path, f"{key} is missing"
    if kind.startswith("union_tag"):
        context = problem.get("ctx", {})
        tag = context.get("tag")
        wanted = context.get("expected_tags", "")
        return path, f"{key} must have a kind out of {wanted}" + (f", got {shown(tag)}" if tag else "")
    if kind in ("model_type", "dict_type"):
        return path, f"{key} must hold keys and values{got}"
    message = one_line(problem["msg"].removeprefix("Value error, "), 400)
    message = message.replace("Input should be", "must be").replace("a valid tuple", "a list")
    if kind == "value_error":
        return path, f"{key}: {message}"
    instead = _instead(kind, came)
    return path, f"{key} {message[0].lower() + message[1:]}{got}{instead}"


def _instead(kind: str, came: Any) -> str:
    """What to write for a value of the wrong type, where that is plain."""
    if kind == "bool_type":
        return "; write true or false"
    if kind in ("int_type", "float_type") and isinstance(came, bool):
        return "; write a number"
    if kind in ("int_type", "float_type") and isinstance(came, str):
        return "; write the number without quotes" if came.strip()[:1] in tuple("0123456789+-.") else "; write a number"
    if kind in ("int_type", "int_from_float") and isinstance(came, float):
        return "; write a whole number"
    if kind == "string_type":
        return "; put it in quotes if it is meant as a word"
    return ""


def _short(key: str) -> str:
    return one_line(key, 100)


def _path_and_keys(location: tuple[Any, ...]) -> tuple[list[str], list[str]]:
    """The path in the file (without the tags of unions) and the keys that its last part could have had."""
    kinds: list[type[BaseModel]] = [Scenario]
    path: list[str] = []
    known: list[str] = []
    for part in location:
        tagged = [k for k in kinds if part == getattr(k.model_fields.get("kind"), "default", None)]
        if tagged and len(kinds) > 1:
            kinds = tagged
            continue
        if isinstance(part, str) and ((path and _OF_UNION.match(part)) or part in {k.__name__ for k in kinds}):
            continue
        path.append(str(part))
        if isinstance(part, int):
            continue
        known = sorted({name for k in kinds for name in k.model_fields})
        fields = [k.model_fields[part].annotation for k in kinds if part in k.model_fields]
        kinds = [m for annotation in fields for m in _models_in(annotation)]
    return path, known


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for inner in typing.get_args(annotation) for m in _models_in(inner)]
