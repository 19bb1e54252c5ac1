//! A death leaves a beginning of what was to be written: each such beginning is resumed.

use std::fs;

use outlive_mcap::{Compression, Error, Writer};

use crate::drive::{Folder, check_finished, options, position, positions, put, write_group};

/// Writes a finished file of four groups; returns its bytes, and after which byte each group was
/// whole, with its last message.
fn whole(folder: &Folder, compression: Compression) -> (Vec<u8>, Vec<(u64, u64)>) {
    let path = folder.file("whole.mcap");
    let _ = fs::remove_file(&path);
    let mut writer: Writer = Writer::create(&path, options(compression)).expect("a new file");
    let mut groups = vec![(writer.file_len(), 0)];
    for group in 0..4 {
        let last = write_group(&mut writer, group * 5).expect("room");
        groups.push((writer.file_len(), last));
    }
    writer.finish(&positions(20)).expect("room");
    drop(writer);
    (fs::read(&path).expect("the file"), groups)
}

#[test]
fn resumed_after_a_cut_at_every_byte() {
    let folder = Folder::new();
    for compression in [Compression::None, Compression::Zstd(1), Compression::Lz4(0)] {
        let (bytes, groups) = whole(&folder, compression);
        let path = folder.file("cut.mcap");
        for cut in 0..=bytes.len() {
            // A file that is made anew is not written to the disk, as one that is cut short first is.
            let _ = fs::remove_file(&path);
            fs::write(&path, &bytes[..cut]).expect("room");
            let (writer, tail) =
                Writer::<Vec<u8>>::resume(&path, options(compression)).expect("a file to resume");
            let mut writer = writer;
            let group = groups.iter().rev().find(|(end, _)| *end <= cut as u64);
            let last = group.map_or(0, |(_, last)| *last);
            assert_eq!(tail.fresh, group.is_none(), "cut at {cut}");
            assert_eq!(position(&tail.positions), last, "cut at {cut}");
            assert_eq!(writer.contents().statistics().message_count, last);
            assert_eq!(tail.finished, cut == bytes.len());
            let end = group.map_or(0, |(end, _)| *end).max(groups[0].0);
            assert_eq!(fs::metadata(&path).expect("the file").len(), end, "cut at {cut}");
            // To go on and to finish is the same code at each cut of a group.
            if cut % 97 == 0 || groups.iter().any(|(end, _)| end.abs_diff(cut as u64) < 3) {
                put(&mut writer, last + 1).expect("room");
                writer.finish(&positions(last + 1)).expect("room");
                check_finished(&path, last + 1);
            }
        }
    }
}

#[test]
fn a_finished_file_is_written_on_and_finished_again() {
    let folder = Folder::new();
    whole(&folder, Compression::None);
    let path = folder.file("whole.mcap");
    for round in 0..3 {
        let (mut writer, tail) =
            Writer::<Vec<u8>>::resume(&path, options(Compression::None)).expect("a file to resume");
        let last = position(&tail.positions);
        assert_eq!((last, tail.finished, tail.cut), (20 + round * 5, true, 0));
        let last = write_group(&mut writer, last).expect("room");
        writer.finish(&positions(last)).expect("room");
        assert!(matches!(put(&mut writer, last + 1), Err(Error::Finished)));
        check_finished(&path, last);
    }
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_as_it_is() {
    let folder = Folder::new();
    let path = folder.file("other.mcap");
    let mut other = mcap::Writer::new(fs::File::create(&path).expect("room")).expect("a writer");
    let channel = other.add_channel(0, "a", "b", &Default::default()).expect("a channel");
    let header = mcap::records::MessageHeader {
        channel_id: channel,
        sequence: 1,
        log_time: 1,
        publish_time: 1,
    };
    other.write_to_known_channel(&header, b"hello").expect("room");
    other.finish().expect("room");
    drop(other);
    let whole = fs::read(&path).expect("the file");
    // Its writer may have died, too: only without anything behind its header it is as good as new.
    let header_end =
        8 + 9 + u64::from_le_bytes(whole[9..17].try_into().expect("a length")) as usize;
    let mut files: Vec<_> =
        (header_end + 1..=whole.len()).map(|cut| whole[..cut].to_vec()).collect();
    files.push(b"no mcap at all, and longer than its magic".to_vec());
    files.push(b"short".to_vec());
    files.push(b"\x89MCAP1\r\nanother version".to_vec());
    for bytes in files {
        fs::write(&path, &bytes).expect("room");
        let error = Writer::<Vec<u8>>::resume(&path, options(Compression::None)).err();
        let error = error.expect("refused");
        assert!(
            matches!(
                error,
                Error::NotResumable { .. } | Error::NotMcap { .. } | Error::OtherVersion { .. }
            ),
            "{error}"
        );
        assert!(fs::read(&path).expect("the file") == bytes, "{error}");
    }
}

#[test]
fn two_writers_never_write_one_file() {
    let folder = Folder::new();
    let path = folder.file("one.mcap");
    let first: Writer = Writer::create(&path, options(Compression::None)).expect("a new file");
    let second = Writer::<Vec<u8>>::resume(&path, options(Compression::None)).err();
    assert!(matches!(second, Some(Error::Locked { .. })), "{second:?}");
    drop(first);
    Writer::<Vec<u8>>::resume(&path, options(Compression::None)).expect("nobody writes it");
}
