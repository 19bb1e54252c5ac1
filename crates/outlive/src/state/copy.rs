//! Copying bytes that another process may be writing at the same moment.
//!
//! Word by word, by atomics: what is read while it is written is of no use, and is thrown away when the stamp says so, but
//! reading it is no data race. All orders are Relaxed: the fences stand beside the stamps, in `read.rs` and `write.rs`.

use crate::shim::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();
/// Words that are copied without looking at the end.
const STRIDE: usize = 8;

/// Copies the first `len` bytes out of the words.
///
/// # Safety
/// `to` is good for writing `len` bytes, and `words` hold as many.
#[inline]
pub(super) unsafe fn copy_out(words: &[AtomicU64], to: *mut u8, len: usize) {
    debug_assert!(len <= words.len() * WORD);
    let whole = len / WORD;
    let mut at = 0;
    while at + STRIDE <= whole {
        for word in 0..STRIDE {
            // SAFETY: `at + word` is below `whole`; the caller's promise for both sides.
            unsafe {
                let value = words.get_unchecked(at + word).load(Ordering::Relaxed);
                to.add((at + word) * WORD).cast::<u64>().write_unaligned(value);
            }
        }
        at += STRIDE;
    }
    while at < whole {
        // SAFETY: as above.
        unsafe { to.add(at * WORD).cast::<u64>().write_unaligned(words.get_unchecked(at).load(Ordering::Relaxed)) };
        at += 1;
    }
    if !len.is_multiple_of(WORD) {
        // SAFETY: `whole` is below the number of words, as it holds the bytes that are left; `len` bytes fit into `to`.
        unsafe {
            let last = words.get_unchecked(whole).load(Ordering::Relaxed).to_ne_bytes();
            core::ptr::copy_nonoverlapping(last.as_ptr(), to.add(whole * WORD), len % WORD);
        }
    }
}

/// Copies the bytes into the words; of the last word, what is beyond them becomes 0. What does not fit is left out.
#[inline]
pub(super) fn copy_in(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(whole.len())) {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        let bytes: Vec<u8> = (1..=200).collect();
        for len in 0..bytes.len() {
            let words: Vec<AtomicU64> = (0..len.div_ceil(WORD)).map(|_| AtomicU64::new(u64::MAX)).collect();
            copy_in(&words, &bytes[..len]);
            let mut back = vec![0xee; len + 8];
            // SAFETY: as many bytes on both sides.
            unsafe { copy_out(&words, back.as_mut_ptr(), len) };
            assert_eq!(back[..len], bytes[..len]);
            assert_eq!(back[len..], [0xee; 8], "nothing beyond");
        }
    }
}
