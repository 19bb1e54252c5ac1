//! Descriptions of payloads: the same description opens, another one is refused with the first
//! field that differs.

use outlive::describe::{
    Described, Description, Encoding, Field, Flag, InlineString, InlineVec, Item, Number, Struct,
    Tail, WithTail, WithTailBuf,
};
use outlive::jobs::JobQueue;
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::Topic;
use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use outlive::{Domain, Error, Payload, RecvError, SendError};

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Track {
    corners: [Point; 4],
    label: [u8; 12],
    class: u32,
    grid: [[f32; 3]; 2],
}

/// The same bytes and the same name, but for one field deep inside.
mod other {
    use super::*;

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    pub struct Point {
        x: f64,
        y: i64,
    }

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    pub struct Track {
        corners: [Point; 4],
        label: [u8; 12],
        class: u32,
        grid: [[f32; 3]; 2],
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(transparent)]
#[payload(name = "Heading")]
struct Radians(f32);

struct Stage(Domain);

impl Stage {
    fn new(name: &str) -> Stage {
        let pid = std::process::id();
        let folder = std::env::temp_dir().join(format!("outlive-described-{name}-{pid}"));
        Stage(Domain::open_or_create_at(folder).expect("opens"))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.0.path()).expect("removed");
    }
}

/// Returns what is found and what is wanted of an opening that was refused.
fn refused<T>(opened: Result<T, Error>) -> (String, String) {
    match opened {
        Err(Error::OtherType { found, wanted, .. }) => (found, wanted),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_struct_is_described_field_by_field() {
    let track = Description::of::<Track>();
    assert_eq!(
        track.to_string(),
        "Track { corners: { x: f64, y: f64 }[4], label: u8[12], class: u32, grid: f32[2][3] }"
    );
    assert_eq!((track.size(), track.align(), track.encoding()), (104, 8, Encoding::Raw));
    assert_eq!(track.fields()[3].offset, 80);
    assert_eq!(Description::from_bytes(&track.to_bytes()), Some(track));
    assert_eq!(Description::of::<Radians>().to_string(), "Heading { 0: f32 }");
    assert_eq!(Description::of::<[[u16; 3]; 2]>().to_string(), "u16[2][3]");
}

#[test]
fn the_same_description_opens_and_another_is_refused_by_its_field() {
    let stage = Stage::new("topic");
    let domain = &stage.0;
    let track = Topic::<Track>::options().described().create_new(domain, "track").expect("made");
    assert_eq!(track.description().expect("read"), Some(Description::of::<Track>()));
    // As another language has it: the same fields, at run time.
    let described = Topic::<[u8]>::options().description(Description::of::<Track>());
    let mut bytes =
        described.open(domain, "track").and_then(|topic| topic.subscriber()).expect("opens");
    let publisher = track.publisher().expect("a ring");
    let one = Track {
        corners: [Point { x: 1.0, y: 2.0 }; 4],
        label: *b"a lorry\0\0\0\0\0",
        class: 7,
        grid: [[0.5; 3]; 2],
    };
    publisher.publish(&one).expect("published");
    assert_eq!(&*bytes.recv().expect("received"), one.as_bytes());
    // A nested field of another type.
    let (found, wanted) =
        refused(Topic::<other::Track>::options().described().open(domain, "track"));
    assert_eq!(found, "'Track' with field 'corners.y: f64' at byte 8");
    assert_eq!(wanted, "'Track' with field 'corners.y: i64' at byte 8");
    // Another type altogether.
    let (found, wanted) = refused(Topic::<Point>::options().described().open(domain, "track"));
    assert_eq!((found.as_str(), wanted.as_str()), ("'Track'", "'Point'"));
    // Without a description on this side: the name, the size and the alignment, as ever.
    Topic::<Track>::open(domain, "track").expect("the same type of Rust's");
    refused(Topic::<Point>::open(domain, "track"));
    refused(Topic::<[u8]>::open(domain, "track"));
    // Without one on the other side: the same.
    Topic::<Track>::options().create_new(domain, "bare").expect("made");
    let described = Topic::<Track>::options().described().open(domain, "bare").expect("opens");
    assert_eq!(described.description().expect("read"), None);
}

#[test]
fn bytes_stay_bytes() {
    let stage = Stage::new("bytes");
    let domain = &stage.0;
    let cdr = Description::encoded("geometry_msgs/msg/Pose", Encoding::Cdr).expect("possible");
    let options = || Topic::<[u8]>::options();
    options().description(cdr.clone()).create_new(domain, "cdr").expect("made");
    let bytes = Topic::<[u8]>::open(domain, "cdr").expect("messages are bytes for all");
    assert_eq!(bytes.description().expect("read"), Some(cdr));
    let json = Description::encoded("geometry_msgs/msg/Pose", Encoding::Json).expect("possible");
    let (found, wanted) = refused(options().description(json).open(domain, "cdr"));
    assert_eq!((found.as_str(), wanted.as_str()), ("cdr messages", "json messages"));
    options().described().create_new(domain, "bytes").expect("made");
    Topic::<[u8]>::open(domain, "bytes").expect("opens");
}

#[test]
fn what_cannot_be_is_refused() {
    let field = |name: &str, offset| Field {
        name: name.into(),
        offset,
        extents: Vec::new(),
        item: Item::Number(Number::F64),
    };
    let shape = |fields| Struct { size: 16, align: 8, fields };
    let why = |fields| match Description::raw("T", shape(fields)) {
        Err(Error::InvalidOption { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(vec![field("x", 16)]), "it does not lie inside its type");
    assert_eq!(why(vec![field("x", u32::MAX)]), "it does not lie inside its type");
    assert_eq!(why(vec![field("x", 0), field("x", 8)]), "two fields have the same name");
    let apart = "fields come in the order of their places, and apart";
    assert_eq!(why(vec![field("x", 0), field("y", 4)]), apart);
    assert_eq!(why(vec![field("x", 8), field("y", 0)]), apart);
    // A text that no number of bytes can say.
    let item = Item::Struct(Struct::text(u32::MAX));
    assert!(Description::raw("T", shape(vec![Field { item, ..field("x", 0) }])).is_err());
    // Padding between is no flaw: C has it.
    Description::raw("T", shape(vec![field("x", 8)])).expect("possible");
    // What is no struct has the same limits.
    for (size, align) in [(0, 1), (16, 3), (1 << 31, 8), (12, 8), (0x4000, 0x2000), (16, 0)] {
        let extents = if size == 0 { vec![0] } else { Vec::new() };
        let single = Field { extents, ..field("", 0) };
        let single = Struct { size, align, fields: vec![single] };
        assert!(Description::raw("", single).is_err(), "{size} aligned to {align}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C, align(32))]
struct Wide {
    lanes: [f32; 8],
    is_valid: Flag,
    _unused: [u8; 31],
}

/// Short messages of a type that is aligned to more than a slot are not in slots, whatever language
/// publishes them, and whether it knows the description or not.
#[test]
fn bytes_lie_as_the_type_wants() {
    let stage = Stage::new("aligned");
    let domain = &stage.0;
    let topic = Topic::<Wide>::options().described().create_new(domain, "wide").expect("made");
    let mut subscriber = topic.subscriber().expect("made");
    let one = Wide { lanes: [0.5; 8], is_valid: Flag::from(true), _unused: [0; 31] };
    let described = Topic::<[u8]>::options().description(Description::of::<Wide>());
    for bytes in [described.open(domain, "wide"), Topic::open_as_bytes(domain, "wide")] {
        let bytes = bytes.expect("opens");
        let mut seen = bytes.subscriber().expect("made");
        let publisher = bytes.publisher().expect("a ring");
        publisher.publish(one.as_bytes()).expect("published");
        let mut loan = publisher.loan(64).expect("room");
        loan.copy_from_slice(one.as_bytes());
        publisher.publish(loan).expect("published");
        for _ in 0..2 {
            assert_eq!(*subscriber.recv().expect("received"), one);
            let sample = seen.recv().expect("received");
            assert!(sample.as_ptr().addr().is_multiple_of(32));
        }
    }
    // The other way round: bytes have made it, and a Rust program comes later.
    let of = |align| {
        let shape = Description::of::<Wide>().shape().clone();
        let size = shape.size.next_multiple_of(align);
        Description::raw("Wide", Struct { size, align, ..shape }).expect("possible")
    };
    let options = Topic::<[u8]>::options();
    let bytes = options.clone().description(of(32)).create_new(domain, "bytes").expect("made");
    let topic = Topic::<Wide>::options().described().open(domain, "bytes").expect("opens");
    let mut subscriber = topic.subscriber().expect("made");
    bytes.publisher().expect("a ring").publish(one.as_bytes()).expect("published");
    assert!(subscriber.recv().expect("received").is_valid.get());
    let refused = options.description(of(128)).create_new(domain, "refused").map(drop);
    assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{refused:?}");
}

/// The page with the description is damaged: an opening that compares it is told, another one is not.
#[test]
fn a_damaged_description_is_told() {
    use std::os::unix::fs::FileExt;
    let stage = Stage::new("damage");
    let domain = &stage.0;
    Topic::<Point>::options().described().create_new(domain, "p").expect("made");
    let file = std::fs::File::options().read(true).write(true).open(domain.path().join("p"));
    let file = file.expect("there");
    let mut page = [0; 4096];
    file.read_exact_at(&mut page, 8192).expect("read");
    for at in [0, 5, 9, 16, 30] {
        let mut damaged = page;
        damaged[at] ^= 0x40;
        file.write_all_at(&damaged, 8192).expect("written");
        let opened = Topic::<Point>::options().described().open(domain, "p");
        assert!(matches!(opened, Err(Error::Damaged { .. })), "byte {at}");
        Topic::<Point>::open(domain, "p").expect("it does not look there");
    }
}

#[test]
fn queues_states_and_services_have_descriptions_too() {
    let stage = Stage::new("others");
    let domain = &stage.0;
    let point = || Description::of::<Point>();
    let queue = Queue::<Point>::options().described().create_new(domain, "q").expect("made");
    assert_eq!(queue.description().expect("read"), Some(point()));
    let bytes = Queue::<[u8]>::options().description(point()).open(domain, "q").expect("opens");
    bytes
        .sender()
        .map(|sender| sender.send(Point { x: 1.0, y: 2.0 }.as_bytes()))
        .expect("open")
        .expect("sent");
    let mut receiver = queue.receiver().expect("none yet");
    assert_eq!(receiver.recv().expect("received"), Point { x: 1.0, y: 2.0 });
    let (found, _) = refused(Queue::<other::Point>::options().described().open(domain, "q"));
    assert_eq!(found, "'Point' with field 'y: f64' at byte 8");

    // A state that another language makes has values of the type's size.
    let state =
        State::<[u8]>::options().description(point()).create_new(domain, "s").expect("made");
    assert_eq!(state.config().capacity, 16);
    let typed = State::<Point>::options().described().open(domain, "s").expect("opens");
    state.writer().expect("none yet").set(Point { x: 3.0, y: 4.0 }.as_bytes()).expect("set");
    assert_eq!(typed.get().expect("there"), Point { x: 3.0, y: 4.0 });
    refused(State::<other::Point>::options().described().open(domain, "s"));
    let many = Description::of::<Point>().slice().expect("possible");
    State::<[u8]>::options().description(many).create_new(domain, "many").expect("made");
    State::<[Point]>::options().described().open(domain, "many").expect("opens");

    Service::<Point, u32>::options().described().create_new(domain, "r").expect("made");
    Service::<Point, u32>::options().described().open(domain, "r").expect("opens");
    let (found, wanted) = refused(Service::<Point, i32>::options().described().open(domain, "r"));
    let both = (found.as_str(), wanted.as_str());
    assert_eq!(both, ("replies of a type, u32", "replies of a type, i32"));
    let (found, _) = refused(Service::<other::Point, u32>::options().described().open(domain, "r"));
    assert_eq!(found, "requests of 'Point' with field 'y: f64' at byte 8");
}

/// Requests and replies may be slices, and in encodings of their own; another language describes
/// them at run time.
#[test]
fn services_are_described_at_run_time_too() {
    let stage = Stage::new("services");
    let domain = &stage.0;
    let points = || Description::of::<Point>().slice().expect("possible");
    let both = || points().with_reply(Description::of::<u32>()).expect("possible");
    let described = || Service::<[u8], [u8]>::options().description(both());
    let bytes = described().create_new(domain, "count").expect("made");
    assert_eq!(bytes.description().expect("read"), Some(both()));
    let typed = Service::<[Point], u32>::options().described().open(domain, "count").expect("same");
    let (mut server, client) = (typed.server().expect("none yet"), bytes.client().expect("made"));
    let two = [Point { x: 1.0, y: 2.0 }; 2];
    let call = client.begin(two.as_bytes()).expect("sent");
    let request = server.next().expect("there");
    assert_eq!(request.value(), two);
    request.reply(&2).expect("answered");
    assert_eq!(*call.wait().expect("answered"), *2_u32.as_bytes());
    // The other way round, and as bytes whatever it is.
    Service::<[Point], u32>::options().described().create_new(domain, "rust").expect("made");
    described().open(domain, "rust").expect("the same");
    described().open_as_bytes(domain, "rust").expect("the same");
    Service::open_as_bytes(domain, "rust").expect("opens");
    let poses = Description::encoded("Pose", Encoding::Cdr).expect("possible");
    let other = points().with_reply(poses).expect("possible");
    let options = Service::<[u8], [u8]>::options().description(other.clone());
    let (found, wanted) = refused(options.open_as_bytes(domain, "rust"));
    let both = (found.as_str(), wanted.as_str());
    assert_eq!(both, ("replies of raw messages", "replies of cdr messages"));
    // A topic has no replies, and a service has some.
    let topic = Topic::<[u8]>::options().description(other.clone()).create_new(domain, "t");
    assert!(matches!(topic.map(drop), Err(Error::InvalidOption { .. })));
    let lone = Service::<[u8], [u8]>::options().description(points()).create_new(domain, "s");
    assert!(matches!(lone.map(drop), Err(Error::InvalidOption { .. })));
    assert!(other.clone().with_reply(other).is_err());
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Scan {
    name: InlineString<32>,
    _unused: [u8; 4],
    ranges: InlineVec<f32, 6>,
    corners: InlineVec<Point, 2>,
}

#[test]
fn texts_and_lists_lie_in_place() {
    let scan = Description::of::<Scan>();
    let text = "Scan { name: { length: u32, bytes: u8[32] }, ranges: { length: u64, items: f32[6] }, \
                corners: { length: u64, items: { x: f64, y: f64 }[2] } }";
    assert_eq!(scan.to_string(), text);
    let offsets: Vec<u32> = scan.fields().iter().map(|field| field.offset).collect();
    assert_eq!((offsets, scan.size()), (vec![0, 40, 72], 112));
    assert_eq!(Description::from_bytes(&scan.to_bytes()), Some(scan.clone()));
    // As C declares it, whose texts are aligned to 4 and lists to 8: where fields lie decides.
    let mut fields = scan.fields().to_vec();
    for (field, align) in fields.iter_mut().zip([4, 8, 8]) {
        let Item::Struct(nested) = &mut field.item else { panic!("{field}") };
        assert!(nested.is_text() || nested.is_list());
        nested.align = align;
    }
    let of_c = Description::raw("Scan", Struct { size: 112, align: 8, fields }).expect("possible");
    let stage = Stage::new("inline");
    let options = Topic::<[u8]>::options().description(of_c);
    let topic = options.create_new(&stage.0, "scan").expect("made");
    let typed = Topic::<Scan>::options().described().open(&stage.0, "scan").expect("the same");
    let mut subscriber = typed.subscriber().expect("made");
    let one = Scan {
        name: InlineString::new("größe").expect("room"),
        _unused: [0; 4],
        ranges: InlineVec::from_slice(&[0.5, 1.5]).expect("room"),
        corners: InlineVec::from_slice(&[Point { x: 1.0, y: 2.0 }]).expect("room"),
    };
    topic.publisher().expect("a ring").publish(one.as_bytes()).expect("published");
    let sample = subscriber.recv().expect("received");
    assert_eq!((sample.name.to_str(), &sample.ranges[..]), (Ok("größe"), &[0.5, 1.5][..]));
    assert_eq!(sample.corners[..], [Point { x: 1.0, y: 2.0 }]);
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[repr(C)]
struct Cloud {
    stamp: u64,
    name: InlineString<4>,
    _unused: [u8; 8],
    points: Tail<Point>,
}

fn cloud(stamp: u64) -> Cloud {
    let name = InlineString::new("lid").expect("room");
    Cloud { stamp, name, _unused: [0; 8], points: Tail::new() }
}

const TEXT: &str =
    "Cloud { stamp: u64, name: { length: u32, bytes: u8[4] }, points: { x: f64, y: f64 }[] }";

/// A head with items behind it: in a topic, from Rust and as another language describes it.
#[test]
fn a_tail_follows_a_head() {
    let description = WithTail::<Cloud>::description();
    assert_eq!((description.to_string().as_str(), description.size()), (TEXT, 24));
    assert_eq!(Description::from_bytes(&description.to_bytes()), Some(description.clone()));
    let lengths: Vec<_> = (0..60).filter(|len| description.fits(*len)).collect();
    assert_eq!(lengths, [24, 40, 56]);
    // As another language has it, field by field.
    let shape = description.shape().clone();
    let tail = description.tail().expect("it has one").clone();
    let head = Description::raw("Cloud", shape).expect("possible");
    assert_eq!(head.clone().with_tail(tail.clone()).expect("possible"), description);

    let stage = Stage::new("tail");
    let domain = &stage.0;
    let topic = Topic::<WithTail<Cloud>>::options().described().create_new(domain, "t");
    let topic = topic.expect("made");
    let described = Topic::<[u8]>::options().description(description.clone());
    let bytes = described.open(domain, "t").expect("the same");
    let (mut typed, mut raw) =
        (topic.subscriber().expect("made"), bytes.subscriber().expect("made"));
    let publisher = topic.publisher().expect("a ring");
    let points = |n: usize| vec![Point { x: 1.0, y: 2.0 }; n];
    // None, a few that lie in the slot, and many.
    for n in [0, 3, 5000] {
        publisher.publish_with_tail(&cloud(n as u64), &points(n)).expect("published");
        let sample = typed.recv().expect("received");
        assert_eq!((*sample.head(), sample.tail()), (cloud(n as u64), &points(n)[..]));
        assert_eq!(raw.recv().expect("received").len(), 24 + 16 * n);
    }
    let mut loan = publisher.loan_with_tail(2).expect("room");
    **loan = cloud(9);
    loan.tail_mut().copy_from_slice(&points(2));
    publisher.publish(loan).expect("published");
    let sample = typed.recv().expect("received");
    assert_eq!((*sample.head(), sample.tail()), (cloud(9), &points(2)[..]));
    // A message of another length comes from a program that knows no description.
    let other = bytes.publisher().expect("a ring");
    for len in [0, 23, 25, 39] {
        other.publish(&vec![0xff; len]).expect("published");
        let refused = typed.recv().map(drop);
        assert!(matches!(refused, Err(RecvError::Encoding(_))), "{len} bytes: {refused:?}");
    }
    other.publish(&[0xff; 40]).expect("published");
    assert_eq!(typed.recv().expect("received").tail()[0].x.to_bits(), u64::MAX);

    // Another type of the items, another name, none, and the head alone are other types.
    let field = |name: &str, item| Field { name: name.into(), item, ..tail.clone() };
    let with = |tail| {
        Topic::<[u8]>::options().description(head.clone().with_tail(tail).expect("possible"))
    };
    let other_item = Description::of::<other::Point>().shape().clone();
    let (found, wanted) =
        refused(with(field("points", Item::Struct(other_item))).open(domain, "t"));
    assert_eq!(found, "'Cloud' with field 'points.y: f64' at byte 8");
    assert_eq!(wanted, "'Cloud' with field 'points.y: i64' at byte 8");
    let (found, wanted) = refused(with(field("dots", Item::Number(Number::F64))).open(domain, "t"));
    assert_eq!(found, "'Cloud' with a tail 'points: { x: f64, y: f64 }[]'");
    assert_eq!(wanted, "'Cloud' with a tail 'dots: f64[]'");
    let (found, wanted) =
        refused(Topic::<[u8]>::options().description(head.clone()).open(domain, "t"));
    assert_eq!(found, "'Cloud' with a tail 'points: { x: f64, y: f64 }[]'");
    assert_eq!(wanted, "'Cloud' without a tail");
    refused(Topic::<Cloud>::open(domain, "t"));
}

#[test]
fn a_tail_that_cannot_be_is_refused() {
    let head = || Description::raw("T", Description::of::<Point>().shape().clone());
    let head = || head().expect("possible");
    let tail = |name: &str, offset, number| Field {
        name: name.into(),
        offset,
        extents: Vec::new(),
        item: Item::Number(number),
    };
    let bytes = || tail("rest", 16, Number::U8);
    let why = |result: Result<Description, Error>| match result {
        Err(Error::InvalidOption { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        head().with_tail(bytes()).expect("possible").to_string(),
        "T { x: f64, y: f64, rest: u8[] }"
    );
    let gap = "a tail begins where its type ends: a field is needed to fill the gap";
    assert_eq!(why(head().with_tail(tail("rest", 12, Number::U8))), gap);
    assert_eq!(why(head().with_tail(tail("", 16, Number::U8))), "a tail has a name of its own");
    assert_eq!(why(head().with_tail(tail("x", 16, Number::U8))), "a tail has a name of its own");
    let nothing = Field { extents: vec![0], ..bytes() };
    assert!(head().with_tail(nothing).is_err());
    let twice = head().with_tail(bytes()).and_then(|one| one.with_tail(bytes()));
    assert_eq!(why(twice), "a value has one tail");
    let of_slice = head().slice().and_then(|one| one.with_tail(bytes()));
    let structs = "a struct alone has a tail, and no slice of structs";
    assert_eq!(why(of_slice), structs);
    assert_eq!(why(head().with_tail(bytes()).and_then(Description::slice)), structs);
    assert_eq!(why(Description::of::<u32>().with_tail(tail("a", 4, Number::U8))), structs);
    // An item that could not be aligned behind a head of that size.
    let small = Description::raw("S", Struct { size: 4, align: 4, fields: Vec::new() });
    assert_eq!(why(small.and_then(|one| one.with_tail(tail("a", 4, Number::U64)))), gap);
    let wide = Struct { size: 32, align: 32, fields: Vec::new() };
    let wide = Description::raw("W", wide).and_then(|one| one.with_tail(tail("a", 32, Number::U8)));
    assert_eq!(why(wide), "a type with a tail, and its items, are aligned to at most 8 bytes");
}

#[test]
fn queues_states_services_and_jobs_have_messages_with_tails() {
    let stage = Stage::new("tails");
    let domain = &stage.0;
    let (description, dot) = (WithTail::<Cloud>::description(), Point { x: 3.0, y: 4.0 });
    let value = |n: usize| WithTailBuf::new(&cloud(n as u64), &vec![dot; n]);
    let is_it = |found: &WithTail<Cloud>, n: usize| {
        assert_eq!((*found.head(), found.tail()), (cloud(n as u64), &vec![dot; n][..]));
    };

    let queue = Queue::<WithTail<Cloud>>::options().described().create_new(domain, "q");
    let queue = queue.expect("made");
    let (sender, mut receiver) =
        (queue.sender().expect("open"), queue.receiver().expect("none yet"));
    for n in [0, 2, 300] {
        sender.send(&value(n)).expect("sent");
        is_it(&receiver.recv().expect("received"), n);
        sender.send(&value(n)).expect("sent");
        let peeked = receiver.peek().expect("there");
        is_it(&peeked, n);
        peeked.commit();
    }
    let bytes = Queue::<[u8]>::options().description(description.clone()).open(domain, "q");
    let bytes = bytes.expect("the same").sender().expect("open");
    bytes.send(&[0; 30]).expect("sent");
    assert!(matches!(receiver.recv().map(drop), Err(RecvError::Encoding(_))));

    // Of a state the first value is a head of zeroes.
    let state = State::<WithTail<Cloud>>::options().described().create_new(domain, "s");
    let state = state.expect("made");
    let zeroes = state.get().expect("there");
    assert_eq!((zeroes.stamp, zeroes.tail().len()), (0, 0));
    let mut writer = state.writer().expect("none yet");
    for n in [200, 1] {
        writer.set(&value(n)).expect("set");
        is_it(&state.get().expect("there"), n);
    }
    let too_large = writer.set(&value(300));
    assert!(matches!(too_large, Err(SendError::TooLarge { .. })), "{too_large:?}");
    drop(writer);
    let bytes = State::<[u8]>::options().description(description.clone());
    let other = bytes.clone().open(domain, "s").expect("the same");
    let mut writer = other.writer().expect("none now");
    for (len, wanted) in [(0, 24), (30, 40), (41, 56)] {
        let refused = writer.set(&vec![0; len]);
        let right = SendError::OtherLength { len: len as u64, wanted };
        assert_eq!(refused.map_err(|error| error.to_string()), Err(right.to_string()));
    }
    writer.set(&[0; 40]).expect("one item");
    bytes.create_new(domain, "s2").expect("made");
    let from_bytes = State::<WithTail<Cloud>>::options().described().open(domain, "s2");
    assert_eq!(from_bytes.expect("the same").get().expect("there").tail().len(), 0);

    let service = Service::<WithTail<Cloud>, WithTail<Cloud>>::options().described();
    let service = service.create_new(domain, "r").expect("made");
    let (mut server, client) =
        (service.server().expect("none yet"), service.client().expect("made"));
    for n in [1, 1000] {
        let call = client.begin(&value(n)).expect("sent");
        let request = server.next().expect("there");
        is_it(&request.value(), n);
        request.reply(&value(n + 1)).expect("answered");
        is_it(&call.wait().expect("answered").value(), n + 1);
    }

    let jobs = JobQueue::<WithTail<Cloud>>::open_or_create(domain, "j").expect("made");
    jobs.put(&value(4)).expect("put");
    let job = jobs.take().expect("there");
    is_it(&job, 4);
    job.done().expect("done");
    let small = JobQueue::<WithTail<Cloud>>::options().job_bytes(23).create_new(domain, "small");
    assert!(matches!(small.map(drop), Err(Error::InvalidOption { .. })));
}
