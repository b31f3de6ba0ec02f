#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads a trace of Perfetto on standard input as its viewer does, and prints it as JSON.

Field numbers are those of perfetto's protos/perfetto/trace. A packet, field or wire type that is not
known here is an error, and so are slices that do not nest, an event on a track without a descriptor or
of another kind, and an incomplete packet (unless there is an argument).

{ "clocks": { "3": NS, ... }, "tracks": [...], "slices": [...], "instants": [...],
  "counters": { "NAME": [[NS, VALUE], ...], ... } }
"""
import json
import struct
import sys


def varint(buf, at):
    n = shift = 0
    while True:
        byte = buf[at]
        n |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return n, at


def fields(buf):
    at = 0
    while at < len(buf):
        key, at = varint(buf, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(buf, at)
        elif kind == 1:
            value, at = buf[at:at + 8], at + 8
        elif kind == 2:
            size, at = varint(buf, at)
            value, at = buf[at:at + size], at + size
            if len(value) < size:
                raise ValueError("incomplete")
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, value


def signed(n):
    return n - (1 << 64) if n >> 63 else n


def text(value):
    return bytes(value).decode("utf-8")


def message(buf, **numbers):
    """Fields by name: each argument is NAME=(number, reader); a list if NAME ends with '_'."""
    by_number = {number: (name, read) for name, (number, read) in numbers.items()}
    result = {name: [] for name in numbers if name.endswith("_")}
    for number, value in fields(buf):
        name, read = by_number[number]
        if name.endswith("_"):
            result[name].append(read(value))
        elif name in result:
            raise ValueError(f"{name} twice")
        else:
            result[name] = read(value)
    return result


def annotation(buf):
    m = message(buf, bool=(2, bool), uint=(3, int), int=(4, signed),
                double=(5, lambda v: struct.unpack("<d", v)[0]), string=(6, text), name=(10, text),
                dict_=(11, annotation), array_=(12, annotation))
    name = m.pop("name", None)
    members, elements = m.pop("dict_"), m.pop("array_")
    values = list(m.values()) + ([dict(members)] if members else []) + \
        ([[value for _, value in elements]] if elements else [])
    if len(values) != 1:
        raise ValueError(f"annotation {name} has {len(values)} values")
    return name, values[0]


def event(buf):
    return message(buf, annotations_=(4, annotation), type=(9, int), track=(11, int),
                   categories_=(22, text), name=(23, text), value=(30, signed),
                   real=(44, lambda v: struct.unpack("<d", v)[0]))


def track(buf):
    return message(
        buf, uuid=(1, int), name=(2, text), parent=(5, int),
        counter=(8, lambda b: message(b, unit=(3, int), unit_name=(6, text))),
        process=(3, lambda b: message(b, pid=(1, int), name=(6, text))),
        thread=(4, lambda b: message(b, pid=(1, int), tid=(2, int), name=(5, text))))


def snapshot(buf):
    return message(buf, clocks_=(1, lambda b: message(b, id=(1, int), ns=(2, int))))["clocks_"]


def packet(buf):
    return message(buf, clocks=(6, snapshot), ts=(8, int), sequence=(10, int), event=(11, event),
                   flags=(13, int), clock=(58, int), track=(60, track))


def packets(buf):
    for number, value in fields(buf):
        if number != 1:
            raise ValueError(f"field {number} of a trace")
        yield packet(value)


def main():
    clocks, tracks, events, sequences = {}, {}, [], set()
    try:
        for p in packets(memoryview(sys.stdin.buffer.read())):
            if p.get("flags") == 1:
                sequences.add(p["sequence"])
            assert p["sequence"] in sequences, "a sequence without its start"
            for clock in p.get("clocks", []):
                clocks[clock["id"]] = clock["ns"]
            if "track" in p:
                assert p["track"].get("parent", 0) in [0, *tracks], "an unknown parent"
                tracks.setdefault(p["track"]["uuid"], {}).update(p["track"])
            if "event" in p:
                assert p["clock"] in clocks and p["event"]["track"] in tracks
                events.append(dict(p["event"], ts=p["ts"]))
    except (ValueError, IndexError):
        if len(sys.argv) < 2:
            raise
    slices, instants, counters = [], [], {}
    opened = {uuid: [] for uuid in tracks}
    events.sort(key=lambda e: e["ts"])  # stable, as in trace_processor
    for e in events:
        stack = opened[e["track"]]
        on = tracks[e["track"]]
        assert ("counter" in on) == (e["type"] == 4), "an event of another kind of track"
        if e["type"] == 4:
            counters.setdefault(on["name"], []).append([e["ts"], e.get("value", e.get("real"))])
        elif e["type"] == 1:
            e["depth"] = len(stack)
            e["parent"] = stack[-1]["name"] if stack else None
            stack.append(e)
            slices.append(e)
        elif e["type"] == 2:
            begin = stack.pop()
            begin["dur"] = e["ts"] - begin["ts"]
        else:
            instants.append(e)
    assert not any(opened.values()), "a slice without an end"
    for e in slices + instants:
        own = tracks[e["track"]]
        while "thread" not in own and "process" not in own and "parent" in own:
            own = tracks[own["parent"]]
        e.update(args=dict(e.pop("annotations_")), cat=e.pop("categories_"), **{
            key: own.get("thread", own.get("process", {})).get(key) for key in ("pid", "tid")})
    for item in [*tracks.values(), *slices, *instants]:  # beyond the numbers that jq keeps
        item.update({key: str(item[key]) for key in ("uuid", "parent", "track")
                     if isinstance(item.get(key), int)})
    json.dump({"clocks": clocks, "tracks": list(tracks.values()), "slices": slices,
               "instants": instants, "counters": counters}, sys.stdout)


main()
