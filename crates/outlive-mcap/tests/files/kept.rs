//! Chunks that a reader's caller keeps, and readers that stop early.

use std::sync::Arc;

use outlive_mcap::{Compression, Item, MessageHeader, Outline, Positions, Reader, Writer};

use crate::drive::{Folder, options};

/// Writes ten chunks of ten messages, each with its number.
fn write(folder: &Folder, compression: Compression) -> std::path::PathBuf {
    let path = folder.file(&format!("{}.mcap", compression.name()));
    let mut writer: Writer = Writer::create(&path, options(compression)).expect("a new file");
    let channel_id = writer.add_channel(0, "a", "", &Default::default()).expect("added");
    for number in 0..100_u64 {
        let header = MessageHeader {
            channel_id,
            sequence: number as u32,
            log_time: 1 + number,
            publish_time: 0,
        };
        writer.put(&header, &number.to_le_bytes().repeat(50)).expect("room");
        if number % 10 == 9 {
            writer.flush(&Positions::new()).expect("room");
        }
    }
    writer.finish(&Positions::new()).expect("room");
    path
}

/// A message that is kept: its chunk, and where it lies there.
type Kept = (Arc<Vec<u8>>, usize, usize);

fn next(reader: &mut Reader) -> Option<(u64, Kept)> {
    loop {
        match reader.next().expect("whole")? {
            Item::Message(message) => {
                let (chunk, begin) = message.chunk.expect("it lies in a chunk");
                let kept = (Arc::clone(chunk), begin, message.data.len());
                return Some((message.header.log_time - 1, kept));
            }
            _ => continue,
        }
    }
}

#[test]
fn a_chunk_that_is_kept_stays_as_it_is() {
    let folder = Folder::new();
    for compression in [Compression::None, Compression::Zstd(1), Compression::Lz4(1)] {
        let mut reader = Reader::open(write(&folder, compression)).expect("a file");
        let mut kept = Vec::new();
        while let Some((number, one)) = next(&mut reader) {
            // Of some chunks the first message, of others one in the middle, of others none.
            if [0, 11, 15, 40, 99].contains(&number) {
                kept.push((number, one));
            }
        }
        drop(reader);
        assert_eq!(kept.len(), 5);
        for (number, (chunk, begin, len)) in kept {
            assert_eq!(chunk[begin..begin + len], number.to_le_bytes().repeat(50));
        }
    }
}

#[test]
fn a_chunk_that_is_not_kept_gives_its_memory_to_the_next() {
    let folder = Folder::new();
    let mut reader = Reader::open(write(&folder, Compression::None)).expect("a file");
    let mut places = std::collections::BTreeSet::new();
    while let Some((_, (chunk, ..))) = next(&mut reader) {
        places.insert(Arc::as_ptr(&chunk).addr());
    }
    assert_eq!(places.len(), 1);
}

#[test]
fn one_chunk_is_read_alone() {
    let folder = Folder::new();
    let path = write(&folder, Compression::Zstd(1));
    let outline = Outline::read(&path).expect("a file");
    assert_eq!(outline.chunks.len(), 10);
    assert!(!outline.has_loose());
    assert_eq!(outline.statistics.as_ref().map(|counts| counts.message_count), Some(100));
    let channels: Vec<u16> = outline.channels().map(|channel| channel.id).collect();
    let mut reader = Reader::open(&path).expect("a file");
    for (at, chunk) in outline.chunks.iter().enumerate().rev() {
        assert!(outline.may_have(chunk, &channels));
        assert!(!outline.may_have(chunk, &[7]));
        reader.seek(chunk.offset, &outline);
        reader.stop_at(chunk.offset + 1);
        let mut numbers = Vec::new();
        while let Some((number, _)) = next(&mut reader) {
            numbers.push(number);
        }
        let first = 10 * at as u64;
        assert_eq!(numbers, (first..first + 10).collect::<Vec<u64>>());
    }
    // A stop at a chunk's own beginning leaves nothing; seeking lifts it.
    let chunk = outline.chunks[9];
    reader.seek(chunk.offset, &outline);
    reader.stop_at(chunk.offset);
    assert!(next(&mut reader).is_none());
    reader.seek(chunk.offset, &outline);
    assert_eq!(next(&mut reader).map(|(number, _)| number), Some(90));
}
