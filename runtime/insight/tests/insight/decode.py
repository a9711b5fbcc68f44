"""Decodes a trace with Perfetto's published definitions, and checks what a viewer relies on.

Usage: decode.py FILE STEPS FRAMES RUNS ARRIVED
"""

import sys
from collections import defaultdict

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as published


def events_by_track(packets):
    """The events of each track, in the order in which a viewer takes them."""
    tracks = defaultdict(list)
    for packet in packets:
        if packet.HasField("track_event"):
            event = packet.track_event
            tracks[event.track_uuid].append((packet.timestamp, event))
    return {uuid: sorted(events, key=lambda timed: timed[0]) for uuid, events in tracks.items()}


def check_slices(name, events):
    """Slices nest, and each that begins ends. Returns those that are within no other."""
    depth, outer = 0, []
    for _, event in events:
        if event.type == event.TYPE_SLICE_BEGIN:
            if depth == 0:
                outer.append(event)
            depth += 1
        elif event.type == event.TYPE_SLICE_END:
            depth -= 1
        assert depth >= 0, f"{name}: a slice ends that has not begun"
        assert depth <= 2, f"{name}: slices overlap"
    assert depth == 0, f"{name}: a slice has no end"
    return outer


def main():
    path, steps, frames, runs, arrived = sys.argv[1:]
    with open(path, "rb") as file:
        trace = published.Trace.FromString(file.read())
    unknown = [packet for packet in trace.packet if packet.WhichOneof("data") is None]
    assert not unknown, f"packets without known content: {unknown[:1]}"
    assert all(packet.trusted_packet_sequence_id for packet in trace.packet)
    assert trace.packet[0].sequence_flags & 1, "the sequence begins"

    # A track is declared before it is used, below one that is declared.
    tracks = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert not track.HasField("parent_uuid") or track.parent_uuid in tracks
            tracks[track.uuid] = track
        elif packet.HasField("track_event"):
            assert packet.track_event.track_uuid in tracks
    groups = {track.name: uuid for uuid, track in tracks.items() if uuid and not track.parent_uuid}
    assert set(groups) >= {"Scheduler", "Partitions", "Tasks", "Clients", "Threads", "Counters"}, groups

    outer = defaultdict(list)
    flows = defaultdict(set)
    instants = defaultdict(int)
    for uuid, events in events_by_track(trace.packet).items():
        track = tracks[uuid]
        group = tracks[track.parent_uuid].name if track.parent_uuid else track.name
        for _, event in events:
            assert (event.type == event.TYPE_COUNTER) == track.HasField("counter"), track
            assert not event.HasField("counter_value") or group == "Counters"
            instants[group] += event.type == event.TYPE_INSTANT
            for flow in event.flow_ids:
                flows[flow].add(group)
        outer[group] += check_slices(track.name, events)

    assert len(outer["Scheduler"]) == int(steps), (len(outer["Scheduler"]), steps)
    assert len(outer["Tasks"]) == int(frames), (len(outer["Tasks"]), frames)
    assert len(outer["Partitions"]) + instants["Partitions"] >= int(runs)

    # One flow for each frame, through all tracks that it was on.
    assert len(flows) == int(arrived), (len(flows), arrived)
    frame_flows = [flow for event in outer["Tasks"] for flow in event.flow_ids]
    assert sorted(frame_flows) == sorted(flows), "each frame has one flow of its own"
    for event in outer["Tasks"]:
        notes = {note.name: note for note in event.debug_annotations}
        verdict = notes["verdict"].string_value
        assert event.name.startswith(verdict)
        (flow,) = event.flow_ids
        expected = {"Scheduler", "Tasks", "Clients", "Threads"}
        if verdict in ("on time", "late"):
            expected.add("Partitions")
            assert notes["exit"].int_value >= 0 and 0 <= notes["confidence"].double_value <= 1
        assert flows[flow] >= expected, (event, flows[flow])


if __name__ == "__main__":
    main()
