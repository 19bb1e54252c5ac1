//! Independent readers decode what described topics are in a file: PyPI's `mcap-ros2-support` and `rosbags`.

use std::process::Command;

use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use outlive::queue::Queue;
use outlive::state::State;
use outlive::topic::{Topic, TopicOptions};

use crate::support::{Contents, Place};

/// Prints, for each reader, what it decodes: a line for each message, in the order of their topics.
const READ: &str = "
import sys
from pathlib import Path
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore
def shown(value):
    if hasattr(value, '__slots__') or hasattr(value, '__dataclass_fields__'):
        names = getattr(value, '__dataclass_fields__', None) or value.__slots__
        return {name: shown(getattr(value, name)) for name in names if not name.startswith('_')}
    if isinstance(value, (list, tuple, bytes)) or hasattr(value, 'tolist'):
        return [shown(one) for one in value] if getattr(value, 'ndim', 1) else value.item()
    return value
factory = DecoderFactory()
with open(sys.argv[1], 'rb') as file:
    lines = []
    for schema, channel, message in make_reader(file).iter_messages():
        decode = schema and factory.decoder_for(channel.message_encoding, schema)
        if decode:
            lines.append(f'{channel.topic} {shown(decode(message.data))}')
    print(*sorted(lines), sep=chr(10))
print('rosbags')
with AnyReader([Path(sys.argv[1])], default_typestore=get_typestore(Stores.EMPTY)) as bag:
    lines = []
    for connection, _, raw in bag.messages():
        if connection.ext.serialization_format == 'cdr' and connection.msgdef.data:
            lines.append(f'{connection.topic} {shown(bag.deserialize(raw, connection.msgtype))}')
    print(*sorted(lines), sep=chr(10))
";

/// Returns a Python that has both readers, or says that the test is without them.
fn python(test: &str) -> Option<String> {
    let named = std::env::var("OUTLIVE_MCAP_PYTHON").ok();
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python").to_owned();
    let mut all = named.into_iter().chain([own, "python3".to_owned()]);
    let found = all.find(|python| {
        let tried = Command::new(python).args(["-c", "import mcap_ros2, rosbags"]).output();
        tried.is_ok_and(|tried| tried.status.success())
    });
    if found.is_none() {
        println!("{test}: skipped: no Python here has the packages mcap-ros2-support and rosbags");
    }
    found
}

fn field(name: &str, offset: u32, extents: &[u32], item: Item) -> Field {
    Field { name: name.to_owned(), offset, extents: extents.to_vec(), item }
}

/// A byte, and a number behind it: with padding that CDR does not have where it is nested.
fn inner() -> Struct {
    let fields = vec![
        field("tag", 0, &[], Item::Number(Number::U8)),
        field("value", 4, &[], Item::Number(Number::F32)),
    ];
    Struct { size: 8, align: 4, fields }
}

fn topic(options: TopicOptions<[u8]>, place: &Place, name: &str) -> Topic<[u8]> {
    options.depth(16).open_or_create(&place.domain, name).expect("made")
}

#[test]
fn other_programs_decode_described_messages() {
    let Some(python) = python("other_programs_decode_described_messages") else { return };
    let place = Place::new("readers");
    let outer = Struct {
        size: 20,
        align: 4,
        fields: vec![
            field("valid", 0, &[], Item::Number(Number::Bool)),
            field("pair", 4, &[2], Item::Struct(inner())),
        ],
    };
    let described = |name: &str, shape: Struct| Description::raw(name, shape).expect("no flaw");
    let options = |description| Topic::<[u8]>::options().description(description);
    // Two types of one name, and one that has none.
    let one = topic(options(described("a::Value", outer)), &place, "one");
    let two = topic(options(described("b::Value", inner())), &place, "two");
    let list = described("", inner()).slice().expect("no flaw");
    let list = topic(options(list), &place, "list");
    // Of ROS 2, whose definition the topic has.
    let shape =
        Struct { size: 8, align: 8, fields: vec![field("x", 0, &[], Item::Number(Number::F64))] };
    let named = options(described("geometry_msgs/msg/Only", shape))
        .depth(16)
        .attribute("ros2.type", "geometry_msgs/msg/Only")
        .attribute("ros2.definition", "float64 x")
        .open_or_create(&place.domain, "ros")
        .expect("made");
    // CDR of which the definition is not known, JSON and bytes are no hindrance.
    let encoded = Description::encoded("std_msgs/msg/String", Encoding::Cdr).expect("no flaw");
    let encoded = topic(options(encoded), &place, "text");
    let bytes = topic(Topic::<[u8]>::options(), &place, "bytes");
    let value = |tag: u8, number: f32| {
        let mut bytes = vec![tag, 9, 9, 9];
        bytes.extend(number.to_le_bytes());
        bytes
    };
    // What is no topic, too. A recorder begins with the value that holds, and with what is unread.
    let state = State::<[u8]>::options().capacity(8).description(described("State", inner()));
    let state = state.open_or_create(&place.domain, "state").expect("made");
    let queue = Queue::<[u8]>::options().description(described("Item", inner()));
    let queue = queue.open_or_create(&place.domain, "queue").expect("made");
    state.writer().expect("none").set(&value(7, 7.5)).expect("set");
    queue.sender().expect("one").send(&value(8, 8.5)).expect("room");
    let args = ["--all", "--queues", "--states", "-o", "out.mcap", "--flush", "5ms"];
    let recording = place.record(&args, 6);
    let mut outer = vec![1, 9, 9, 9];
    outer.extend([value(1, 0.5), value(2, 1.5)].concat());
    for (topic, bytes) in [
        (&one, outer),
        (&two, value(3, 2.5)),
        (&list, [value(4, 3.5), value(5, 4.5), value(6, 5.5)].concat()),
        (&list, vec![]),
        (&named, 6.5_f64.to_le_bytes().to_vec()),
        (&encoded, b"\0\x01\0\0\x03\0\0\0ab\0".to_vec()),
        (&bytes, vec![1, 2, 3]),
    ] {
        topic.publisher().expect("a ring").publish(&bytes).map(drop).expect("published");
    }
    let file = place.file("out.mcap");
    assert!(crate::support::eventually(|| {
        let contents = Contents::of(&file);
        ["state/state", "queue/queue"].iter().all(|name| contents.messages(name).len() == 1)
    }));
    recording.end();
    let contents = Contents::of(&file);
    let name = |topic: &str| contents.topics[topic].schema.as_ref().expect("a schema").0.clone();
    assert_ne!(name("one"), name("two"));
    assert_eq!(name("list"), "outlive/msg/List");
    let ran = Command::new(&python).args(["-c", READ]).arg(&file).output().expect("Python runs");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    let wanted = [
        "list {'items': []}",
        "list {'items': [{'tag': 4, 'value': 3.5}, {'tag': 5, 'value': 4.5}, {'tag': 6, 'value': 5.5}]}",
        "one {'valid': True, 'pair': [{'tag': 1, 'value': 0.5}, {'tag': 2, 'value': 1.5}]}",
        "queue/queue {'tag': 8, 'value': 8.5}",
        "ros {'x': 6.5}",
        "state/state {'tag': 7, 'value': 7.5}",
        "two {'tag': 3, 'value': 2.5}",
    ];
    let found = String::from_utf8_lossy(&ran.stdout);
    let (mcap, rosbags) = found.split_once("rosbags\n").expect("both");
    assert_eq!(mcap.lines().collect::<Vec<_>>(), wanted, "mcap");
    assert_eq!(rosbags.lines().collect::<Vec<_>>(), wanted, "rosbags");
}

/// Messages of ROS's own bytes come with ROS's definitions.
#[test]
fn topics_of_ros_have_their_own_schemas() {
    let place = Place::new("ros");
    let of_ros = |name: &str, version: &str, encoding| {
        let description = Description::encoded("std_msgs/String", encoding).expect("no flaw");
        let options = Topic::<[u8]>::options().depth(16).description(description);
        let options = options.attribute(&format!("{version}.type"), "std_msgs/String");
        let topic = match name.ends_with("bare") {
            true => options.open_or_create(&place.domain, name),
            false => options
                .attribute(&format!("{version}.definition"), "string data")
                .open_or_create(&place.domain, name),
        };
        topic.expect("made").publisher().expect("a ring").publish(b"xyz").map(drop).expect("there");
    };
    let recording = place.begin(&["--all", "-o", "out.mcap"], "out.mcap");
    of_ros("one", "ros1", Encoding::Bytes);
    of_ros("two", "ros2", Encoding::Cdr);
    of_ros("bare", "ros2", Encoding::Cdr);
    assert!(crate::support::eventually(|| place.subscribers(recording.0.id()) == 3));
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    for (topic, wanted) in [
        ("one", ("ros1", "ros1msg", "string data")),
        ("two", ("cdr", "ros2msg", "string data")),
        ("bare", ("cdr", "", "")),
    ] {
        let channel = &contents.topics[topic];
        let (name, schema, text) = channel.schema.as_ref().expect("a schema");
        assert_eq!((channel.encoding.as_str(), schema.as_str(), text.as_str()), wanted);
        assert_eq!(
            (name.as_str(), channel.messages[0].bytes.as_slice()),
            ("std_msgs/String", &b"xyz"[..])
        );
    }
}
