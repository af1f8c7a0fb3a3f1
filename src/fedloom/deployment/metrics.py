"""What a role is doing, for Prometheus: counts of what it logged, values it holds, orders it works on or waits for."""

import contextlib
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from fedloom.deployment.logs import Log

Gauges = Callable[[], Mapping[str, float]]


class RoleMetrics(Collector):
    """Events by kind, and the gauges of a role by name."""

    def __init__(self, log: Log, gauges: Gauges) -> None:
        self._log, self._gauges = log, gauges

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        events = CounterMetricFamily("fedloom_events", "What was logged, by event.", labels=["node", "event"])
        for event, n in sorted(self._log.counts.items()):
            events.add_metric([self._log.node, event], n)
        yield events
        for name, value in self._gauges().items():
            gauge = GaugeMetricFamily(f"fedloom_{name}", f"{name} of a node.", labels=["node"])
            gauge.add_metric([self._log.node], value)
            yield gauge


@contextlib.contextmanager
def shown(log: Log, gauges: Gauges, address: str | None) -> Iterator[int | None]:
    """Answer at http://ADDRESS/metrics, HOST:PORT, as long as the context lasts; None: nowhere. Gives the port."""
    if address is None:
        yield None
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"metrics are shown at HOST:PORT, such as 127.0.0.1:9100, got {address!r}")
    registry = CollectorRegistry()
    registry.register(RoleMetrics(log, gauges))
    try:
        server, thread = start_http_server(int(port), host, registry)
    except (OSError, OverflowError) as error:
        raise OSError(f"metrics cannot be shown at {address}: {error}; is another process there?") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
