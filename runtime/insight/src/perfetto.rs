//! Perfetto's native trace format, as far as tracks, slices, instants, counters and flows need it.
//!
//! A trace is a sequence of packets, so it is written as it grows. Field numbers are those of `protos/perfetto/trace` in
//! [Perfetto's repository](https://github.com/google/perfetto); a test decodes what this writes with the definitions that
//! Perfetto publishes.

use std::io::{self, Write};

use prost::Message;

/// The messages, with Perfetto's names. Fields that are not written are left out.
mod messages {
    /// A packet, as the field of the message `Trace` that it is.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Trace {
        #[prost(message, repeated, tag = "1")]
        pub(super) packet: Vec<TracePacket>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct TracePacket {
        #[prost(uint64, optional, tag = "8")]
        pub(super) timestamp: Option<u64>,
        #[prost(uint32, optional, tag = "10")]
        pub(super) trusted_packet_sequence_id: Option<u32>,
        #[prost(uint32, optional, tag = "13")]
        pub(super) sequence_flags: Option<u32>,
        #[prost(oneof = "Data", tags = "6, 11, 60")]
        pub(super) data: Option<Data>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum Data {
        #[prost(message, tag = "6")]
        ClockSnapshot(ClockSnapshot),
        #[prost(message, tag = "11")]
        TrackEvent(TrackEvent),
        #[prost(message, tag = "60")]
        TrackDescriptor(TrackDescriptor),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ClockSnapshot {
        #[prost(message, repeated, tag = "1")]
        pub(super) clocks: Vec<Clock>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Clock {
        #[prost(uint32, optional, tag = "1")]
        pub(super) clock_id: Option<u32>,
        #[prost(uint64, optional, tag = "2")]
        pub(super) timestamp: Option<u64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct TrackDescriptor {
        #[prost(uint64, optional, tag = "1")]
        pub(super) uuid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub(super) name: Option<String>,
        #[prost(uint64, optional, tag = "5")]
        pub(super) parent_uuid: Option<u64>,
        #[prost(message, optional, tag = "8")]
        pub(super) counter: Option<CounterDescriptor>,
        #[prost(int32, optional, tag = "11")]
        pub(super) child_ordering: Option<i32>,
        #[prost(int32, optional, tag = "12")]
        pub(super) sibling_order_rank: Option<i32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct CounterDescriptor {
        #[prost(int32, optional, tag = "3")]
        pub(super) unit: Option<i32>,
        #[prost(string, optional, tag = "6")]
        pub(super) unit_name: Option<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct TrackEvent {
        #[prost(message, repeated, tag = "4")]
        pub(super) debug_annotations: Vec<DebugAnnotation>,
        #[prost(int32, optional, tag = "9")]
        pub(super) r#type: Option<i32>,
        #[prost(uint64, optional, tag = "11")]
        pub(super) track_uuid: Option<u64>,
        #[prost(string, optional, tag = "23")]
        pub(super) name: Option<String>,
        #[prost(int64, optional, tag = "30")]
        pub(super) counter_value: Option<i64>,
        // Written one by one: Perfetto's definitions are of proto2, in which numbers are not packed.
        #[prost(fixed64, repeated, packed = "false", tag = "47")]
        pub(super) flow_ids: Vec<u64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct DebugAnnotation {
        #[prost(string, optional, tag = "10")]
        pub(super) name: Option<String>,
        #[prost(oneof = "Value", tags = "2, 4, 5, 6")]
        pub(super) value: Option<Value>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum Value {
        #[prost(bool, tag = "2")]
        Bool(bool),
        #[prost(int64, tag = "4")]
        Int(i64),
        #[prost(double, tag = "5")]
        Double(f64),
        #[prost(string, tag = "6")]
        Text(String),
    }
}

use messages::{
    Clock, ClockSnapshot, CounterDescriptor, Data, DebugAnnotation, Trace, TracePacket,
    TrackDescriptor, TrackEvent, Value,
};

// Of TrackEvent.Type.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;

/// Of TrackDescriptor.ChildTracksOrdering: children stand by their rank.
const EXPLICIT: i32 = 3;

/// Of CounterDescriptor.Unit.
const TIME_NS: i32 = 1;

// Of BuiltinClock. Timestamps are on the first unless they say otherwise.
const BOOTTIME: u32 = 6;
const REALTIME: u32 = 1;

/// Of TracePacket.SequenceFlags: nothing of what was written before is needed.
const INCREMENTAL_STATE_CLEARED: u32 = 1;

/// One writer writes all of it.
const SEQUENCE: u32 = 1;

/// A track that was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrackId(u64);

/// Above the tracks that have no other parent.
pub(crate) const ROOT: TrackId = TrackId(0);

/// The values of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    Nanoseconds,
    Percent,
}

/// An argument that a viewer shows with an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details(Vec<DebugAnnotation>);

impl Details {
    fn add(&mut self, name: &str, value: Value) {
        self.0.push(DebugAnnotation {
            name: Some(name.to_owned()),
            value: Some(value),
        });
    }

    pub(crate) fn text(mut self, name: &str, value: impl Into<String>) -> Self {
        self.add(name, Value::Text(value.into()));
        self
    }

    /// A number too large for the format becomes the largest that it has.
    pub(crate) fn number(mut self, name: &str, value: impl TryInto<i64>) -> Self {
        self.add(name, Value::Int(value.try_into().unwrap_or(i64::MAX)));
        self
    }

    pub(crate) fn real(mut self, name: &str, value: f64) -> Self {
        self.add(name, Value::Double(value));
        self
    }

    pub(crate) fn flag(mut self, name: &str, value: bool) -> Self {
        self.add(name, Value::Bool(value));
        self
    }
}

/// What happens at a time, or from a time on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Happening {
    pub(crate) name: String,
    pub(crate) details: Details,
    /// The flows that go through it.
    pub(crate) flows: Vec<u64>,
}

/// A trace that is being written.
pub(crate) struct Writer<W: Write> {
    out: W,
    buffer: Vec<u8>,
    tracks: u64,
    packets: u64,
}

impl<W: Write> Writer<W> {
    /// # Errors
    /// If nothing can be written.
    pub(crate) fn new(out: W) -> io::Result<Self> {
        let mut writer = Self {
            out,
            buffer: Vec::new(),
            tracks: ROOT.0,
            packets: 0,
        };
        writer.describe(TrackDescriptor {
            uuid: Some(ROOT.0),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        })?;
        Ok(writer)
    }

    /// Says which time of day a timestamp is.
    pub(crate) fn clock(&mut self, at_ns: u64, realtime_ns: u64) -> io::Result<()> {
        let clock = |id, timestamp| Clock {
            clock_id: Some(id),
            timestamp: Some(timestamp),
        };
        let clocks = vec![clock(BOOTTIME, at_ns), clock(REALTIME, realtime_ns)];
        self.packet(None, Data::ClockSnapshot(ClockSnapshot { clocks }))
    }

    /// Declares a track, which stands among those of its parent by its rank. Tracks of one parent and one name are drawn as
    /// one: slices that overlap are on several of them.
    pub(crate) fn track(
        &mut self,
        parent: TrackId,
        rank: usize,
        name: &str,
    ) -> io::Result<TrackId> {
        self.declare(parent, rank, name, None)
    }

    pub(crate) fn counter(
        &mut self,
        parent: TrackId,
        rank: usize,
        name: &str,
        unit: Unit,
    ) -> io::Result<TrackId> {
        let counter = match unit {
            Unit::Count => CounterDescriptor::default(),
            Unit::Nanoseconds => CounterDescriptor {
                unit: Some(TIME_NS),
                unit_name: None,
            },
            Unit::Percent => CounterDescriptor {
                unit: None,
                unit_name: Some("%".to_owned()),
            },
        };
        self.declare(parent, rank, name, Some(counter))
    }

    /// Slices of a track come in the order of their times, each in one that it is within or behind all others.
    pub(crate) fn begin(&mut self, track: TrackId, at_ns: u64, what: Happening) -> io::Result<()> {
        self.happens(track, at_ns, SLICE_BEGIN, what)
    }

    pub(crate) fn end(&mut self, track: TrackId, at_ns: u64) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: Some(track.0),
            ..TrackEvent::default()
        };
        self.packet(Some(at_ns), Data::TrackEvent(event))
    }

    pub(crate) fn instant(
        &mut self,
        track: TrackId,
        at_ns: u64,
        what: Happening,
    ) -> io::Result<()> {
        self.happens(track, at_ns, INSTANT, what)
    }

    pub(crate) fn count(&mut self, track: TrackId, at_ns: u64, value: i64) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(COUNTER),
            track_uuid: Some(track.0),
            counter_value: Some(value),
            ..TrackEvent::default()
        };
        self.packet(Some(at_ns), Data::TrackEvent(event))
    }

    /// # Errors
    /// If the last of it cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn declare(
        &mut self,
        parent: TrackId,
        rank: usize,
        name: &str,
        counter: Option<CounterDescriptor>,
    ) -> io::Result<TrackId> {
        self.tracks += 1;
        let track = TrackId(self.tracks);
        self.describe(TrackDescriptor {
            uuid: Some(track.0),
            name: Some(name.to_owned()),
            parent_uuid: (parent != ROOT).then_some(parent.0),
            counter,
            child_ordering: Some(EXPLICIT),
            sibling_order_rank: Some(i32::try_from(rank).unwrap_or(i32::MAX)),
        })?;
        Ok(track)
    }

    fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.packet(None, Data::TrackDescriptor(track))
    }

    fn happens(
        &mut self,
        track: TrackId,
        at_ns: u64,
        kind: i32,
        what: Happening,
    ) -> io::Result<()> {
        let event = TrackEvent {
            debug_annotations: what.details.0,
            r#type: Some(kind),
            track_uuid: Some(track.0),
            name: Some(what.name),
            counter_value: None,
            flow_ids: what.flows,
        };
        self.packet(Some(at_ns), Data::TrackEvent(event))
    }

    fn packet(&mut self, timestamp: Option<u64>, data: Data) -> io::Result<()> {
        let is_first = self.packets == 0;
        self.packets += 1;
        let packet = TracePacket {
            timestamp,
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: is_first.then_some(INCREMENTAL_STATE_CLEARED),
            data: Some(data),
        };
        self.buffer.clear();
        let trace = Trace {
            packet: vec![packet],
        };
        trace
            .encode(&mut self.buffer)
            .expect("a vector grows as it has to");
        self.out.write_all(&self.buffer)
    }
}
