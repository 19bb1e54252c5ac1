//! What `outlive record` writes is seen as the topics were: the same messages, live and from the file.

use std::path::Path;
use std::time::{Duration, Instant};

use outlive::describe::{Description, Encoding, InlineString, InlineVec};
use outlive::queue::Queue;
use outlive::state::State;
use outlive::topic::{Header, Outgoing, Topic, TopicOptions};
use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use outlive::{Domain, Payload};
use outlive_record::{Kinds, Options, Recorder};
use outlive_testnet::{Folder, eventually};
use serde_json::json;

use crate::client::Client;
use crate::recordings::control;
use crate::states::values;
use crate::support::{LONG, Shown};

const STAMP: u64 = 1_700_000_000_123_456_789;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Picture {
    frame_id: InlineString<12>,
    width: u32,
    height: u32,
    _room: u32,
    data: InlineVec<u8, 32>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Point {
    x: f32,
    y: f32,
    z: f32,
    ring: u16,
    _room: u16,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Scan {
    angle_min: f32,
    angle_max: f32,
    ranges: InlineVec<f32, 4>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Placed {
    frame_id: InlineString<12>,
    child_frame_id: InlineString<12>,
    translation: [f64; 3],
    rotation: [f64; 4],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Pose {
    position: [f64; 3],
    heading: f32,
    count: u32,
}

/// A topic and its message.
struct Sent {
    name: &'static str,
    topic: Topic<[u8]>,
    bytes: Vec<u8>,
    own: [u8; 32],
}

/// The header of an array, as Python's publisher writes it.
fn array(kind: u8, item: u8, extents: &[u32]) -> [u8; 32] {
    let mut own = [0; 32];
    own[..4].copy_from_slice(&[0xA5, extents.len() as u8, kind, item]);
    for (at, extent) in extents.iter().enumerate() {
        own[4 + 4 * at..8 + 4 * at].copy_from_slice(&extent.to_le_bytes());
    }
    own
}

fn all(domain: &Domain) -> Vec<Sent> {
    let text = |text| InlineString::new(text).expect("fits");
    let made_with =
        |options: TopicOptions<[u8]>, attributes: &[(&str, &str)], name, bytes: &[u8], own| {
            let domain = domain.with_attributes(attributes.iter().copied());
            let topic = options.depth(4).open_or_create(&domain, name).expect("made");
            Sent { name, topic, bytes: bytes.to_vec(), own }
        };
    let made = |options, name, bytes: &[u8], own| made_with(options, &[], name, bytes, own);
    let plain = Topic::<[u8]>::options;
    let is = |description| plain().description(description);
    let encoded = |encoding| is(Description::encoded("", encoding).expect("possible"));
    let (width, height, _room) = (4, 2, 0);
    let data = InlineVec::from_slice(&[7; 24]).expect("fits");
    let picture = Picture { frame_id: text("cam"), width, height, _room, data };
    let point = |x| Point { x, y: 2.0, z: 3.0, ring: 4, _room: 0 };
    let points = Description::of::<Point>().slice().expect("possible");
    let ranges = InlineVec::from_slice(&[1.0, 2.0, 3.0]).expect("fits");
    let scan = Scan { angle_min: -1.0, angle_max: 1.0, ranges };
    let placed = Placed {
        frame_id: text("map"),
        child_frame_id: text("base"),
        translation: [1.0, 2.0, 3.0],
        rotation: [0.0, 0.0, 0.0, 1.0],
    };
    let pose = Pose { position: [1.5, -2.0, 3.0], heading: 0.1, count: 7 };
    let ros = [("ros2.type", "std_msgs/msg/UInt32"), ("ros2.definition", "uint32 data")];
    let [jpeg, image, cloud] =
        ["compressed-image", "image", "points"].map(|word| [("view.as", word)]);
    let none = [0; 32];
    let grey: Vec<u8> = (0..12).collect();
    vec![
        made(is(Description::of::<Picture>()), "picture", picture.as_bytes(), none),
        made(is(points), "points", [point(1.0), point(9.0)].as_bytes(), none),
        made(is(Description::of::<Scan>()), "scan", scan.as_bytes(), none),
        made(is(Description::of::<Placed>()), "placed", placed.as_bytes(), none),
        made(is(Description::of::<Pose>()), "pose", pose.as_bytes(), none),
        made(is(Description::of::<f64>()), "number", &2.5_f64.to_ne_bytes(), none),
        made_with(is(Description::of::<u32>()), &ros, "ros", &7_u32.to_ne_bytes(), none),
        made(encoded(Encoding::Msgpack), "packed", b"\x81\xa1a\x02", none),
        made(encoded(Encoding::Json), "json", b"{\"b\": 1}", none),
        made(encoded(Encoding::Protobuf), "protobuf", b"\x08\x01", none),
        made_with(plain(), &jpeg, "jpeg", b"\xff\xd8\xff and so on", none),
        made(plain(), "bytes", b"hello", none),
        made_with(plain(), &image, "array.image", &grey, array(b'u', 1, &[3, 4])),
        made_with(
            plain(),
            &cloud,
            "array.points",
            [1.0_f32; 6].as_bytes(),
            array(b'f', 4, &[2, 3]),
        ),
    ]
}

fn records(domain: &Domain, path: &Path) -> Recorder {
    let kinds = Kinds { topics: true, queues: true, states: true, services: true };
    Recorder::start(domain, Options { kinds, ..Options::new(path) }).expect("records")
}

/// Records until so many messages are there.
fn record(mut recorder: Recorder, messages: u64) {
    assert!(eventually(LONG, || {
        recorder.step(Instant::now() + Duration::from_millis(20)).expect("records");
        recorder.counts().messages >= messages
    }));
    recorder.finish().expect("a whole file");
}

#[test]
fn a_recording_is_seen_as_its_topics_were() {
    let live = Shown::start("live", &[]);
    let folder = Folder::new("file");
    let path = folder.join("run.mcap");
    let all = all(&live.domain);
    let recorder = records(&live.domain, &path);
    let mut client = live.client();
    let mut seen = Vec::new();
    for Sent { name, topic, bytes, own } in &all {
        let subscription = client.subscribe(name);
        // The recorder is the other one.
        assert!(eventually(LONG, || topic.subscribers().len() == 2), "{name}");
        let header = Header { stamp: STAMP, own: *own, ..Header::default() };
        let publisher = topic.publisher().expect("publishes");
        publisher.publish(Outgoing::new(&bytes[..]).header(header)).expect("published");
        seen.push(client.message(subscription).1);
    }
    record(recorder, all.len() as u64);

    let played = Shown::start("file", &[&path.display().to_string(), "--paused"]);
    let mut again = played.client();
    let mut subscriptions = Vec::new();
    for Sent { name, .. } in &all {
        subscriptions.push(again.subscribe(name));
        for key in ["encoding", "schemaName", "schemaEncoding", "schema"] {
            assert_eq!(again.channels[*name][key], client.channels[*name][key], "{name}: {key}");
        }
    }
    control(&mut again, false, 1.0, Some(u64::MAX));
    for ((Sent { name, .. }, subscription), wanted) in all.iter().zip(subscriptions).zip(seen) {
        assert_eq!(again.message(subscription).1, wanted, "{name}");
    }
    let schema = |name: &str| again.channels[name]["schemaName"].as_str();
    for (name, wanted) in [
        ("picture", "foxglove.RawImage"),
        ("array.image", "foxglove.RawImage"),
        ("points", "foxglove.PointCloud"),
        ("array.points", "foxglove.PointCloud"),
        ("scan", "foxglove.LaserScan"),
        ("placed", "foxglove.FrameTransforms"),
        ("jpeg", "foxglove.CompressedImage"),
        ("pose", "Pose"),
    ] {
        assert_eq!(schema(name), Some(wanted), "{name}");
    }
}

/// States are parameters that have the value of the time that is played; queues and services are channels.
#[test]
fn what_is_no_topic_is_seen_too() {
    let folder = Folder::new("kinds");
    let path = folder.join("run.mcap");
    let domain = Domain::open_or_create_at(folder.join("domain")).expect("made");
    let speed = State::<f64>::options().described().initial(&1.5);
    let speed = speed.open_or_create(&domain, "speed").expect("made");
    let queue = Queue::<Pose>::options().described().open_or_create(&domain, "jobs").expect("made");
    let mut recorder = records(&domain, &path);
    // A queue is read from where the first look finds it.
    recorder.step(Instant::now() + Duration::from_millis(20)).expect("records");
    let receiver = queue.receiver();
    let pose = Pose { position: [1.0; 3], heading: 0.5, count: 3 };
    let (sender, mut receiver) = (queue.sender().expect("sends"), receiver.expect("alone"));
    sender.send(&pose).expect("sent");
    assert_eq!(receiver.recv().expect("a message").count, 3);
    // The value that it begins with, and the message.
    assert!(eventually(LONG, || {
        recorder.step(Instant::now() + Duration::from_millis(20)).expect("records");
        recorder.counts().messages >= 2
    }));
    // Later than those.
    std::thread::sleep(Duration::from_millis(2));
    speed.writer().expect("alone").set(&2.25).expect("set");
    record(recorder, 3);

    let shown = Shown::start("kinds", &[&path.display().to_string(), "--paused"]);
    let mut client = shown.client();
    let (states, jobs) = (client.subscribe("state/speed"), client.subscribe("queue/jobs"));
    client.send(&json!({"op": "subscribeParameterUpdates", "parameterNames": ["speed"]}));
    let value = |value: f64| json!([{"name": "speed", "type": "float64", "value": value}]);
    let told = |client: &mut Client, wanted: f64| {
        while client.operation("parameterValues")["parameters"] != value(wanted) {}
    };
    control(&mut client, true, 1.0, Some(0));
    told(&mut client, 1.5);
    assert_eq!(client.json(states), json!({"value": 1.5}));
    assert_eq!(client.json(jobs)["count"], 3);
    told(&mut client, 2.25);
    assert_eq!(client.json(states), json!({"value": 2.25}));
    let set = json!({"op": "setParameters", "id": "set", "parameters": [{"name": "speed", "value": 3.0}]});
    assert_eq!(values(&mut client, &set), value(2.25));
}
