//! A day's recording: a writer's memory does not grow with its file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlive_mcap::{MessageHeader, Options, Positions, Reader, Writer};

/// Bytes that are allocated now, and the most that were at a time since it was last set.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counted;

fn count(len: usize) {
    let live = LIVE.fetch_add(len, Ordering::Relaxed) + len;
    MOST.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller of this function promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller of this function promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// A file of the test's own, which goes with it.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn most() -> usize {
    MOST.swap(LIVE.load(Ordering::Relaxed), Ordering::Relaxed)
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let name = format!("outlive-mcap-flat-{}.mcap", std::process::id());
    let file = Temporary(std::env::temp_dir().join(name));
    let _ = std::fs::remove_file(&file.0);
    let mut writer: Writer = Writer::create(&file.0, Options::default()).expect("a new file");
    let channel_id = writer.add_channel(0, "a", "b", &BTreeMap::new()).expect("a channel");
    let mut write = |from: u32, to: u32| {
        for sequence in from..to {
            let time = u64::from(sequence);
            let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
            writer.put(&header, &[1; 100]).expect("room");
            let positions = Positions::from([("a".into(), format!("{sequence:08}"))]);
            writer.flush(&positions).expect("room");
        }
    };
    write(0, 500);
    most();
    write(500, 1000);
    let early = most();
    // A group a second, for the better part of a day.
    write(1000, 50_000);
    let late = most();
    assert!(late <= early + 4096, "{early} bytes before 1,000 groups, {late} after 50,000");
    // The index has some 150 bytes for each group; it goes out in parts of a mebibyte.
    writer.finish(&writer.positions().clone()).expect("room");
    let finishing = most();
    assert!(finishing <= early + (4 << 20), "{finishing} bytes while finishing");
    drop(writer);
    let (writer, _) =
        Writer::<Vec<u8>>::resume(&file.0, Options::default()).expect("a file to resume");
    let resuming = most();
    assert!(resuming <= early + (1 << 20), "{resuming} bytes while resuming");
    assert_eq!(writer.contents().statistics().message_count, 50_000);
    let mut reader = Reader::open(&file.0).expect("a file");
    while reader.next().expect("a whole file").is_some() {}
    assert!(most() <= early + (1 << 20), "while reading");
}
