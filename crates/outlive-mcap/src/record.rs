//! The forms of records: each is an opcode, the length of its body, and the body.

use std::collections::BTreeMap;
use std::io::Cursor;

use binrw::BinWrite;
use mcap::records::{self, op};

use crate::error::Error;

/// The opcode and the length.
pub(crate) const HEAD: usize = 9;
/// What stands before a message's payload: the record's head, channel, sequence and two times.
pub(crate) const MESSAGE_HEAD: usize = HEAD + 22;
/// The largest body of a record other than a chunk, a message or an attachment: what is read as a
/// whole to find one's way.
pub(crate) const MAX_SMALL: u64 = 64 << 20;
/// The most bytes that a chunk holds uncompressed, and so the longest message.
pub const MAX_CHUNK: u64 = 1 << 30;

/// Appends a record whose body the mcap crate writes.
pub(crate) fn push<B>(out: &mut Vec<u8>, op: u8, body: &B)
where
    B: for<'a> BinWrite<Args<'a> = ()>,
{
    push_with(out, op, |out| push_body(out, body));
}

/// Appends a record whose body `body` appends.
pub(crate) fn push_with(out: &mut Vec<u8>, op: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(op);
    out.extend_from_slice(&[0; 8]);
    body(out);
    let len = (out.len() - at - HEAD) as u64;
    out[at + 1..at + HEAD].copy_from_slice(&len.to_le_bytes());
}

fn push_body<B>(out: &mut Vec<u8>, body: &B)
where
    B: for<'a> BinWrite<Args<'a> = ()>,
{
    let mut end = Cursor::new(Vec::new());
    body.write_le(&mut end).expect("memory takes all that is written");
    out.extend_from_slice(end.get_ref());
}

pub(crate) fn push_schema(out: &mut Vec<u8>, header: &records::SchemaHeader, data: &[u8]) {
    push_with(out, op::SCHEMA, |out| {
        push_body(out, header);
        out.extend_from_slice(&(data.len() as u32).to_le_bytes());
        out.extend_from_slice(data);
    });
}

pub(crate) fn push_metadata(out: &mut Vec<u8>, name: &str, metadata: &BTreeMap<String, String>) {
    let (name, metadata) = (name.to_owned(), metadata.clone());
    push(out, op::METADATA, &records::Metadata { name, metadata });
}

/// Appends an attachment with its checksum.
pub(crate) fn push_attachment(out: &mut Vec<u8>, header: &records::AttachmentHeader, data: &[u8]) {
    push_with(out, op::ATTACHMENT, |out| {
        let begun = out.len();
        push_body(out, header);
        out.extend_from_slice(&(data.len() as u64).to_le_bytes());
        out.extend_from_slice(data);
        let crc = crc32fast::hash(&out[begun..]);
        out.extend_from_slice(&crc.to_le_bytes());
    });
}

/// Returns what stands before the payload of a message.
#[inline]
pub(crate) fn message_head(
    header: &records::MessageHeader,
    payload_len: usize,
) -> [u8; MESSAGE_HEAD] {
    let mut head = [0; MESSAGE_HEAD];
    head[0] = op::MESSAGE;
    head[1..9].copy_from_slice(&(payload_len as u64 + 22).to_le_bytes());
    head[9..11].copy_from_slice(&header.channel_id.to_le_bytes());
    head[11..15].copy_from_slice(&header.sequence.to_le_bytes());
    head[15..23].copy_from_slice(&header.log_time.to_le_bytes());
    head[23..31].copy_from_slice(&header.publish_time.to_le_bytes());
    head
}

/// Appends all of a chunk's record that stands before its data.
pub(crate) fn push_chunk_head(out: &mut Vec<u8>, header: &records::ChunkHeader) {
    let at = out.len();
    push(out, op::CHUNK, header);
    let len = (out.len() - at - HEAD) as u64 + header.compressed_size;
    out[at + 1..at + HEAD].copy_from_slice(&len.to_le_bytes());
}

/// Appends the index of one channel's messages in a chunk: times and offsets.
pub(crate) fn push_message_index(out: &mut Vec<u8>, channel: u16, entries: &[(u64, u64)]) {
    push_with(out, op::MESSAGE_INDEX, |out| {
        out.extend_from_slice(&channel.to_le_bytes());
        out.extend_from_slice(&((entries.len() * 16) as u32).to_le_bytes());
        out.reserve(entries.len() * 16);
        for (time, offset) in entries {
            out.extend_from_slice(&time.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
        }
    });
}

/// Returns the number at the beginning of `bytes`, if that many are there.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// A field of a record's body.
enum Field {
    /// So many bytes.
    Fixed(usize),
    /// A length of four bytes, and as many bytes.
    Text,
    /// A length in bytes, and pairs of texts.
    Map,
}

/// Tells whether all lengths in a small record lie within its body.
///
/// The mcap crate asks for as much memory as a text's length says, before it looks whether the text
/// is there: up to 4 GiB for nine bytes.
pub(crate) fn has_sound_lengths(op: u8, mut body: &[u8]) -> bool {
    use Field::{Fixed, Map, Text};
    let fields: &[Field] = match op {
        op::HEADER => &[Text, Text],
        op::SCHEMA => &[Fixed(2), Text, Text, Text],
        op::CHANNEL => &[Fixed(4), Text, Text, Map],
        op::ATTACHMENT => &[Fixed(16), Text, Text],
        op::METADATA => &[Text, Map],
        op::CHUNK_INDEX => &[Fixed(32), Text, Fixed(8), Text, Fixed(16)],
        op::ATTACHMENT_INDEX => &[Fixed(40), Text, Text],
        op::METADATA_INDEX => &[Fixed(16), Text],
        op::STATISTICS => &[Fixed(42), Text],
        _ => &[],
    };
    fields.iter().all(|field| match field {
        Fixed(len) => body.split_off(..*len).is_some(),
        Text => text(&mut body).is_some(),
        Map => text(&mut body).is_some_and(|mut map| {
            while !map.is_empty() {
                if text(&mut map).and_then(|_| text(&mut map)).is_none() {
                    return false;
                }
            }
            true
        }),
    })
}

/// Takes a text off.
fn text<'a>(body: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = body.split_off(..4)?;
    body.split_off(..u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize)
}

/// Reads a small record whose lengths may lie.
pub(crate) fn parse(op: u8, body: &[u8], offset: u64) -> Result<records::Record<'_>, Error> {
    if !has_sound_lengths(op, body) {
        return Err(Error::damaged(offset, "a length in a record is longer than the record"));
    }
    mcap::parse_record(op, body).map_err(|_| Error::unreadable(offset))
}
