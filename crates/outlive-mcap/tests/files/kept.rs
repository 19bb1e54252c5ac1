//! Chunks that a reader's caller keeps, and readers that stop early.

use std::sync::Arc;

use outlive_mcap::{Compression, Error, Item, MessageHeader, Outline, Positions, Reader, Writer};

use crate::drive::{Folder, options};

/// Writes ten chunks of ten messages, each with its number.
fn write(folder: &Folder, compression: Compression) -> std::path::PathBuf {
    let path = folder.file(&format!("{}.mcap", compression.name()));
    let _ = std::fs::remove_file(&path);
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
        reader.seek_chunk(chunk.offset, &outline).expect("a chunk begins there");
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

/// Moves the place of the chunk with that number in the file's index, and takes the index's checksum away.
fn let_the_index_lie(path: &std::path::Path, outline: &Outline, at: usize, to: u64) {
    let mut bytes = std::fs::read(path).expect("there");
    let old = outline.chunks[at].offset.to_le_bytes();
    // Of a chunk's record in the index: opcode, length, two times, and the place.
    let is_index = |part: &[u8]| part[0] == 8 && part[25..33] == old;
    let found = bytes.windows(33).rposition(is_index).expect("the index has it");
    bytes[found + 25..found + 33].copy_from_slice(&to.to_le_bytes());
    // The footer's last field, before the magic.
    let end = bytes.len() - 8;
    bytes[end - 4..end].fill(0);
    std::fs::write(path, bytes).expect("room");
}

#[test]
fn no_message_comes_twice_if_the_index_lies() {
    let folder = Folder::new();
    for compression in [Compression::None, Compression::Zstd(1)] {
        let path = write(&folder, compression);
        let good = Outline::read(&path).expect("a file");
        let end = std::fs::metadata(&path).expect("there").len();
        for lie in [0, 9, good.chunks[5].offset + 1, good.chunks[6].offset - 1, end, u64::MAX] {
            let_the_index_lie(&write(&folder, compression), &good, 5, lie);
            let outline = Outline::read(&path).expect("a file");
            let mut reader = Reader::open(&path).expect("a file");
            let (mut numbers, mut faults) = (Vec::new(), 0);
            for chunk in &outline.chunks {
                match reader.seek_chunk(chunk.offset, &outline) {
                    Ok(()) => {}
                    Err(Error::Damaged { offset, .. }) => {
                        assert_eq!(offset, chunk.offset);
                        faults += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
                while let Some((number, _)) = next(&mut reader) {
                    numbers.push(number);
                }
            }
            numbers.sort_unstable();
            let others: Vec<u64> = (0..100).filter(|number| number / 10 != 5).collect();
            assert_eq!((numbers, faults), (others, 1), "{lie}");
        }
    }
}

/// A chunk that is as long as two, the second of which the index has as well.
#[test]
fn a_chunk_that_reaches_into_the_next_one_is_not_read() {
    let folder = Folder::new();
    let path = write(&folder, Compression::None);
    let good = Outline::read(&path).expect("a file");
    let mut bytes = std::fs::read(&path).expect("there");
    let (begin, end) = (good.chunks[3].offset as usize, good.chunks[5].offset as usize);
    bytes[begin + 1..begin + 9].copy_from_slice(&((end - begin - 9) as u64).to_le_bytes());
    std::fs::write(&path, bytes).expect("room");
    let outline = Outline::read(&path).expect("a file");
    let mut reader = Reader::open(&path).expect("a file");
    let sought = reader.seek_chunk(begin as u64, &outline);
    assert!(matches!(sought, Err(Error::Damaged { .. })), "{sought:?}");
    assert!(next(&mut reader).is_none());
    reader.seek_chunk(good.chunks[4].offset, &outline).expect("a chunk begins there");
    assert_eq!(next(&mut reader).map(|(number, _)| number), Some(40));
}

/// A reader takes an outline's channels in once: what comes to the outline later, as from another chunk, is taken in
/// by the next seek.
#[test]
fn a_channel_that_comes_to_the_outline_later_is_known_from_then_on() {
    let folder = Folder::new();
    let path = folder.file("theirs.mcap");
    // Only its first chunk defines its channel.
    let options = mcap::WriteOptions::new().compression(None).chunk_size(Some(100));
    let options = options.repeat_channels(false).emit_statistics(false);
    let mut writer = options.create(std::fs::File::create(&path).expect("room")).expect("a writer");
    let channel_id = writer.add_channel(0, "c", "", &Default::default()).expect("a channel");
    for sequence in 0..10_u32 {
        let (log_time, publish_time) = (u64::from(sequence), 0);
        let header = mcap::records::MessageHeader { channel_id, sequence, log_time, publish_time };
        writer.write_to_known_channel(&header, &[0; 100]).expect("room");
    }
    writer.finish().expect("room");
    let mut outline = Outline::read(&path).expect("a file");
    assert!(outline.chunks.len() > 3 && outline.channels().next().is_none());
    let last = outline.chunks[outline.chunks.len() - 1].offset;
    let (mut reader, mut other) =
        (Reader::open(&path).expect("a file"), Reader::open(&path).expect("a file"));
    reader.seek_chunk(last, &outline).expect("a chunk begins there");
    assert!(matches!(reader.next(), Err(Error::Damaged { .. })));
    let channel = loop {
        match other.next().expect("whole") {
            Some(Item::Channel(channel)) => break channel,
            Some(_) => {}
            None => panic!("it has one"),
        }
    };
    outline.add_channel(channel, None);
    for _ in 0..2 {
        reader.seek_chunk(last, &outline).expect("a chunk begins there");
        assert!(matches!(reader.next(), Ok(Some(Item::Message(_)))));
    }
}
