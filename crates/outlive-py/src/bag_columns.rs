//! All messages of a topic as columns: their times, and their values as one array.

use std::path::Path;
use std::sync::Arc;

use outlive_mcap::Error;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::bag_bytes::BagBytes;
use crate::bag_channel::BagChannel;
use crate::bag_walk::{Found, Source, Walk, Wanted};
use crate::errors::{Raised, raise};
use crate::sample::{ASARRAY, DTYPE, Function};
use crate::waiting::detached;

static NDARRAY: Function = Function::new("numpy", "ndarray");

/// What is gathered.
#[derive(Default)]
struct Gathered {
    of: Option<Arc<BagChannel>>,
    values: Vec<u8>,
    /// The bytes of each value, once there is one.
    len: Option<usize>,
    count: usize,
    /// As numpy has them.
    log_times: Vec<u8>,
    publish_times: Vec<u8>,
    sequences: Vec<u8>,
    /// Why the values are no array.
    refused: Option<&'static str>,
}

impl Gathered {
    fn take(&mut self, found: &Found, with_values: bool) {
        self.count += 1;
        self.log_times.extend_from_slice(&found.header.log_time.to_ne_bytes());
        self.publish_times.extend_from_slice(&found.header.publish_time.to_ne_bytes());
        self.sequences.extend_from_slice(&found.header.sequence.to_ne_bytes());
        if with_values && self.refused.is_none() {
            self.refused = self.take_value(found).err();
        }
    }

    fn take_value(&mut self, found: &Found) -> Result<(), &'static str> {
        let of = self.of.get_or_insert_with(|| Arc::clone(&found.of));
        if !Arc::ptr_eq(of, &found.of) && !is_same(of, &found.of) {
            return Err("its messages are of several types");
        }
        let bytes = found.bytes();
        let len = match &of.cdr {
            Some(cdr) => cdr.decoded_len(bytes).ok_or("a message is no value of its type")?,
            None if of.array.is_some() || of.described.raw().is_some() => bytes.len(),
            None => return Err("its channel does not say of which type they are"),
        };
        if *self.len.get_or_insert(len) != len {
            return Err("its messages are of several lengths");
        }
        match &of.cdr {
            None => self.values.extend_from_slice(bytes),
            Some(cdr) => {
                let begin = self.values.len();
                self.values.resize(begin + len, 0);
                let decoded = cdr.decode(bytes, &mut self.values[begin..]);
                decoded.ok_or("a message is no value of its type")?;
            }
        }
        Ok(())
    }

    /// Returns the values as one array.
    fn array<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(of) = self.of.take() else { return Ok(None) };
        let count = self.count;
        let values = Bound::new(py, BagBytes::own(std::mem::take(&mut self.values), true))?;
        let len = self.len.unwrap_or(0);
        if let Some(layout) = of.layout(len) {
            // One message shows numpy what a record is.
            let one = Bound::new(py, BagBytes::with_layout(vec![0; len], layout))?;
            let one = ASARRAY.get(py)?.call1((one,))?;
            let mut shape: Vec<usize> = one.getattr("shape")?.extract()?;
            shape.insert(0, count);
            let shape = PyTuple::new(py, shape)?;
            return NDARRAY.get(py)?.call1((shape, one.getattr("dtype")?, values)).map(Some);
        }
        let Some(dtype) = of.described.dtype(py)? else { return Ok(None) };
        let is_slice = of.described.description().is_some_and(|one| one.is_slice());
        let size: usize = dtype.getattr("itemsize")?.extract()?;
        if of.described.raw().is_some_and(|raw| raw.tail().is_some()) {
            // All tails are of one length.
            let text = py.import("outlive._payload")?;
            let tail: Bound<'_, PyAny> = text.call_method1("tail_type", (dtype, len))?;
            return NDARRAY.get(py)?.call1(((count,), tail, values)).map(Some);
        }
        match is_slice {
            true => {
                let each = len.checked_div(size).unwrap_or(0);
                NDARRAY.get(py)?.call1(((count, each), dtype, values)).map(Some)
            }
            false => NDARRAY.get(py)?.call1(((count,), dtype, values)).map(Some),
        }
    }
}

/// Whether two channels have values of one type: a topic that was made anew has another channel.
fn is_same(one: &BagChannel, other: &BagChannel) -> bool {
    one.described.description() == other.described.description()
        && one.array == other.array
        && one.cdr.is_some() == other.cdr.is_some()
}

fn column<'py>(
    py: Python<'py>,
    dtype: &str,
    count: usize,
    bytes: Vec<u8>,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = Bound::new(py, BagBytes::own(bytes, true))?;
    NDARRAY.get(py)?.call1(((count,), DTYPE.get(py)?.call1((dtype,))?, bytes))
}

/// Returns log times, publish times, sequence numbers, and the values, if they are wanted.
pub(crate) fn columns<'py>(
    py: Python<'py>,
    source: &Arc<Source>,
    wanted: Wanted,
    topic: &str,
    with_values: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut walk = detached(py, || Walk::begin(source, wanted)).raised(py)?;
    let mut gathered = Gathered::default();
    loop {
        let more = detached(py, || {
            let more = walk.take_some(|found| gathered.take(&found, with_values))?;
            Ok::<_, Error>(more)
        });
        if !more.raised(py)? {
            break;
        }
        py.check_signals()?;
    }
    if let Some(why) = gathered.refused {
        return Err(raise(py, "WrongKind", refusal(topic, &source.path, why)));
    }
    let count = gathered.count;
    let log = column(py, "datetime64[ns]", count, std::mem::take(&mut gathered.log_times))?;
    let publish = column(py, "datetime64[ns]", count, std::mem::take(&mut gathered.publish_times))?;
    let sequences = column(py, "u4", count, std::mem::take(&mut gathered.sequences))?;
    let values = gathered.array(py)?.unwrap_or_else(|| py.None().into_bound(py));
    PyTuple::new(py, [log, publish, sequences, values])
}

fn refusal(topic: &str, path: &Path, why: &str) -> String {
    format!(
        "'{}' of {} is no array: {why}; iterate over its messages",
        topic.escape_debug(),
        path.display()
    )
}
