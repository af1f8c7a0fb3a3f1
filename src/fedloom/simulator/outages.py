"""Devices that fail, in a simulated world: who is down, and what becomes of those who are sent to work.

A device is down when it is not there by the law or trace of its availability, when its battery is empty, and for a while after it
has broken off its work. One that goes down at work begins again, with the fetch, if it is back before the method's patience is
over; else its update is lost, and that is known when the patience is over. So it is with who breaks off, and with a message of
which a packet was lost too often: that is not tried again.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedloom._random import uniform_of
from fedloom.fleet.failures import availability, batteries
from fedloom.fleet.packets import packets_of, transmissions
from fedloom.fleet.settings.fleet import FleetSettings
from fedloom.simulator.exchange import Load

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CAUSES = ("away", "battery", "dropout", "packets")  # why an update is lost; a head may be, too
AWAY, EMPTY, BROKEN_OFF, PACKETS = range(len(CAUSES))
MOST_ATTEMPTS = 50  # at one job
_TIMES = 2**40  # devices are fewer


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """What m clients are sent to do. takes_s (m,): seconds until they are back; fetch_s, compute_s, upload_s (m,): of these, what
    fetching, computing and sending take; air_down_s, air_up_s (m,): what a message is on air for at the device itself, 0 if no
    packet of it can be lost. upload_j (m,): joules of sending; compute_w: watts of computing. edge_round and times (m,) name the
    occasion."""

    client: Ints
    at_s: float
    takes_s: Floats
    fetch_s: Floats
    compute_s: Floats
    upload_s: Floats
    air_down_s: Floats
    air_up_s: Floats
    upload_j: Floats
    compute_w: float
    down_bytes: int
    up_bytes: int
    edge_round: int
    times: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Fate:
    """What becomes of m clients at work. takes_s (m,): until the update is here, infinite if it is lost; known_s (m,): when that
    is known. cause (m,): of CAUSES, -1 if it is not lost. plain (m,): all went as planned. Seconds (m,) in all that it fetched,
    computed and sent, parts included; down and up: what was on air."""

    takes_s: Floats
    known_s: Floats
    cause: Ints
    plain: Bools
    fetch_s: Floats
    compute_s: Floats
    upload_s: Floats
    down: Load
    up: Load

    @property
    def usual(self) -> Bools:
        """(m,) who is back after the first attempt."""
        return np.isfinite(self.takes_s) & (self.down.messages <= 1) & (self.up.messages <= 1)


class _Sent(NamedTuple):
    """Messages (m,) of an attempt: how many times the whole of each is on air, and whether it is lost."""

    times: Floats
    lost: Bools


class Outages:
    """K devices. patience_s: after which nobody waits for a device that is silent; infinite: for ever. So far: n_retried, jobs
    that were begun again; n_packets, packets that were sent again; n_lost (causes,)."""

    def __init__(self, settings: FleetSettings, seed: int, patience_s: float) -> None:
        n = settings.n_devices
        self._seed, self._patience_s = seed, patience_s
        self._turns, self.batteries = availability(settings, seed), batteries(settings, seed)
        self._receive_w = 0.0 if settings.battery is None else settings.battery.receive_w
        self._dropout, self._loss = settings.dropout, settings.loss
        self._at_work_until_s, self._off_until_s = np.zeros(n), np.zeros(n)
        self._charged_s = np.full(n, np.nan)  # when one that is empty is back, once that was asked
        self.n_retried = self.n_packets = 0

    def down(self, now_s: float) -> tuple[Bools, Floats]:
        """(K,) who is down now, and (K,) a time before which it will not be back. Who is at work has not broken it off yet."""
        n, idle = len(self._off_until_s), self._at_work_until_s <= now_s
        absent, back_s = (self._off_until_s > now_s) & idle, self._off_until_s.copy()
        if self._turns is not None:
            on, until_s = self._turns.at(now_s)
            absent |= ~on
            back_s = np.where(on, back_s, np.maximum(back_s, until_s))
        if self.batteries is not None:
            self.batteries.idle_until(np.arange(n), now_s)
            off = np.flatnonzero(self.batteries.off & (self.batteries.at_s <= now_s))
            absent[off] = True
            back_s[off] = np.maximum(back_s[off], self._charged(off))
        return absent, back_s

    def _charged(self, off: Ints) -> Floats:
        """When devices (m,) that are empty are charged; it is found out once."""
        assert self.batteries is not None
        self._charged_s[~self.batteries.off] = np.nan
        unknown = off[np.isnan(self._charged_s[off])]
        if len(unknown):
            self._charged_s[unknown] = self.batteries.back_s(unknown)
        return self._charged_s[off]

    def next_change_s(self, device: int, now_s: float) -> float:
        """A time until which a device stays as it is, up or down; it need not change then."""
        one, found = np.array([device]), [np.inf]
        if self._turns is not None:
            found.append(float(self._turns.of(one, np.array([now_s]))[1][0]))
        if (work_s := float(self._at_work_until_s[device])) > now_s:
            return min(*found, work_s)
        if self.batteries is not None:
            self.batteries.idle_until(one, now_s)
            found.append(float(self.batteries.next_s(one)[0]))
        if (off_s := float(self._off_until_s[device])) > now_s:
            found.append(off_s)
        return min(found)

    def take(self, devices: Ints, joules: Floats, now_s: float) -> None:
        """What devices (m,) spend beside their jobs: heads, and for features."""
        if self.batteries is not None:
            self.batteries.idle_until(np.unique(devices), now_s)
            self.batteries.take(devices, joules)

    def repeated(self, purpose: str, who: Ints, occasion: int, n_bytes: int) -> Floats:
        """How many times the whole of each message (m,) is on air that is repeated until it is there: reports of heads."""
        if self._loss is None:
            return np.ones(len(who))
        n = max(1, packets_of(n_bytes, self._loss.packet_bytes))
        on_air, _ = transmissions(self._seed, f"lost packets {purpose}", who, (occasion,), n, self._loss.packet, None)
        self.n_packets += int((on_air - n).sum())
        return on_air / n

    def fates(self, job: Job) -> Fate:
        """What becomes of clients that are sent to work, attempt after attempt."""
        out = _Outcome(job)
        left = np.flatnonzero(np.isfinite(job.takes_s))  # who has no link is not back in any case
        begin_s = np.full(len(left), job.at_s)
        for attempt in range(MOST_ATTEMPTS):
            stop_s, cause = self._attempt(job, left, begin_s, attempt, out)
            failed = cause >= 0
            back = left[~failed]
            planned = out.plain[back] & (attempt == 0)
            out.takes_s[back] = np.where(planned, job.takes_s[back], stop_s[~failed] - job.at_s)
            left, stop_s, cause = left[failed], stop_s[failed], cause[failed]
            out.plain[left] = False
            out.known_s[left], out.cause[left] = stop_s + self._patience_s, cause
            if not len(left):
                break
            back_s = self._there_again(job.client[left], stop_s)
            again = (cause != BROKEN_OFF) & (cause != PACKETS) & (back_s <= stop_s + self._patience_s)
            again &= np.isfinite(back_s) & (attempt + 1 < MOST_ATTEMPTS)
            left, begin_s = left[again], back_s[again]
            out.known_s[left], out.cause[left] = np.inf, -1
            self.n_retried += len(left)
        return out.fate()

    def _attempt(self, job: Job, some: Ints, begin_s: Floats, attempt: int, out: "_Outcome") -> tuple[Floats, Ints]:
        """One attempt of some (n,) of a job that begins at begin_s (n,): when each is over, and why if it failed (-1: it did
        not); what it took is noted."""
        who = job.client[some]
        key = who + _TIMES * job.times[some]
        down = self._sent("down", key, job, attempt, job.down_bytes, job.air_down_s[some] > 0)
        up = self._sent("up", key, job, attempt, job.up_bytes, job.air_up_s[some] > 0)
        fetch_s = job.fetch_s[some] + (down.times - 1) * job.air_down_s[some]
        upload_s = job.upload_s[some] + (up.times - 1) * job.air_up_s[some]
        compute_s = job.compute_s[some]
        wait_s = job.takes_s[some] - job.fetch_s[some] - compute_s - job.upload_s[some]
        wait_s = np.maximum(wait_s, 0.0) if attempt == 0 else np.zeros(len(some))
        phases_s = np.stack([fetch_s, compute_s, wait_s, upload_s])
        end_s = begin_s + phases_s.sum(axis=0)
        stop_s, cause = self._interrupted(key, job, begin_s, end_s, attempt)
        for lost, at_s in ((down.lost, begin_s + fetch_s), (up.lost, end_s)):
            here = lost & (at_s <= np.minimum(stop_s, end_s))
            stop_s[here], cause[here] = at_s[here], PACKETS
        watts = np.stack([np.full(len(some), w) for w in (self._receive_w, job.compute_w, 0.0, 0.0)])
        sending = upload_s > 0
        watts[3, sending] = (job.upload_j[some] * up.times)[sending] / upload_s[sending]
        empty = self._drain(who, begin_s, phases_s, watts, stop_s)
        cause[empty], failed = EMPTY, (cause >= 0) | empty
        stop_s = np.where(failed, np.minimum(stop_s, end_s), end_s)
        self._at_work_until_s[who] = stop_s
        if self._dropout is not None:
            off = cause == BROKEN_OFF
            self._off_until_s[who[off]] = stop_s[off] + self._dropout.off_s
        out.note(some, phases_s, stop_s - begin_s, ~failed, down.times, up.times)
        return stop_s, cause

    def _interrupted(self, key: Ints, job: Job, begin_s: Floats, end_s: Floats, attempt: int) -> tuple[Floats, Ints]:
        """When work from begin_s to end_s (n,) is broken off by leaving or by chance, infinite if not, and why."""
        who = key % _TIMES
        stop_s, cause = np.full(len(who), np.inf), np.full(len(who), -1)
        if self._turns is not None:
            on, until_s = self._turns.of(who, begin_s)
            until_s = np.where(on, until_s, begin_s)
            leaves = until_s < end_s
            stop_s[leaves], cause[leaves] = until_s[leaves], AWAY
        if self._dropout is not None:
            lots = uniform_of(self._seed, "dropout", key, job.edge_round, attempt)
            when = uniform_of(self._seed, "moment of a dropout", key, job.edge_round, attempt)
            at_s = begin_s + when * (end_s - begin_s)
            drops = (lots < self._dropout.per_round) & (at_s < stop_s)
            stop_s[drops], cause[drops] = at_s[drops], BROKEN_OFF
        return stop_s, cause

    def _sent(self, direction: str, key: Ints, job: Job, attempt: int, n_bytes: int, on_air: Bools) -> _Sent:
        loss, times, lost = self._loss, np.ones(len(key)), np.zeros(len(key), dtype=np.bool_)
        if loss is not None and n_bytes:
            n, purpose = packets_of(n_bytes, loss.packet_bytes), f"lost packets {direction}"
            occasion = (job.edge_round, attempt)
            packets, lost[on_air] = transmissions(
                self._seed, purpose, key[on_air], occasion, n, loss.packet, loss.tries
            )
            times[on_air] = packets / n
            self.n_packets += int((packets - n).sum())
        return _Sent(times, lost)

    def _drain(self, who: Ints, begin_s: Floats, phases_s: Floats, watts: Floats, stop_s: Floats) -> Bools:
        """Batteries go through the phases of an attempt until it stops; whether each (n,) was empty before that, in which case
        stop_s is when it was."""
        empty = np.zeros(len(who), dtype=np.bool_)
        if self.batteries is None:
            return empty
        self.batteries.begin(who, begin_s)
        for seconds, power_w in zip(phases_s, watts):
            lasts_s = np.clip(stop_s - self.batteries.at_s[who], 0.0, seconds)
            empty_s = self.batteries.work(who, lasts_s, power_w)
            now_empty = np.isfinite(empty_s) & ~empty
            stop_s[now_empty] = empty_s[now_empty]
            empty |= now_empty
        return empty

    def _there_again(self, who: Ints, since_s: Floats) -> Floats:
        """When devices (n,) that failed at since_s (n,) are there again, infinite if that is after the patience."""
        back_s, limit_s = np.maximum(since_s, self._off_until_s[who]), since_s + self._patience_s
        for _ in range(MOST_ATTEMPTS):
            before = back_s.copy()
            soon = np.flatnonzero(np.isfinite(back_s) & (back_s <= limit_s))
            if self._turns is not None and len(soon):
                on, until_s = self._turns.of(who[soon], back_s[soon])
                back_s[soon] = np.where(on, back_s[soon], until_s)
            if self.batteries is not None and len(soon):
                off = soon[self.batteries.off[who[soon]]]
                back_s[off] = np.maximum(back_s[off], self._charged(who[off]))
            if (before == back_s).all():
                return np.where(back_s <= limit_s, back_s, np.inf)
        return np.full(len(who), np.inf)


class _Outcome:
    """What is found of m clients, attempt after attempt."""

    def __init__(self, job: Job) -> None:
        m, dead = len(job.client), ~np.isfinite(job.takes_s)
        self.takes_s, self.known_s = np.full(m, np.inf), np.full(m, np.inf)
        self.cause, self.plain = np.full(m, -1), np.ones(m, dtype=np.bool_)
        planned_s = np.stack([job.fetch_s, job.compute_s, np.zeros(m), job.upload_s])
        self._spent_s = np.where(dead, planned_s, 0.0)
        self._messages = np.where(dead, 1, np.zeros((2, m), dtype=np.int64))
        self._times, self._relayed = self._messages.astype(np.float64), self._messages.astype(np.float64)

    def note(self, some: Ints, phases_s: Floats, elapsed_s: Floats, done: Bools, down: Floats, up: Floats) -> None:
        """An attempt of some (n,), phases_s (4, n) of which so much is over, or all."""
        begun_s = np.concatenate([np.zeros((1, len(some))), np.cumsum(phases_s, axis=0)[:-1]])
        spent_s = np.where(done, phases_s, np.clip(elapsed_s - begun_s, 0.0, phases_s))
        self._spent_s[:, some] += spent_s
        for row, phase, times in ((0, 0, down), (1, 3, up)):
            whole = phases_s[phase] > 0
            share = np.where(done | ~whole & (elapsed_s >= begun_s[phase]), 1.0, 0.0)
            np.divide(spent_s[phase], phases_s[phase], out=share, where=whole & ~done)
            self._messages[row, some] += share > 0
            self._times[row, some] += share * times
            self._relayed[row, some] += share
        self.plain[some] &= (down == 1) & (up == 1)

    def fate(self) -> Fate:
        return Fate(
            takes_s=self.takes_s,
            known_s=self.known_s,
            cause=self.cause,
            plain=self.plain,
            fetch_s=self._spent_s[0],
            compute_s=self._spent_s[1],
            upload_s=self._spent_s[3],
            down=Load(self._messages[0], self._times[0], self._relayed[0]),
            up=Load(self._messages[1], self._times[1], self._relayed[1]),
        )


def outages_of(settings: FleetSettings, seed: int, patience_s: float | None) -> Outages | None:
    """How the devices of a fleet fail; None: they do not."""
    if all(part is None for part in (settings.availability, settings.battery, settings.dropout, settings.loss)):
        return None
    return Outages(settings, seed, np.inf if patience_s is None else patience_s)
