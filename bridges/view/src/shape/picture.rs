//! Pictures: arrays of pixels, structs with `width`, `height` and `data`, and JPEG or the like.

use foxglove::messages::{CompressedImage, RawImage, Timestamp};
use outlive::describe::{Description, Item, Number};

use super::fields::{Fields, is_bytes};
use super::hints::{As, Hints};

/// What the first bytes of pictures are.
const STARTS: [(&[u8], usize, &str); 4] = [
    (b"\xff\xd8\xff", 0, "jpeg"),
    (b"\x89PNG\r\n\x1a\n", 0, "png"),
    (b"WEBP", 8, "webp"),
    (b"ftypavif", 4, "avif"),
];

/// Reads an array of pixels, or a struct that ROS's `sensor_msgs/Image` resembles; `None` if it is none.
pub fn raw(
    description: &Description,
    bytes: &[u8],
    hints: &Hints,
    time: Timestamp,
) -> Option<RawImage> {
    if hints.says(As::Image)
        && let Some(image) = array(description, bytes, hints, time)
    {
        return Some(image);
    }
    let fields = Fields::of(description, bytes)?;
    let (width, height) = (fields.whole(&["width"])?, fields.whole(&["height"])?);
    let data = fields.items(&["data", "pixels"])?;
    let Item::Number(number) = data.item else { return None };
    let line = |unit: u32| width.checked_mul(unit);
    let data = data.bytes;
    let step = fields.whole(&["step", "stride"]).filter(|step| *step > 0);
    let named = fields.text(&["encoding", "format"]).filter(|named| !named.is_empty());
    let pixels = u64::from(width) * u64::from(height);
    let named = named.or_else(|| hints.encoding.clone());
    // What a pixel takes: by its encoding, the line or the whole.
    let each = match (named.as_deref().and_then(bytes_of), step, width, pixels) {
        (Some(each), ..) => each,
        (None, Some(step), 1.., _) => step / width,
        (None, None, _, 1..) => u32::try_from(data.len() as u64 / pixels).ok()?,
        _ => number.bytes(),
    };
    let encoding = named.or_else(|| encoding(*number, each))?;
    let step = step.or_else(|| line(each))?;
    let whole = u64::from(step) * u64::from(height);
    // A list or a tail may have more room than the picture takes.
    let data = data.get(..usize::try_from(whole).ok()?)?;
    Some(RawImage {
        timestamp: Some(time),
        frame_id: hints.frame(frame_of(&fields)),
        width,
        height,
        encoding,
        step,
        data: data.to_vec().into(),
    })
}

/// Returns the name of a frame of reference, as a field of the message or of its header.
pub fn frame_of(fields: &Fields<'_>) -> Option<String> {
    let own = fields.text(&["frame_id", "frame"]);
    own.or_else(|| fields.nested(&["header"])?.text(&["frame_id", "frame"]))
}

/// Pixels as an array of lines, which the attribute has to say: it may as well be a matrix.
fn array(
    description: &Description,
    bytes: &[u8],
    hints: &Hints,
    time: Timestamp,
) -> Option<RawImage> {
    let field = description.single().filter(|_| !description.is_slice())?;
    let Item::Number(number) = field.item else { return None };
    let (height, width, parts) = match field.extents[..] {
        [height, width] => (height, width, 1),
        [height, width, parts] => (height, width, parts),
        _ => return None,
    };
    let each = number.bytes().checked_mul(parts)?;
    let encoding = hints.encoding.clone().or_else(|| encoding(number, each))?;
    Some(RawImage {
        timestamp: Some(time),
        frame_id: hints.frame(None),
        width,
        height,
        encoding,
        step: width.checked_mul(each)?,
        data: bytes.to_vec().into(),
    })
}

/// Returns the usual encoding of pixels of so many bytes.
fn encoding(number: Number, each: u32) -> Option<String> {
    let name = match (number, each) {
        (Number::U8, 1) => "mono8",
        (Number::U8 | Number::U16, 2) => "mono16",
        (Number::U8, 3) => "rgb8",
        (Number::U8, 4) => "rgba8",
        (Number::F32, 4) => "32FC1",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Returns the bytes of a pixel in one of Foxglove's encodings.
fn bytes_of(encoding: &str) -> Option<u32> {
    Some(match encoding {
        "mono8" | "8UC1" => 1,
        encoding if encoding.starts_with("bayer_") => 1,
        "mono16" | "16UC1" | "yuyv" | "yuv422" | "yuv422_yuy2" | "uyvy" => 2,
        "rgb8" | "bgr8" | "8UC3" => 3,
        "rgba8" | "bgra8" | "32FC1" => 4,
        _ => return None,
    })
}

/// Reads a struct with `format` and `data`, as ROS's `sensor_msgs/CompressedImage`.
pub fn compressed(
    description: &Description,
    bytes: &[u8],
    hints: &Hints,
    time: Timestamp,
) -> Option<CompressedImage> {
    let fields = Fields::of(description, bytes)?;
    let format = fields.text(&["format"])?;
    let data = fields.items(&["data"]).filter(|data| is_bytes(data.item))?;
    Some(CompressedImage {
        timestamp: Some(time),
        frame_id: hints.frame(frame_of(&fields)),
        data: data.bytes.to_vec().into(),
        // ROS says "jpeg", or "rgb8; jpeg compressed bgr8".
        format: STARTS.iter().find(|start| format.contains(start.2)).map_or_else(
            || format_of(data.bytes, hints).unwrap_or(format.clone()),
            |start| start.2.to_owned(),
        ),
    })
}

/// A message whose bytes are a picture as JPEG or the like.
pub fn compressed_bytes(bytes: &[u8], hints: &Hints, time: Timestamp) -> Option<CompressedImage> {
    Some(CompressedImage {
        timestamp: Some(time),
        frame_id: hints.frame(None),
        data: bytes.to_vec().into(),
        format: format_of(bytes, hints)?,
    })
}

fn format_of(bytes: &[u8], hints: &Hints) -> Option<String> {
    known_format(bytes).map(str::to_owned).or_else(|| hints.encoding.clone())
}

fn known_format(bytes: &[u8]) -> Option<&'static str> {
    let starts =
        |at: usize, with: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(with));
    STARTS.iter().find(|(with, at, _)| starts(*at, with)).map(|known| known.2)
}

/// Says which picture a message of bytes begins as, and how it is shown as one.
pub fn told(bytes: &[u8]) -> Option<String> {
    let format = known_format(bytes)?;
    let sides = match format {
        "jpeg" => sides_of_jpeg(bytes),
        // The first chunk's head, then both sides.
        "png" => bytes.get(16..24).map(|sides| {
            let side = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|one| sides[at + one]));
            (side(0), side(4))
        }),
        _ => None,
    };
    let sides = sides.map(|(width, height)| format!(", {width} x {height}")).unwrap_or_default();
    Some(format!("{format}{sides}; the attribute view.as=compressed-image shows it"))
}

/// Returns the width and height that a JPEG's frame has: behind segments of tables and comments, each of which says
/// its length.
fn sides_of_jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let [0xff, kind, rest @ ..] = bytes.get(at..)? else { return None };
        let two = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
        match kind {
            // One more byte in front of a kind, as fill.
            0xff => at += 1,
            // Frames. Between them are the kinds of three tables.
            0xc0..=0xcf if ![0xc4, 0xc8, 0xcc].contains(kind) => {
                return Some((two(5)?.into(), two(3)?.into()));
            }
            // The picture's bits begin without a frame.
            0xda => return None,
            _ => at += 2 + usize::from(two(0)?.max(2)),
        }
    }
}
