//! Another implementation reads the files: PyPI's `mcap`, where a Python that has it is found.

use std::path::Path;
use std::process::Command;

pub struct Python(String);

/// Returns the reader, or says that `test` is without it.
pub fn reader(test: &str) -> Option<Python> {
    let named = std::env::var("OUTLIVE_MCAP_PYTHON").ok();
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python").to_owned();
    for python in named.into_iter().chain([own, "python3".to_owned()]) {
        let tried = Command::new(&python).args(["-c", "import mcap.reader"]).output();
        if tried.is_ok_and(|tried| tried.status.success()) {
            return Some(Python(python));
        }
    }
    println!("{test}: without an independent reader: no Python here has the package mcap");
    None
}

/// Prints the numbers of the messages that can be read, in the file's order, and how reading ended.
const BEGINNING: &str = "
import sys
from mcap.reader import NonSeekingReader
n = 0
try:
    for schema, channel, message in NonSeekingReader(open(sys.argv[1], 'rb')).iter_messages(log_time_order=False):
        n += 1
        assert message.sequence == n, (message.sequence, n)
        assert message.log_time == 10 * n
        want = 5000 if n % 7 == 0 else n * 37 % 200
        assert message.data == bytes((n + at) % 256 for at in range(want)), n
        assert channel.topic == ('even' if n > 10 and n % 2 == 0 else 'drive')
        assert schema.name == 'Drive'
except AssertionError:
    raise
except Exception as error:
    pass
print(n)
";

/// Reads by the index, checks all checksums, and prints how many messages there are.
const FINISHED: &str = "
import sys
from mcap.reader import SeekingReader
reader = SeekingReader(open(sys.argv[1], 'rb'), validate_crcs=True)
summary = reader.get_summary()
n = sum(1 for _ in reader.iter_messages())
assert n == summary.statistics.message_count, (n, summary.statistics)
for topic in ('drive', 'even'):
    got = sum(1 for _ in reader.iter_messages(topics=[topic]))
    ids = [c.id for c in summary.channels.values() if c.topic == topic]
    assert got == sum(summary.statistics.channel_message_counts.get(i, 0) for i in ids), topic
records = [m for m in reader.iter_metadata() if m.name == 'outlive.positions']
assert len(records) >= 1
print(n)
";

impl Python {
    /// Checks that a file without an index has at least the messages 1 to `last`.
    pub fn check_beginning(&self, path: &Path, last: u64) {
        let read = self.run(BEGINNING, path);
        assert!(read >= last, "{last} messages were in the file, and {read} are read");
    }

    /// Checks that a finished file is whole; returns how many messages it has.
    pub fn check_finished(&self, path: &Path) -> u64 {
        self.run(FINISHED, path)
    }

    fn run(&self, program: &str, path: &Path) -> u64 {
        let ran = Command::new(&self.0).args(["-c", program]).arg(path).output();
        let ran = ran.expect("Python runs");
        let (out, told) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{}: {told}", path.display());
        out.trim().parse().expect("a number")
    }
}
