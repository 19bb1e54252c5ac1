//! The picture that a message is: where its pixels lie, and what they are.
//!
//! Nothing that a message says of its size is taken on trust: all lengths are compared with the
//! bytes that are there, and pixels are read where they lie, only those that are shown.

use std::borrow::Cow;

use outlive::describe::{Description, Encoding, Field, Item, Number};

use super::ros;
use crate::array::Array;
use crate::described;

/// The largest width and height, and the most pixels that a compressed picture may unfold to.
const MOST_SIDE: usize = 1 << 14;
const MOST_PIXELS: usize = 40_000_000;

/// What a pixel is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Bytes, so many each pixel, of which these are red, green and blue.
    Bytes(usize, [usize; 3]),
    /// 16 bits without a sign, the most of them white.
    Gray16,
    /// A distance, in 16 bits without a sign; 0 is none.
    Depth16,
    /// A distance as a floating-point number.
    Depth32,
}

impl Form {
    /// Returns the form that ROS and OpenCV call so.
    pub fn of_name(name: &str) -> Option<Form> {
        Some(match name {
            "rgb8" => Form::Bytes(3, [0, 1, 2]),
            "bgr8" | "8UC3" => Form::Bytes(3, [2, 1, 0]),
            "rgba8" => Form::Bytes(4, [0, 1, 2]),
            "bgra8" | "8UC4" => Form::Bytes(4, [2, 1, 0]),
            "mono8" | "8UC1" => Form::Bytes(1, [0; 3]),
            "mono16" => Form::Gray16,
            "16UC1" => Form::Depth16,
            "32FC1" => Form::Depth32,
            // A camera's own mosaic: its brightness, at least.
            _ if name.starts_with("bayer_") && name.ends_with('8') => Form::Bytes(1, [0; 3]),
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Form::Bytes(bytes, _) => bytes,
            Form::Gray16 | Form::Depth16 => 2,
            Form::Depth32 => 4,
        }
    }
}

/// A picture.
#[derive(Debug)]
pub struct Picture<'a> {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes from one row to the next.
    step: usize,
    form: Form,
    is_big_endian: bool,
    pixels: Cow<'a, [u8]>,
}

/// Pixels as red, green and blue, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Pixels in a row.
    pub width: usize,
    /// All of them.
    pub rgb: Vec<[u8; 3]>,
}

/// What a message says of its pixels.
#[derive(Debug, Default)]
pub struct Raw<'a> {
    /// Pixels in a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Bytes from one row to the next; 0: as many as its pixels have.
    pub step: u64,
    /// As ROS calls it; empty: what the number of bytes says.
    pub encoding: String,
    /// Whether the high byte comes first.
    pub is_big_endian: bool,
    /// The pixels.
    pub data: &'a [u8],
}

impl<'a> Picture<'a> {
    /// Finds the picture in a message. `own`: what its header has for the application's own use.
    pub fn of(
        bytes: &'a [u8],
        own: &[u8; 32],
        description: Option<&Description>,
    ) -> Result<Picture<'a>, String> {
        if let Some(description) = description {
            if described::has_fields(description) {
                return Picture::of_raw(&fields(bytes, description)?);
            }
            let is_cdr = description.encoding() == Encoding::Cdr;
            match description.name().replace("/msg/", "/").as_str() {
                "sensor_msgs/Image" => return Picture::of_raw(&ros::image(bytes, is_cdr)?),
                "sensor_msgs/CompressedImage" => {
                    return Picture::compressed(ros::compressed(bytes, is_cdr)?);
                }
                _ => {}
            }
        }
        if let Some(array) = Array::of(own, bytes.len()) {
            return Picture::of_array(bytes, &array);
        }
        Picture::compressed(bytes)
    }

    /// Returns the picture that was said, if all of it is there.
    pub fn of_raw(raw: &Raw<'a>) -> Result<Picture<'a>, String> {
        if is_compressed(raw.data) {
            return Picture::compressed(raw.data);
        }
        let side =
            |side: u64| usize::try_from(side).ok().filter(|side| (1..=MOST_SIDE).contains(side));
        let (Some(width), Some(height)) = (side(raw.width), side(raw.height)) else {
            let Raw { width, height, .. } = raw;
            let text = format!(
                "it has {width} x {height} pixels, and a picture 1 to {MOST_SIDE} each way"
            );
            return Err(text);
        };
        let form = match raw.encoding.as_str() {
            "" => match raw.data.len() / (width * height) {
                1 => Form::Bytes(1, [0; 3]),
                3 => Form::Bytes(3, [0, 1, 2]),
                4 => Form::Bytes(4, [0, 1, 2]),
                _ => return Err("it does not name its pixels' encoding".to_owned()),
            },
            name => Form::of_name(name)
                .ok_or_else(|| format!("pictures in '{}' are not shown", name.escape_debug()))?,
        };
        let row = width * form.bytes();
        let step = match raw.step {
            0 => row,
            step => usize::try_from(step).map_err(|_| "a row has too many bytes")?,
        };
        // The last row needs no padding.
        let needed = step.checked_mul(height - 1).and_then(|bytes| bytes.checked_add(row));
        if step < row || needed.is_none_or(|needed| needed > raw.data.len()) {
            return Err(format!(
                "{width} x {height} pixels in rows of {step} bytes do not fit in {} bytes",
                raw.data.len()
            ));
        }
        let (is_big_endian, pixels) = (raw.is_big_endian, Cow::Borrowed(raw.data));
        Ok(Picture { width, height, step, form, is_big_endian, pixels })
    }

    /// An array from Python: rows, pixels, and perhaps their parts.
    fn of_array(bytes: &'a [u8], array: &Array) -> Result<Picture<'a>, String> {
        let (encoding, [height, width]) = match (array.dtype, &array.shape[..]) {
            ("uint8", &[height, width] | &[height, width, 1]) => ("mono8", [height, width]),
            ("uint8", &[height, width, 3]) => ("rgb8", [height, width]),
            ("uint8", &[height, width, 4]) => ("rgba8", [height, width]),
            ("uint16", &[height, width]) => ("16UC1", [height, width]),
            ("float32", &[height, width]) => ("32FC1", [height, width]),
            _ => return Err(format!("an array {array} is no picture")),
        };
        Picture::of_raw(&Raw {
            width: width.into(),
            height: height.into(),
            encoding: encoding.to_owned(),
            is_big_endian: cfg!(target_endian = "big"),
            data: bytes,
            ..Raw::default()
        })
    }

    /// A JPEG or PNG file.
    fn compressed(bytes: &[u8]) -> Result<Picture<'static>, String> {
        let (width, height, pixels) = match bytes {
            [0xff, 0xd8, ..] => jpeg(bytes)?,
            [0x89, b'P', b'N', b'G', ..] => png(bytes)?,
            _ => return Err("messages are no pictures that are known".to_owned()),
        };
        let form = Form::Bytes(3, [0, 1, 2]);
        let (step, is_big_endian, pixels) = (width * 3, false, Cow::Owned(pixels));
        Ok(Picture { width, height, step, form, is_big_endian, pixels })
    }

    /// Returns the picture at another size: each pixel is the mean of up to 16 below it.
    pub fn scaled(&self, width: usize, height: usize) -> Pixels {
        const SAMPLES: usize = 4;
        let range = self.range();
        // Where the sample with that number lies in that part of a side.
        let place = |part: usize, sample: usize, of: usize, side: usize| {
            ((part * SAMPLES + sample) * side / (of * SAMPLES)).min(side - 1)
        };
        let mut rgb = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                let mut sum = [0_u32; 3];
                for (down, right) in
                    (0..SAMPLES).flat_map(|down| (0..SAMPLES).map(move |right| (down, right)))
                {
                    let row = place(y, down, height, self.height);
                    let pixel = self.pixel(place(x, right, width, self.width), row, range);
                    for (sum, part) in sum.iter_mut().zip(pixel) {
                        *sum += u32::from(part);
                    }
                }
                rgb.push(sum.map(|sum| (sum / (SAMPLES * SAMPLES) as u32) as u8));
            }
        }
        Pixels { width, rgb }
    }

    /// Returns the nearest and the farthest distance, of some thousand of them.
    fn range(&self) -> (f32, f32) {
        if !matches!(self.form, Form::Depth16 | Form::Depth32) {
            return (0.0, 1.0);
        }
        let mut range = (f32::INFINITY, f32::NEG_INFINITY);
        let step = (self.width * self.height / 65_536).max(1);
        for place in (0..self.width * self.height).step_by(step) {
            let value = self.number(place % self.width, place / self.width);
            if value > 0.0 && value.is_finite() {
                range = (range.0.min(value), range.1.max(value));
            }
        }
        range
    }

    /// Returns the bytes of a pixel; `of_raw` has counted them.
    fn at(&self, x: usize, y: usize) -> &[u8] {
        self.pixels.get(y * self.step + x * self.form.bytes()..).unwrap_or_default()
    }

    fn number(&self, x: usize, y: usize) -> f32 {
        let (bytes, is_big) = (self.at(x, y), self.is_big_endian);
        match (self.form, bytes) {
            (Form::Depth32, [a, b, c, d, ..]) => {
                let bytes = [*a, *b, *c, *d];
                if is_big { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) }
            }
            (_, [a, b, ..]) => f32::from(if is_big {
                u16::from_be_bytes([*a, *b])
            } else {
                u16::from_le_bytes([*a, *b])
            }),
            _ => 0.0,
        }
    }

    fn pixel(&self, x: usize, y: usize, (near, far): (f32, f32)) -> [u8; 3] {
        match self.form {
            Form::Bytes(_, places) => {
                let bytes = self.at(x, y);
                places.map(|place| bytes.get(place).copied().unwrap_or(0))
            }
            Form::Gray16 => [(self.number(x, y) / 257.0) as u8; 3],
            // What is near is bright, and what has no distance black.
            Form::Depth16 | Form::Depth32 => match self.number(x, y) {
                value if value > 0.0 && value.is_finite() => {
                    let part = if far > near { (value - near) / (far - near) } else { 0.0 };
                    [(255.0 - part.clamp(0.0, 1.0) * 215.0) as u8; 3]
                }
                _ => [0; 3],
            },
        }
    }
}

fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xd8, 0xff]) || bytes.starts_with(b"\x89PNG\r\n\x1a\n")
}

fn jpeg(bytes: &[u8]) -> Result<(usize, usize, Vec<u8>), String> {
    use zune_jpeg::zune_core::bytestream::ZCursor;
    use zune_jpeg::zune_core::colorspace::ColorSpace;
    use zune_jpeg::zune_core::options::DecoderOptions;

    let wrong = |why: &dyn std::fmt::Debug| format!("a JPEG that cannot be read: {why:?}");
    let options = DecoderOptions::default()
        .set_max_width(MOST_SIDE)
        .set_max_height(MOST_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| wrong(&error))?;
    let (width, height) = decoder.dimensions().ok_or("a JPEG without a size")?;
    bounded(width, height)?;
    let pixels = decoder.decode().map_err(|error| wrong(&error))?;
    whole(width, height, pixels)
}

fn png(bytes: &[u8]) -> Result<(usize, usize, Vec<u8>), String> {
    let wrong = |why: png::DecodingError| format!("a PNG that cannot be read: {why}");
    let limits = png::Limits { bytes: MOST_PIXELS * 4 };
    let mut decoder = png::Decoder::new_with_limits(std::io::Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(wrong)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    bounded(width, height)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("a PNG that is too large")?];
    let info = reader.next_frame(&mut pixels).map_err(wrong)?;
    pixels.truncate(info.buffer_size());
    let parts = info.color_type.samples();
    let rgb = match parts {
        3 => pixels,
        // Grey, perhaps with how opaque it is; or colours with that.
        1 | 2 => pixels.chunks_exact(parts).flat_map(|pixel| [pixel[0]; 3]).collect(),
        _ => pixels.chunks_exact(parts).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    };
    whole(width, height, rgb)
}

fn bounded(width: usize, height: usize) -> Result<(), String> {
    let is_bounded = (1..=MOST_SIDE).contains(&width)
        && (1..=MOST_SIDE).contains(&height)
        && width * height <= MOST_PIXELS;
    is_bounded
        .then_some(())
        .ok_or_else(|| format!("a picture of {width} x {height} pixels is too large"))
}

fn whole(width: usize, height: usize, rgb: Vec<u8>) -> Result<(usize, usize, Vec<u8>), String> {
    if rgb.len() < width * height * 3 {
        return Err("a picture that is not whole".to_owned());
    }
    Ok((width, height, rgb))
}

/// Reads a picture of a described type, which has the fields of ROS's `sensor_msgs/Image`.
fn fields<'a>(bytes: &'a [u8], description: &Description) -> Result<Raw<'a>, String> {
    if !description.fits(bytes.len()) || description.is_slice() {
        return Err("messages are not what their description says".to_owned());
    }
    let shape = description.shape();
    let find = |name: &str| shape.fields.iter().find(|field| field.name == name);
    let part = |field: &Field| {
        let begin = field.offset as usize;
        bytes.get(begin..begin.checked_add(usize::try_from(field.bytes()).ok()?)?)
    };
    let number = |name: &str| {
        let field = find(name)?;
        let bytes = part(field)?;
        match (&field.item, &field.extents[..]) {
            (Item::Number(Number::Bool | Number::U8), []) => Some(u64::from(bytes[0])),
            (Item::Number(Number::U16 | Number::I16), []) => {
                Some(u16::from_ne_bytes(bytes.try_into().ok()?).into())
            }
            (Item::Number(Number::U32 | Number::I32), []) => {
                Some(u32::from_ne_bytes(bytes.try_into().ok()?).into())
            }
            (Item::Number(Number::U64 | Number::I64), []) => {
                Some(u64::from_ne_bytes(bytes.try_into().ok()?))
            }
            _ => None,
        }
    };
    let text = |name: &str| {
        let field = find(name)?;
        let Item::Struct(shape) = &field.item else { return None };
        let (length, bytes) = part(field)?.split_first_chunk()?;
        let length = u32::from_ne_bytes(*length) as usize;
        shape.is_text().then(|| String::from_utf8_lossy(&bytes[..length.min(bytes.len())]).into())
    };
    // The pixels are a tail, a list of bytes, or an array.
    let data = match (description.tail().filter(|tail| tail.name == "data"), find("data")) {
        (Some(_), _) => bytes.get(shape.size as usize..),
        (None, Some(field)) => match &field.item {
            Item::Struct(list) if list.is_list() => part(field).and_then(|bytes| {
                let (length, items) = bytes.split_first_chunk()?;
                let each = u64::from(list.fields[1].item.bytes());
                let length = u64::from_ne_bytes(*length).saturating_mul(each);
                Some(&items[..usize::try_from(length).unwrap_or(usize::MAX).min(items.len())])
            }),
            Item::Number(_) => part(field),
            _ => None,
        },
        (None, None) => None,
    };
    let (Some(width), Some(height), Some(data)) = (number("width"), number("height"), data) else {
        // One that says no size may be a JPEG in a list.
        if let Some(data) = data.filter(|data| is_compressed(data)) {
            return Ok(Raw { data, ..Raw::default() });
        }
        return Err(
            "messages have no fields width, height and data, as sensor_msgs/Image has".to_owned()
        );
    };
    Ok(Raw {
        width,
        height,
        step: number("step").unwrap_or(0),
        encoding: text("encoding").unwrap_or_default(),
        is_big_endian: number("is_bigendian").unwrap_or(0) != 0,
        data,
    })
}

#[cfg(test)]
pub mod tests {
    use outlive::describe::Struct;

    use super::*;

    fn raw<'a>(width: u64, height: u64, encoding: &str, data: &'a [u8]) -> Raw<'a> {
        Raw { width, height, encoding: encoding.to_owned(), data, ..Raw::default() }
    }

    fn pixels(raw: &Raw<'_>, width: usize, height: usize) -> Result<Vec<[u8; 3]>, String> {
        Picture::of_raw(raw).map(|picture| picture.scaled(width, height).rgb)
    }

    #[test]
    fn each_encoding_is_red_green_and_blue() {
        let two = |encoding, data: &[u8]| pixels(&raw(2, 1, encoding, data), 2, 1);
        assert_eq!(two("rgb8", &[1, 2, 3, 4, 5, 6]), Ok(vec![[1, 2, 3], [4, 5, 6]]));
        assert_eq!(two("bgr8", &[1, 2, 3, 4, 5, 6]), Ok(vec![[3, 2, 1], [6, 5, 4]]));
        assert_eq!(two("bgra8", &[1, 2, 3, 9, 4, 5, 6, 9]), Ok(vec![[3, 2, 1], [6, 5, 4]]));
        assert_eq!(two("mono8", &[7, 9]), Ok(vec![[7; 3], [9; 3]]));
        assert_eq!(two("", &[7, 9]), Ok(vec![[7; 3], [9; 3]]));
        assert_eq!(two("mono16", &[0xff, 0xff, 0, 0]), Ok(vec![[255; 3], [0; 3]]));
        assert_eq!(two("16UC1", &[100, 0, 200, 0]), Ok(vec![[255; 3], [40; 3]]));
        let depth = [1.0_f32, f32::NAN].map(f32::to_le_bytes).concat();
        assert_eq!(two("32FC1", &depth), Ok(vec![[255; 3], [0; 3]]));
        let big = Raw { is_big_endian: true, ..raw(2, 1, "mono16", &[0xff, 0, 0, 0xff]) };
        assert_eq!(pixels(&big, 2, 1), Ok(vec![[254; 3], [0; 3]]));
        let padded = Raw { step: 4, ..raw(1, 2, "rgb8", &[1, 2, 3, 0, 4, 5, 6]) };
        assert_eq!(pixels(&padded, 1, 2), Ok(vec![[1, 2, 3], [4, 5, 6]]));
        // Half as large: the mean.
        assert_eq!(pixels(&raw(2, 2, "mono8", &[0, 100, 100, 200]), 1, 1), Ok(vec![[100; 3]]));
    }

    #[test]
    fn hostile_sizes_are_refused() {
        for (width, height, step, len) in [
            (0, 1, 0, 10),
            (1, 0, 0, 10),
            (u64::MAX, u64::MAX, 0, 10),
            (1 << 14, 1 << 14, 0, 10),
            (4, 4, 0, 47),
            (4, 4, 11, 1000),
            (4, 4, u64::MAX, 1000),
            (4, 4, u64::MAX / 3, 1000),
        ] {
            let data = vec![0; len];
            let raw = Raw { step, ..raw(width, height, "rgb8", &data) };
            assert!(pixels(&raw, 1, 1).is_err(), "{width} {height} {step} {len}");
        }
        assert!(
            pixels(&raw(1, 1, "yuv422", &[0; 9]), 1, 1).is_err_and(|why| why.contains("yuv422"))
        );
        for bytes in
            [&b"\xff\xd8"[..], b"\xff\xd8\xff\xe0abc", b"\x89PNG\r\n\x1a\nabc", b"text", b""]
        {
            assert!(Picture::of(bytes, &[0; 32], None).is_err(), "{bytes:?}");
        }
        // A PNG that says it is far larger than it is.
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 16_000, 16_000);
        encoder.set_color(png::ColorType::Grayscale);
        let mut writer = encoder.write_header().expect("begun");
        writer.write_chunk(png::chunk::IDAT, &[0x78, 0x9c]).expect("written");
        drop(writer);
        let why = Picture::of(&bytes, &[0; 32], None).map(drop);
        assert!(why.clone().is_err_and(|why| why.contains("too large")), "{why:?}");
    }

    /// Returns a PNG of two pixels, red and blue.
    pub fn red_and_blue() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 2, 1);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().expect("begun");
        writer.write_image_data(&[255, 0, 0, 0, 0, 255]).expect("written");
        writer.finish().expect("ended");
        bytes
    }

    #[test]
    fn files_arrays_and_described_messages_are_pictures() {
        let both = vec![[255, 0, 0], [0, 0, 255]];
        let shown = |bytes: &[u8], own: &[u8; 32], description: Option<&Description>| {
            Picture::of(bytes, own, description).map(|picture| picture.scaled(2, 1).rgb)
        };
        assert_eq!(shown(&red_and_blue(), &[0; 32], None), Ok(both.clone()));
        let mut own = [0; 32];
        own[..5].copy_from_slice(&[0xa5, 3, b'u', 1, 1]);
        (own[8], own[12]) = (2, 3);
        let rgb = [255, 0, 0, 0, 0, 255];
        assert_eq!(shown(&rgb, &own, None), Ok(both.clone()));
        let number = |name: &str, offset| Field {
            name: name.into(),
            offset,
            extents: Vec::new(),
            item: Item::Number(Number::U32),
        };
        let encoding = Field { item: Item::Struct(Struct::text(8)), ..number("encoding", 8) };
        let fields = vec![number("width", 0), number("height", 4), encoding];
        let shape = Struct { size: 20, align: 4, fields };
        let data = Field { item: Item::Number(Number::U8), ..number("data", 20) };
        let image = Description::raw("Image", shape).and_then(|one| one.with_tail(data));
        let image = image.expect("possible");
        let head =
            [&2_u32.to_ne_bytes()[..], &1_u32.to_ne_bytes(), &4_u32.to_ne_bytes(), b"bgr8xxxx"];
        let message = [&head.concat()[..], &[0, 0, 255, 255, 0, 0]].concat();
        assert_eq!(shown(&message, &[0; 32], Some(&image)), Ok(both.clone()));
        assert!(shown(&message[..21], &[0; 32], Some(&image)).is_err());
        // A file in the place of the pixels.
        let message = [&head.concat()[..], &red_and_blue()].concat();
        assert_eq!(shown(&message, &[0; 32], Some(&image)), Ok(both));
    }
}
