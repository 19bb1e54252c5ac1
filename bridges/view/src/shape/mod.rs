//! What the messages of a topic are to clients, by the topic's description and attributes.
//!
//! | the topic | its messages there |
//! | --- | --- |
//! | has a type of ROS | as they are: Foxglove reads ROS's own |
//! | is described, and its fields are those of a picture, points, a scan, transforms or a log | Foxglove's own types |
//! | is described otherwise, with fields, as msgpack or JSON | JSON; of fields with a schema |
//! | is bytes, and the attribute says that they are pictures | Foxglove's `CompressedImage` |
//! | is not described, and the attribute says that its arrays (from Python) are images or points | Foxglove's own types |
//! | is bytes otherwise | JSON with the length and the beginning, as text or base64; of a picture its kind and sides |

mod fields;
mod hints;
mod log;
mod picture;
mod ros;
mod space;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use foxglove::messages::{
    CompressedImage, FrameTransforms, LaserScan, Log, PointCloud, RawImage, Timestamp,
};
use foxglove::{Encode, Schema};
use outlive::describe::{Description, Encoding};
use serde_json::json;

use crate::described::{self, Blobs};
use crate::msgpack;
pub use hints::Attribute;
use hints::{As, Hints};
use ros::Ros;

/// Of bytes so many are shown.
const SHOWN: usize = 4096;
/// A described message of more bytes is not tried as each of Foxglove's types.
const MOST_TRIED: u64 = 256 << 20;

/// See the head of this file.
pub struct Shape {
    kind: Kind,
    description: Option<Description>,
    hints: Hints,
    name: String,
}

enum Kind {
    Ros(Box<Ros>),
    Image,
    CompressedImage,
    CompressedBytes,
    Points,
    ArrayImage,
    ArrayPoints,
    Scan,
    Transforms,
    Log,
    Fields,
    Msgpack,
    Json,
    Bytes,
}

impl Shape {
    /// Returns what messages of a topic of that name are.
    pub fn of(name: &str, description: Option<Description>, attribute: Attribute<'_>) -> Shape {
        let hints = Hints::of(attribute);
        let kind = match Ros::of(description.as_ref(), attribute) {
            Some(ros) => Kind::Ros(Box::new(ros)),
            None => kind(description.as_ref(), &hints),
        };
        Shape { kind, description, hints, name: name.to_owned() }
    }

    /// Returns the value of the attribute `view.as`, if it is none that this program knows.
    pub fn unknown(&self) -> Option<&str> {
        self.hints.unknown.as_deref()
    }

    /// Returns whether each message is an array that has a layout of its own.
    pub fn is_of_arrays(&self) -> bool {
        matches!(self.kind, Kind::ArrayImage | Kind::ArrayPoints)
    }

    /// Returns the encoding of messages, and their schema.
    pub fn schema(&self) -> (String, Option<Schema>) {
        fn of<T: Encode>() -> (String, Option<Schema>) {
            (T::get_message_encoding(), T::get_schema())
        }
        match &self.kind {
            Kind::Ros(ros) => ros.schema(),
            Kind::Image | Kind::ArrayImage => of::<RawImage>(),
            Kind::CompressedImage | Kind::CompressedBytes => of::<CompressedImage>(),
            Kind::Points | Kind::ArrayPoints => of::<PointCloud>(),
            Kind::Scan => of::<LaserScan>(),
            Kind::Transforms => of::<FrameTransforms>(),
            Kind::Log => of::<Log>(),
            Kind::Fields => {
                let schema = self.description.as_ref().map(|one| {
                    let name = if one.name().is_empty() { &self.name } else { one.name() };
                    let schema = described::schema(one, Blobs::Base64).to_string();
                    Schema::new(name, "jsonschema", schema.into_bytes())
                });
                ("json".to_owned(), schema)
            }
            Kind::Bytes => {
                let schema = json!({"type": "object", "title": "bytes", "properties": {
                    "length": {"type": "integer"},
                    "text": {"type": "string"},
                    "bytes": {"type": "string", "contentEncoding": "base64"},
                    "picture": {"type": "string"},
                }});
                let schema = schema.to_string().into_bytes();
                ("json".to_owned(), Some(Schema::new("bytes", "jsonschema", schema)))
            }
            Kind::Msgpack | Kind::Json => ("json".to_owned(), None),
        }
    }

    /// Writes a message as clients have it, in the place of what `out` has. `stamp`: nanoseconds since 1970.
    /// `array`: what describes it, if it is an array with a layout of its own.
    ///
    /// # Errors
    /// Why it is none of these.
    pub fn write(
        &self,
        bytes: &[u8],
        array: Option<&Description>,
        stamp: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.clear();
        let seconds = u32::try_from(stamp / 1_000_000_000).unwrap_or(u32::MAX);
        let time = Timestamp::new(seconds, (stamp % 1_000_000_000) as u32);
        let hints = &self.hints;
        if self.is_of_arrays() {
            let one = array.ok_or("a message is no array of numbers")?;
            return match self.kind {
                Kind::ArrayImage => put(picture::raw(one, bytes, hints, time), out),
                _ => put(space::points(one, bytes, hints, time), out),
            };
        }
        if let Some(one) = &self.description {
            match self.kind {
                Kind::Image => return put(picture::raw(one, bytes, hints, time), out),
                Kind::CompressedImage => {
                    return put(picture::compressed(one, bytes, hints, time), out);
                }
                Kind::Points => return put(space::points(one, bytes, hints, time), out),
                Kind::Scan => return put(space::scan(one, bytes, hints, time), out),
                Kind::Transforms => return put(space::transforms(one, bytes, time), out),
                Kind::Log => return put(log::log(one, bytes, time), out),
                Kind::Fields => return described::write(one, bytes, Blobs::Base64, out),
                _ => {}
            }
        }
        match &self.kind {
            Kind::Ros(ros) => ros.write(bytes, out),
            Kind::CompressedBytes => put(picture::compressed_bytes(bytes, &self.hints, time), out),
            Kind::Msgpack => {
                let value = msgpack::to_json(bytes)?;
                let value = if value.is_object() { value } else { json!({"value": value}) };
                serde_json::to_writer(out, &value).map_err(|error| error.to_string())
            }
            Kind::Json => {
                let _: serde::de::IgnoredAny =
                    serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
                out.extend_from_slice(bytes);
                Ok(())
            }
            _ => {
                let shown = &bytes[..bytes.len().min(SHOWN)];
                let value = match str::from_utf8(shown) {
                    Ok(text) => json!({"length": bytes.len(), "text": text}),
                    Err(_) => {
                        let mut value =
                            json!({"length": bytes.len(), "bytes": STANDARD.encode(shown)});
                        if let Some(told) = picture::told(bytes) {
                            value["picture"] = told.into();
                        }
                        value
                    }
                };
                serde_json::to_writer(out, &value).map_err(|error| error.to_string())
            }
        }
    }
}

fn put<T: Encode>(message: Option<T>, out: &mut Vec<u8>) -> Result<(), String> {
    let message = message.ok_or("a message is not what the topic's description says")?;
    out.reserve(message.encoded_len().unwrap_or(0));
    message.encode(out).map_err(|error| error.to_string())
}

/// Returns what messages without a type of ROS are. An empty message of that description is tried.
fn kind(description: Option<&Description>, hints: &Hints) -> Kind {
    let told = hints.says(As::CompressedImage);
    let bytes = if told { Kind::CompressedBytes } else { Kind::Bytes };
    let Some(one) = description else {
        return match hints.seen_as {
            Some(As::Image) => Kind::ArrayImage,
            Some(As::Points) => Kind::ArrayPoints,
            _ => bytes,
        };
    };
    match one.encoding() {
        Encoding::Raw if is_only_bytes(one) && told => return Kind::CompressedBytes,
        Encoding::Raw => {}
        Encoding::Msgpack => return Kind::Msgpack,
        Encoding::Json => return Kind::Json,
        _ => return bytes,
    }
    if hints.says(As::Json) || one.size() > MOST_TRIED {
        return Kind::Fields;
    }
    let empty = vec![0; if one.is_slice() { 0 } else { one.size() as usize }];
    let time = Timestamp::new(0, 0);
    let tries: [(As, Kind, &dyn Fn() -> bool); 6] = [
        (As::Image, Kind::Image, &|| picture::raw(one, &empty, hints, time).is_some()),
        (As::CompressedImage, Kind::CompressedImage, &|| {
            picture::compressed(one, &empty, hints, time).is_some()
        }),
        (As::Points, Kind::Points, &|| space::points(one, &empty, hints, time).is_some()),
        (As::Scan, Kind::Scan, &|| space::scan(one, &empty, hints, time).is_some()),
        (As::Transforms, Kind::Transforms, &|| transforms_like(one, &empty, time)),
        (As::Log, Kind::Log, &|| log::log(one, &empty, time).is_some()),
    ];
    let found = tries.into_iter().find(|(seen_as, _, fits)| hints.lets(*seen_as) && fits());
    found.map_or(Kind::Fields, |found| found.1)
}

/// Slices and lists of anything fit while they are empty: one value is tried.
fn transforms_like(description: &Description, empty: &[u8], time: Timestamp) -> bool {
    if !description.is_slice() {
        return space::transforms_of_one(description, empty, time);
    }
    let one = vec![0; description.size() as usize];
    space::transforms(description, &one, time).is_some()
}

/// Whether a message is any number of bytes.
fn is_only_bytes(description: &Description) -> bool {
    let single = description.single();
    single.is_some_and(|field| fields::is_bytes(&field.item) && field.extents.len() <= 1)
}

#[cfg(test)]
mod tests {
    use foxglove::Decode;
    use foxglove::messages::packed_element_field::NumericType;
    use outlive::Payload;
    use outlive::describe::{Field, InlineString, InlineVec, Item, Number, Struct};
    use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

    use super::*;

    /// Returns what a topic with these attributes is seen as.
    fn shape(description: Option<Description>, pairs: &[(&str, &str)]) -> Shape {
        let value =
            |key: &str| pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1.to_owned());
        Shape::of("topic", description, &value)
    }

    fn written(
        description: Option<Description>,
        pairs: &[(&str, &str)],
        bytes: &[u8],
    ) -> (String, Vec<u8>) {
        let shape = shape(description, pairs);
        let name = shape.schema().1.map(|schema| schema.name).unwrap_or_default();
        let mut out = Vec::new();
        let stamp = 1_700_000_000_123_456_789;
        shape.write(bytes, None, stamp, &mut out).unwrap_or_else(|why| panic!("{name}: {why}"));
        (name, out)
    }

    fn number(name: &str, offset: u32, extents: &[u32], number: Number) -> Field {
        Field { name: name.into(), offset, extents: extents.to_vec(), item: Item::Number(number) }
    }

    #[test]
    fn an_array_is_a_picture_if_the_attribute_says_so() {
        let frame = Some(Description::of::<[[u16; 4]; 2]>());
        let (name, out) = written(frame.clone(), &[("view.as", "image")], &[7; 16]);
        // 16 bits have one usual encoding of two bytes.
        let image = RawImage::decode(&*out).expect("an image");
        assert_eq!(name, "foxglove.RawImage");
        assert_eq!((image.width, image.height, image.step), (4, 2, 8));
        assert_eq!((image.encoding.as_str(), image.frame_id.as_str()), ("mono16", "world"));
        let time = image.timestamp.expect("a time");
        assert_eq!((time.sec(), time.nsec()), (1_700_000_000, 123_456_789));
        assert_eq!(written(frame, &[], &[7; 16]).0, "topic", "a matrix");
        let colour = Some(Description::of::<[[[u8; 3]; 4]; 2]>());
        let pairs = [("view.as", "image"), ("view.encoding", "bgr8"), ("view.frame", "f")];
        let image = RawImage::decode(&*written(colour, &pairs, &[7; 24]).1).expect("an image");
        assert_eq!((image.encoding.as_str(), image.step), ("bgr8", 12));
        assert_eq!((image.frame_id.as_str(), image.data.len()), ("f", 24));
    }

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    struct Picture {
        frame_id: InlineString<12>,
        width: u32,
        height: u32,
        _room: u32,
        data: InlineVec<u8, 32>,
    }

    #[test]
    fn a_pictures_encoding_follows_from_its_size() {
        let data = |bytes: usize| InlineVec::from_slice(&vec![1; bytes]).expect("fits");
        for (bytes, encoding) in [
            (8, Some("mono8")),
            (16, Some("mono16")),
            (24, Some("rgb8")),
            (32, Some("rgba8")),
            (4, None),
        ] {
            let frame_id = InlineString::new("cam").expect("fits");
            let data = data(bytes);
            let picture = Picture { frame_id, width: 4, height: 2, _room: 0, data };
            let one = Description::of::<Picture>();
            let shape = shape(Some(one), &[]);
            let mut out = Vec::new();
            let said = shape.write(picture.as_bytes(), None, 0, &mut out);
            assert_eq!(said.is_ok(), encoding.is_some(), "{bytes}");
            let Some(encoding) = encoding else { continue };
            let image = RawImage::decode(&*out).expect("an image");
            assert_eq!((image.encoding.as_str(), image.data.len()), (encoding, bytes));
            assert_eq!(image.frame_id, "cam");
        }
        // Sizes of a hostile publisher.
        let all = [0xff; size_of::<Picture>()];
        let shape = shape(Some(Description::of::<Picture>()), &[]);
        assert!(shape.write(&all, None, u64::MAX, &mut Vec::new()).is_err());
        let (name, _) = written(Some(Description::of::<Picture>()), &[("view.as", "json")], &all);
        assert_eq!(name, "Picture");
    }

    #[test]
    fn points_have_all_their_numbers_as_fields() {
        let fields = vec![
            number("x", 0, &[], Number::F32),
            number("y", 4, &[], Number::F32),
            number("z", 8, &[], Number::F32),
            number("ring", 12, &[], Number::U16),
            number("time", 16, &[], Number::U64),
        ];
        let point = Description::raw("P", Struct { size: 24, align: 8, fields }).expect("possible");
        let points = point.clone().slice().expect("possible");
        let (name, out) = written(Some(points.clone()), &[], &[1; 48]);
        let cloud = PointCloud::decode(&*out).expect("points");
        assert_eq!((name.as_str(), cloud.point_stride), ("foxglove.PointCloud", 24));
        let names: Vec<&str> = cloud.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["x", "y", "z", "ring"], "64-bit numbers are not Foxglove's");
        assert_eq!(cloud.fields[3].r#type, NumericType::Uint16 as i32);
        assert_eq!(&cloud.data[..], [1; 48]);
        assert_eq!(written(Some(points), &[("view.as", "json")], &[1; 24]).0, "P");
        let one = written(Some(point), &[], &[1; 24]).0;
        assert_eq!(one, "P", "one point is no cloud");
        let rows = Description::of::<[f32; 4]>().slice().expect("possible");
        let cloud = written(Some(rows.clone()), &[("view.as", "points")], &[1; 32]).1;
        let cloud = PointCloud::decode(&*cloud).expect("points");
        assert_eq!((cloud.point_stride, cloud.fields[3].name.as_str()), (16, "intensity"));
        assert_eq!(written(Some(rows), &[], &[1; 32]).0, "topic", "an array of numbers is not");
        let rows = Description::of::<[f32; 3]>().slice().expect("possible");
        let cloud = written(Some(rows), &[("view.as", "points")], &[1; 24]).1;
        assert_eq!(PointCloud::decode(&*cloud).expect("points").fields.len(), 3);
    }

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    struct Vector {
        x: f64,
        y: f64,
        z: f64,
    }

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    struct Placed {
        translation: Vector,
        rotation: [f64; 4],
    }

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    struct Header {
        frame_id: InlineString<12>,
    }

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    struct Stamped {
        header: Header,
        child_frame_id: InlineString<12>,
        transform: Placed,
    }

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    struct All {
        transforms: InlineVec<Stamped, 3>,
    }

    #[test]
    fn transforms_are_one_or_many() {
        let text = |text| InlineString::new(text).expect("fits");
        let translation = Vector { x: 1.0, y: 2.0, z: 3.0 };
        let transform = Placed { translation, rotation: [0.0, 0.0, 0.0, 1.0] };
        let header = Header { frame_id: text("map") };
        let one = Stamped { header, child_frame_id: text("base"), transform };
        let all = All { transforms: InlineVec::from_slice(&[one, one]).expect("fits") };
        let slice = Description::of::<Stamped>().slice().expect("possible");
        for (description, bytes, count) in [
            (Description::of::<Stamped>(), one.as_bytes(), 1),
            (slice, [one, one, one].as_bytes(), 3),
            (Description::of::<All>(), all.as_bytes(), 2),
        ] {
            let (name, out) = written(Some(description), &[], bytes);
            let frames = FrameTransforms::decode(&*out).expect("transforms").transforms;
            assert_eq!((name.as_str(), frames.len()), ("foxglove.FrameTransforms", count));
            let last = &frames[count - 1];
            assert_eq!((&*last.parent_frame_id, &*last.child_frame_id), ("map", "base"));
            assert_eq!(
                last.translation.as_ref().map(|at| (at.x, at.y, at.z)),
                Some((1.0, 2.0, 3.0))
            );
            assert_eq!(last.rotation.as_ref().map(|turn| turn.w), Some(1.0));
        }
    }

    #[test]
    fn compressed_pictures_say_their_format() {
        let png = b"\x89PNG\r\n\x1a\n and so on";
        let pairs = [("view.as", "compressed-image")];
        let (name, out) = written(None, &pairs, png);
        let image = CompressedImage::decode(&*out).expect("an image");
        assert_eq!((name.as_str(), image.format.as_str()), ("foxglove.CompressedImage", "png"));
        assert_eq!(&image.data[..], png);
        let bytes = Some(Description::of::<u8>().slice().expect("possible"));
        let image = CompressedImage::decode(&*written(bytes, &pairs, png).1).expect("an image");
        assert_eq!(image.format, "png");
        let field = number("data", 20, &[], Number::U8);
        let format = Field {
            name: "format".into(),
            offset: 0,
            extents: Vec::new(),
            item: Item::Struct(Struct::text(16)),
        };
        let one = Description::raw("C", Struct { size: 20, align: 1, fields: vec![format] });
        let one = one.expect("possible").with_tail(field).expect("possible");
        let text = InlineString::<16>::new("jpeg").expect("fits");
        let bytes = [IntoBytes::as_bytes(&text), b"\xff\xd8"].concat();
        let (name, out) = written(Some(one), &[], &bytes);
        let image = CompressedImage::decode(&*out).expect("an image");
        assert_eq!((name.as_str(), image.format.as_str()), ("foxglove.CompressedImage", "jpeg"));
        assert_eq!(&image.data[..], b"\xff\xd8");
    }

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    struct Inner {
        a: f64,
        b: u64,
    }

    /// Nothing says that they are pictures, but their first bytes.
    #[test]
    fn bytes_that_are_a_picture_say_so() {
        let picture = |bytes: &[u8]| {
            let (name, out) = written(None, &[], bytes);
            assert_eq!(name, "bytes");
            let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            value["picture"].as_str().map(str::to_owned)
        };
        // A comment, a table, the frame's head: precision, lines, columns.
        let jpeg = b"\xff\xd8\xff\xfe\0\x04ab\xff\xc4\0\x03\0\xff\xc2\0\x0b\x08\x01\xe0\x02\x80";
        let how = "the attribute view.as=compressed-image shows it";
        assert_eq!(picture(jpeg), Some(format!("jpeg, 640 x 480; {how}")));
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x07\0\0\0\x02";
        assert_eq!(picture(png), Some(format!("png, 7 x 2; {how}")));
        assert_eq!(picture(b"RIFF\xff\0\0\0WEBP"), Some(format!("webp; {how}")));
        // Cut anywhere, or with lengths that lie: no sides, and no panic.
        for bytes in [&jpeg[..], png] {
            for end in 0..bytes.len() {
                let told = picture(&bytes[..end]);
                assert!(told.is_none_or(|told| !told.contains(" x ")), "{end}");
            }
        }
        assert_eq!(picture(b"\xff\xd8\xff\xfe\0\0\xff\xff"), Some(format!("jpeg; {how}")));
        assert_eq!(picture(b"\xff\xfe"), None);
    }

    /// A list's count is in its CDR, and not in the domain.
    #[test]
    fn values_of_a_type_of_ros_2_are_its_cdr() {
        let pairs = [("ros2.type", "p/msg/Inner"), ("ros2.definition", "float64 a\nuint64 b")];
        let inner = Inner { a: 1.5, b: 7 };
        let (name, out) = written(Some(Description::of::<Inner>()), &pairs, inner.as_bytes());
        assert_eq!(
            (name.as_str(), out),
            ("p/msg/Inner", [&[0, 1, 0, 0], inner.as_bytes()].concat())
        );
        let slice = Description::of::<Inner>().slice().expect("possible");
        let out = written(Some(slice.clone()), &pairs, inner.as_bytes()).1;
        assert_eq!(out, [&[0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], inner.as_bytes()].concat());
        assert!(shape(Some(slice), &pairs).write(&[0; 15], None, 0, &mut Vec::new()).is_err());
    }

    /// Of a topic without a description, as Python's arrays are.
    #[test]
    fn arrays_are_what_the_attribute_says() {
        let mut out = Vec::new();
        let points = Description::of::<[[f32; 3]; 2]>();
        let shown = shape(None, &[("view.as", "points")]);
        shown.write(&[1; 24], Some(&points), 0, &mut out).expect("points");
        let cloud = PointCloud::decode(&*out).expect("points");
        assert_eq!((cloud.point_stride, cloud.fields.len(), cloud.data.len()), (12, 3, 24));
        let grey = Description::of::<[[u8; 4]; 3]>();
        let shown = shape(None, &[("view.as", "image")]);
        shown.write(&[1; 12], Some(&grey), 0, &mut out).expect("an image");
        let image = RawImage::decode(&*out).expect("an image");
        assert_eq!((image.width, image.height, image.encoding.as_str()), (4, 3, "mono8"));
        assert!(shown.write(&[1; 12], None, 0, &mut out).is_err(), "no array");
    }

    #[test]
    fn an_unknown_attribute_is_told() {
        let shape = shape(None, &[("view.as", "hologram")]);
        assert_eq!(shape.unknown(), Some("hologram"));
    }
}
