"""FedJAX: its federated averaging, compiled for each client; XLA takes the cores it finds.

FedJAX calls `jax.tree_map`, which current versions of JAX have no more: it is put back.
"""

import sys

import jax
import jax.numpy as jnp

jax.tree_map = jax.tree_util.tree_map

import fedjax  # noqa: E402
import numpy as np  # noqa: E402
from given import Given, Watch  # noqa: E402


def softmax(p: dict, x: jnp.ndarray) -> jnp.ndarray:
    return x.reshape(len(x), -1) @ p["1.weight"].T + p["1.bias"]


def lenet5(p: dict, x: jnp.ndarray) -> jnp.ndarray:
    """(batch, 28, 28, 1) -> (batch, 10); kernels are (height, width, in, out)."""
    for name in ("0", "3"):
        x = jax.lax.conv_general_dilated(
            x, p[f"{name}.weight"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + p[f"{name}.bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)  # torch flattens channels first
    for name in ("7", "9"):
        x = jax.nn.relu(x @ p[f"{name}.weight"].T + p[f"{name}.bias"])
    return x @ p["11.weight"].T + p["11.bias"]


NETWORKS = {"softmax": softmax, "lenet5": lenet5}


def main() -> None:
    given = Given.read(sys.argv[1])
    watch = Watch(given, ("fedjax", "jax"))
    network = NETWORKS[given.model]

    def loss(p: dict, batch: dict, _: object) -> jnp.ndarray:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(network(p, batch["x"])), batch["y"][:, None], 1)
        return -chosen.mean()

    x, y = given.samples()
    x = np.ascontiguousarray(np.moveaxis(x, 2, -1))  # channels last
    clients = {k: fedjax.ClientDataset({"x": x[k], "y": y[k]}) for k in range(given.n_clients)}
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(given.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(given.batch_size, num_epochs=1, seed=given.seed),
    )
    start = {name: v.transpose(2, 3, 1, 0) if v.ndim == 4 else v for name, v in given.start().items()}
    state = algorithm.init({name: jnp.asarray(v) for name, v in start.items()})
    key = jax.random.PRNGKey(given.seed)
    for _ in range(given.n_rounds):
        key, *keys = jax.random.split(key, given.n_clients + 1)
        state, _ = algorithm.apply(state, [(k, clients[k], keys[k]) for k in clients])
        jax.block_until_ready(state.params)
        watch.lap(lambda state=state: values(state.params))


def values(params: dict) -> dict[str, np.ndarray]:
    """By the names and in the layout of torch."""
    return {k: np.asarray(v.transpose(3, 2, 0, 1) if v.ndim == 4 else v) for k, v in params.items()}


if __name__ == "__main__":
    main()
