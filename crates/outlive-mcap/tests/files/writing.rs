//! What the writer accepts and refuses, and what another reader makes of it.

use std::collections::BTreeMap;

use outlive_mcap::{
    AttachmentHeader, COPIED, Compression, Error, MAX_CHUNK, MessageHeader, Positions, Sync, Writer,
};

use crate::drive::{Folder, check_finished, options, positions, write_group};
use crate::independent;

#[test]
fn another_reader_reads_each_compression() {
    let folder = Folder::new();
    let python = independent::reader("another_reader_reads_each_compression");
    for compression in [Compression::None, Compression::Zstd(3), Compression::Lz4(4)] {
        let path = folder.file(&format!("{}.mcap", compression.name()));
        let mut options = options(compression);
        options.sync = Sync::EachFlush;
        let mut writer: Writer = Writer::create(&path, options).expect("a new file");
        let mut last = 0;
        for _ in 0..10 {
            last = write_group(&mut writer, last).expect("room");
        }
        // Readable before it is finished, and after.
        if let Some(python) = &python {
            python.check_beginning(&path, last);
        }
        writer
            .put_metadata("session", &BTreeMap::from([("who".into(), "me".into())]))
            .expect("room");
        let header = AttachmentHeader {
            log_time: 1,
            create_time: 2,
            name: "map.png".into(),
            media_type: "image/png".into(),
        };
        writer.put_attachment(&header, &[7; 10_000]).expect("room");
        writer.finish(&positions(last)).expect("room");
        check_finished(&path, last);
        let bytes = std::fs::read(&path).expect("the file");
        let summary = mcap::Summary::read(&bytes).expect("an index").expect("an index");
        let attached = mcap::read::attachment(&bytes, &summary.attachment_indexes[0]);
        assert_eq!(attached.expect("an attachment").data, vec![7; 10_000]);
        if let Some(python) = &python {
            assert_eq!(python.check_finished(&path), last);
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new();
    let path = folder.file("refused.mcap");
    let mut writer: Writer = Writer::create(&path, options(Compression::None)).expect("a new file");
    assert!(Writer::<Vec<u8>>::create(&path, options(Compression::None)).is_err());
    let header = MessageHeader { channel_id: 9, sequence: 0, log_time: 0, publish_time: 0 };
    assert!(matches!(writer.put(&header, b""), Err(Error::UnknownChannel(9))));
    let none = BTreeMap::new();
    assert!(matches!(writer.add_channel(3, "a", "b", &none), Err(Error::UnknownSchema(3))));
    let channel_id = writer.add_channel(0, "a", "b", &none).expect("a channel");
    assert_eq!(writer.add_channel(0, "a", "b", &none).expect("the same"), channel_id);
    let header = MessageHeader { channel_id, ..header };
    // Not touched, so not there.
    let huge = vec![0; MAX_CHUNK as usize];
    assert!(matches!(writer.put_owned(&header, huge), Err(Error::TooLarge { .. })));
    writer.put(&header, b"1").expect("room");
    let most = vec![0; MAX_CHUNK as usize - 100];
    writer.put_owned(&header, most).expect("room");
    let more = vec![0; 10_000];
    assert!(matches!(writer.put_owned(&header, more), Err(Error::GroupFull)));
    assert_eq!(writer.discard(), 2);
    writer.finish(&Positions::new()).expect("room");
    assert!(matches!(writer.flush(&Positions::new()), Err(Error::Finished)));
}

/// A group of more pieces than one system call takes.
#[test]
fn a_group_of_many_long_payloads() {
    let folder = Folder::new();
    let path = folder.file("many.mcap");
    let mut writer: Writer = Writer::create(&path, options(Compression::None)).expect("a new file");
    let channel_id = writer.add_channel(0, "a", "b", &BTreeMap::new()).expect("a channel");
    for sequence in 0..2500_u32 {
        let header = MessageHeader { channel_id, sequence, log_time: 1, publish_time: 1 };
        writer.put_owned(&header, vec![sequence as u8; COPIED + 1]).expect("room");
    }
    writer.finish(&Positions::new()).expect("room");
    let bytes = std::fs::read(&path).expect("the file");
    let mut next = 0;
    for message in mcap::MessageStream::new(&bytes).expect("a whole file") {
        let message = message.expect("a whole message");
        assert_eq!(message.sequence, next);
        assert!(message.data.len() == COPIED + 1 && message.data.iter().all(|b| *b == next as u8));
        next += 1;
    }
    assert_eq!(next, 2500);
}

#[test]
fn nothing_new_writes_nothing() {
    let folder = Folder::new();
    let path = folder.file("still.mcap");
    let mut writer: Writer = Writer::create(&path, options(Compression::None)).expect("a new file");
    write_group(&mut writer, 0).expect("room");
    let len = writer.file_len();
    for _ in 0..10 {
        writer.flush(&positions(5)).expect("room");
    }
    assert_eq!(writer.file_len(), len);
    // Positions that moved are news.
    writer.flush(&positions(6)).expect("room");
    assert!(writer.file_len() > len);
}

/// An owner that gives other bytes each time: the file's lengths must not lie.
struct Changing(std::sync::atomic::AtomicUsize, Vec<u8>);

impl AsRef<[u8]> for Changing {
    fn as_ref(&self) -> &[u8] {
        let calls = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        &self.1[..self.1.len() - calls]
    }
}

#[test]
fn an_owner_that_changes_its_length_is_told() {
    let folder = Folder::new();
    let path = folder.file("changing.mcap");
    let mut writer =
        Writer::<Changing>::create(&path, options(Compression::None)).expect("a new file");
    let channel_id = writer.add_channel(0, "a", "b", &BTreeMap::new()).expect("a channel");
    let header = MessageHeader { channel_id, sequence: 0, log_time: 0, publish_time: 0 };
    writer.put_owned(&header, Changing(0.into(), vec![1; 9000])).expect("room");
    let len = writer.file_len();
    assert!(matches!(writer.flush(&Positions::new()), Err(Error::OtherPayload)));
    assert_eq!(std::fs::metadata(&path).expect("the file").len(), len);
}
