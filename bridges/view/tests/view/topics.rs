//! Topics: what is advertised, and that what arrives is what was published.

use std::path::Path;

use foxglove::Decode;
use foxglove::messages::{CompressedImage, FrameTransforms, LaserScan, Log, PointCloud, RawImage};
use outlive::Payload;
use outlive::describe::{Description, Encoding};
use outlive::topic::{Header, Outgoing, Topic};
use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use outlive_testnet::{eventually, skip};
use serde_json::{Value, json};

use crate::support::{LONG, Shown};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Pose {
    position: [f64; 3],
    heading: f32,
    count: u32,
}

/// Waits until the program subscribes to a topic.
fn wait_subscribed<M: Payload + ?Sized>(topic: &Topic<M>) {
    assert!(eventually(LONG, || !topic.subscribers().is_empty()), "nobody subscribes");
}

#[test]
fn what_arrives_is_what_was_published() {
    let shown = Shown::start("arrives", &[]);
    let poses = Topic::<Pose>::options().described().open_or_create(&shown.domain, "robot.pose");
    let poses = poses.expect("made");
    let publisher = poses.publisher().expect("publishes");
    let (mut client, info) = crate::client::Client::connect(shown.port);
    assert!(info["name"].as_str().expect("a name").starts_with("outlive "));
    let channel = client.channel("robot.pose");
    assert_eq!(channel["encoding"], "json");
    assert_eq!(channel["schemaName"], "Pose");
    assert_eq!(channel["schemaEncoding"], "jsonschema");
    let schema: Value =
        serde_json::from_str(channel["schema"].as_str().expect("a text")).expect("JSON");
    assert_eq!(
        schema["properties"]["position"],
        json!({"type": "array", "items": {"type": "number"}})
    );
    assert!(poses.subscribers().is_empty(), "it is read although no client wants it");

    let subscription = client.subscribe("robot.pose");
    wait_subscribed(&poses);
    for count in 0..10 {
        let pose = Pose { position: [1.5, -2.0, f64::from(count)], heading: 0.1, count };
        let header =
            Header { stamp: 1_700_000_000_000_000_000 + u64::from(count), ..Header::default() };
        publisher.publish(Outgoing::new(&pose).header(header)).expect("published");
    }
    for count in 0..10 {
        let (time, bytes) = client.message(subscription);
        assert_eq!(time, 1_700_000_000_000_000_000 + count);
        let said: Value = serde_json::from_slice(&bytes).expect("JSON");
        let wanted = json!({"position": [1.5, -2.0, count as f64], "heading": 0.1, "count": count});
        assert_eq!(said, wanted);
    }
    client.send(&json!({"op": "unsubscribe", "subscriptionIds": [subscription]}));
    assert!(eventually(LONG, || poses.subscribers().is_empty()), "it is still read");
}

#[test]
fn encodings_that_are_known_are_told() {
    let shown = Shown::start("encodings", &[]);
    let described = |name: &str, encoding, as_name: &str| {
        let description = Description::encoded(as_name, encoding).expect("possible");
        let topic = Topic::<[u8]>::options().description(description);
        topic.open_or_create(&shown.domain, name).expect("made")
    };
    let packed = described("packed", Encoding::Msgpack, "");
    let text = described("text", Encoding::Json, "");
    let bytes = Topic::<[u8]>::open_or_create(&shown.domain, "bytes").expect("made");
    let ros = Topic::<[u8]>::options()
        .attribute("ros1.type", "std_msgs/String")
        .attribute("ros1.definition", "string data")
        .open_or_create(&shown.domain, "ros")
        .expect("made");
    let number = Topic::<u32>::options()
        .described()
        .attribute("ros2.type", "std_msgs/msg/UInt32")
        .attribute("ros2.definition", "uint32 data")
        .open_or_create(&shown.domain, "ros2")
        .expect("made");
    let mut client = shown.client();
    for (topic, name, sent, arrives) in [
        (&packed, "packed", &b"\x81\xa1a\x02"[..], &b"{\"a\":2}"[..]),
        (&text, "text", b"{\"b\": 1}", b"{\"b\": 1}"),
        (&bytes, "bytes", b"hello", b"{\"length\":5,\"text\":\"hello\"}"),
        (&bytes, "bytes", b"\xff\x00", b"{\"bytes\":\"/wA=\",\"length\":2}"),
        (&ros, "ros", b"\x02\0\0\0ab", b"\x02\0\0\0ab"),
    ] {
        let publisher = topic.publisher().expect("publishes");
        let subscription = client.subscribe(name);
        wait_subscribed(topic);
        publisher.publish(Outgoing::new(sent)).expect("published");
        assert_eq!(client.message(subscription).1, arrives, "{name}");
        client.send(&json!({"op": "unsubscribe", "subscriptionIds": [subscription]}));
        assert!(eventually(LONG, || topic.subscribers().is_empty()));
    }
    assert_eq!(client.channels["ros"]["schemaEncoding"], "ros1msg");
    assert_eq!(client.channels["ros"]["schemaName"], "std_msgs/String");
    let publisher = number.publisher().expect("publishes");
    let subscription = client.subscribe("ros2");
    wait_subscribed(&number);
    publisher.publish(&7).expect("published");
    assert_eq!(client.message(subscription).1, b"\0\x01\0\0\x07\0\0\0");
    assert_eq!(client.channels["ros2"]["encoding"], "cdr");
}

#[test]
fn a_robots_sensors_are_foxgloves_own_types() {
    let shown = Shown::start("robot", &[]);
    let _robot = shown.robot(None);
    let mut client = shown.client();
    let is = |client: &mut crate::client::Client, topic: &str, schema: &str| {
        assert_eq!(client.channel(topic)["schemaName"], schema, "{topic}");
        let subscription = client.subscribe(topic);
        client.message(subscription).1
    };
    let image = RawImage::decode(&*is(&mut client, "camera.raw", "foxglove.RawImage"));
    let image = image.expect("an image");
    assert_eq!((image.width, image.height, image.step), (320, 240, 960));
    assert_eq!((image.encoding.as_str(), image.frame_id.as_str()), ("rgb8", "camera"));
    assert_eq!(image.data.len(), 960 * 240);
    let cloud = PointCloud::decode(&*is(&mut client, "lidar", "foxglove.PointCloud"));
    let cloud = cloud.expect("points");
    assert_eq!((cloud.point_stride, cloud.data.len()), (16, 360 * 20 * 16));
    assert_eq!(cloud.fields.iter().map(|one| one.offset).collect::<Vec<_>>(), [0, 4, 8, 12]);
    assert_eq!(cloud.frame_id, "robot");
    let scan = LaserScan::decode(&*is(&mut client, "scan", "foxglove.LaserScan")).expect("a scan");
    assert_eq!((scan.ranges.len(), scan.frame_id.as_str()), (360, "robot"));
    assert!(scan.ranges.iter().all(|range| (3.0..=5.0).contains(range)));
    let frames = FrameTransforms::decode(&*is(&mut client, "tf", "foxglove.FrameTransforms"));
    let frames = frames.expect("transforms").transforms;
    assert_eq!(frames[0].parent_frame_id, "world");
    let rotation = frames[0].rotation.as_ref().expect("a rotation");
    assert!((rotation.z.hypot(rotation.w) - 1.0).abs() < 1e-9);
    let line = Log::decode(&*is(&mut client, "log", "foxglove.Log")).expect("a line");
    assert_eq!(line.level, 2);
    assert!(line.message.starts_with("turn "));
    let battery = is(&mut client, "battery", "Battery");
    let battery: Value = serde_json::from_slice(&battery).expect("JSON");
    assert_eq!(battery["cells"].as_array().map(Vec::len), Some(4));
}

/// Pictures and scans of real drives, which this project has not: a folder with them is named by
/// `OUTLIVE_SENSOR_DATA`.
#[test]
fn real_pictures_and_scans_arrive_whole() {
    let Some(data) = std::env::var_os("OUTLIVE_SENSOR_DATA") else {
        skip("real_pictures_and_scans_arrive_whole", "OUTLIVE_SENSOR_DATA names no folder");
        return;
    };
    let data = Path::new(&data);
    let shown = Shown::start("real", &[]);
    let _robot = shown.robot(Some(data));
    let mut client = shown.client();
    let (pictures, clouds) = (client.subscribe("camera.jpeg"), client.subscribe("lidar"));
    let image = CompressedImage::decode(&*client.message(pictures).1).expect("an image");
    assert_eq!(image.format, "jpeg");
    let files = std::fs::read_dir(data).expect("a folder").flatten();
    let files: Vec<Vec<u8>> = files.filter_map(|entry| std::fs::read(entry.path()).ok()).collect();
    assert!(files.iter().any(|file| **file == *image.data), "it is none of the pictures");
    let cloud = PointCloud::decode(&*client.message(clouds).1).expect("points");
    assert!(cloud.data.len() > 100_000 && cloud.data.len().is_multiple_of(16));
}

#[test]
fn topics_come_and_go() {
    let shown = Shown::start("comes", &[]);
    let mut client = shown.client();
    let topic = Topic::<u64>::options().described().open_or_create(&shown.domain, "one");
    let topic = topic.expect("made");
    let first = client.channel("one")["id"].clone();
    let subscription = client.subscribe("one");
    wait_subscribed(&topic);
    topic.publisher().expect("publishes").publish(&5).expect("published");
    assert_eq!(client.json(subscription), json!({"value": 5}));
    shown.domain.remove("one").expect("removed");
    client.no_channel("one");
    let topic = Topic::<f32>::options().described().open_or_create(&shown.domain, "one");
    let topic = topic.expect("made");
    assert_ne!(client.channel("one")["id"], first);
    let subscription = client.subscribe("one");
    wait_subscribed(&topic);
    topic.publisher().expect("publishes").publish(&0.5).expect("published");
    assert_eq!(client.json(subscription), json!({"value": 0.5}));
}

#[test]
fn one_subscriber_serves_all_clients_and_a_slow_one_is_waited_for_by_nobody() {
    let shown = Shown::start("slow", &["--backlog", "16"]);
    let frames = Topic::<[u8]>::options().depth(8).open_or_create(&shown.domain, "frames");
    let frames = frames.expect("made");
    let publisher = frames.publisher().expect("publishes");
    let (mut slow, mut quick, mut other) = (shown.client(), shown.client(), shown.client());
    slow.subscribe("frames");
    let subscriptions = [quick.subscribe("frames"), other.subscribe("frames")];
    wait_subscribed(&frames);
    // Far more than sockets hold; the slow client reads nothing.
    let message = vec![b'a'; 64 << 10];
    let mut quick_has = 0;
    for _ in 0..2_000 {
        publisher.publish(Outgoing::new(&*message)).expect("published");
        quick.message(subscriptions[0]);
        quick_has += 1;
    }
    assert_eq!(quick_has, 2_000);
    assert_eq!(frames.subscribers().len(), 1, "one for all clients");
    let said = other.json(subscriptions[1]);
    assert_eq!(said["length"], 64 << 10);
    drop((slow, quick, other));
    assert!(eventually(LONG, || frames.subscribers().is_empty()), "it is still read");
}

#[test]
fn a_client_that_comes_later_gets_the_last_message() {
    let shown = Shown::start("later", &[]);
    let topic = Topic::<u32>::options().described().open_or_create(&shown.domain, "seldom");
    let topic = topic.expect("made");
    let publisher = topic.publisher().expect("publishes");
    let mut first = shown.client();
    let subscription = first.subscribe("seldom");
    wait_subscribed(&topic);
    publisher.publish(&41).expect("published");
    assert_eq!(first.json(subscription), json!({"value": 41}));
    let mut second = shown.client();
    let subscription = second.subscribe("seldom");
    assert_eq!(second.json(subscription), json!({"value": 41}));
}

#[test]
fn a_message_that_is_no_picture_is_told_once_and_the_next_one_shown() {
    let shown = Shown::start("wrong", &[]);
    let topic = Topic::<[u8]>::options().attribute("view.as", "compressed-image");
    let topic = topic.open_or_create(&shown.domain, "camera").expect("made");
    let publisher = topic.publisher().expect("publishes");
    let mut client = shown.client();
    let subscription = client.subscribe("camera");
    wait_subscribed(&topic);
    publisher.publish(Outgoing::new(&b"no picture"[..])).expect("published");
    let status = client.operation("status");
    assert!(status["message"].as_str().expect("a text").starts_with("camera: "), "{status}");
    let jpeg = b"\xff\xd8\xff\xe0 and so on";
    publisher.publish(Outgoing::new(&jpeg[..])).expect("published");
    let image = client.message(subscription).1;
    let image = CompressedImage::decode(&*image).expect("an image");
    assert_eq!((image.format.as_str(), &*image.data), ("jpeg", &jpeg[..]));
}

#[test]
fn hundreds_of_topics_come_at_once_and_no_client_is_lost() {
    let shown = Shown::start("many", &[]);
    let mut client = shown.client();
    for at in 0..300 {
        let topic = Topic::<u8>::options().depth(1);
        topic.open_or_create(&shown.domain, &format!("t{at}")).expect("made");
    }
    for at in 0..300 {
        client.channel(&format!("t{at}"));
    }
}
