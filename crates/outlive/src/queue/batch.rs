//! Batches: many messages in one slot, each behind its length in 4 little-endian bytes.

use core::borrow::Borrow;

use super::layout::{LARGEST_MESSAGE, MOST_BATCHED};
use crate::{Payload, SendError};

/// Packs the messages into one buffer and passes it to `send`, with their number.
pub(super) fn pack<M: Payload + ?Sized, B: Borrow<M>>(
    messages: &[B],
    send: impl FnOnce(&[u8], u32) -> Result<(), SendError>,
) -> Result<(), SendError> {
    let len: u64 = messages.iter().map(|message| message.borrow().bytes().len() as u64 + 4).sum();
    if len > LARGEST_MESSAGE || messages.len() > MOST_BATCHED {
        return Err(SendError::TooLarge { len, max: LARGEST_MESSAGE });
    }
    BUFFER.with(|buffer| {
        // A buffer that the thread keeps. A caller's `Borrow` that itself sends finds it in use and
        // gets a new one.
        let mut packed = buffer.take();
        packed.clear();
        packed.reserve(len as usize);
        for message in messages {
            let message = message.borrow().bytes();
            packed.extend_from_slice(&(message.len() as u32).to_le_bytes());
            packed.extend_from_slice(message);
        }
        let result = send(&packed, messages.len() as u32);
        if packed.capacity() <= KEPT {
            buffer.set(packed);
        }
        result
    })
}

/// Buffers larger than this are freed after use.
const KEPT: usize = 1 << 20;

thread_local! {
    static BUFFER: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
}

/// A batch in shared memory: its bytes, and the number of its messages.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) bytes: *const u8,
    pub(super) len: usize,
    pub(super) count: u32,
}

// SAFETY: it points into the mapping, which all threads share and which lives as long as the
// receiver.
unsafe impl Send for Batch {}

/// Finds the message that begins at `at`, and where the next one begins; `None` when the bytes are
/// damaged.
pub(super) fn next(packed: &[u8], at: usize) -> Option<(core::ops::Range<usize>, usize)> {
    let start = at.checked_add(4)?;
    let len: [u8; 4] = packed.get(at..start)?.try_into().ok()?;
    let end = start.checked_add(u32::from_le_bytes(len) as usize)?;
    (end <= packed.len()).then_some((start..end, end))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again_and_garbage_does_not() {
        let messages = ["", "a", "four", "zwölf"].map(str::as_bytes);
        pack::<[u8], _>(&messages, |packed, count| {
            assert_eq!(count, 4);
            let mut at = 0;
            for message in messages {
                let (range, next) = next(packed, at).expect("packed above");
                assert_eq!(&packed[range], message);
                at = next;
            }
            assert_eq!(next(packed, at), None);
            Ok(())
        })
        .expect("sent");
        assert_eq!(next(&[0xff; 8], 0), None);
        assert_eq!(next(&[1, 0, 0], 0), None);
    }
}
